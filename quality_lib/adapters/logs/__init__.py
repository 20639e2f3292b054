"""Logs of exchanges in folders and S3: listed, sampled, read; scores and judged rows on disk."""
