"""The evidence of an instance: collected, cleaned of secrets, packed and taken off the machine."""
