"""The port ``Engine``, the engine of local processes, and what its instances show of themselves."""
