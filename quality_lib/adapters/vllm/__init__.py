"""A running vLLM server: how it is started, asked, and what it says of itself."""
