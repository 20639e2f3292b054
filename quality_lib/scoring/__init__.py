"""Scores of production answers: counts, rates, replay, and the verdict over a window. Pure."""
