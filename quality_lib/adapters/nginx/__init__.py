"""The route through nginx: its configuration, its process, and what it did with every request."""
