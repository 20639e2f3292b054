"""The commands of ``quality``, one module per noun."""
