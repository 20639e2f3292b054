"""HTML pages and plots: the golden report, the score report, the post-mortem."""
