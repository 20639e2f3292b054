"""This machine: its processes, ports, private files and old folders."""
