"""The jobs of the product, composed of decisions and adapters; every one is also a command."""
