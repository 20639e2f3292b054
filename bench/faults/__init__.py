"""Faults that a served model can have without anybody noticing, each with a seed and an undo."""
