"""The hourly golden set: cases, runs, baselines, comparison and verdict. Pure."""
