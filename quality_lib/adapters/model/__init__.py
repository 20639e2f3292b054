"""Model folders and small models: their source, weights, tokenizer, embeddings and references."""
