"""The statistics of drift: noise bands from repeated healthy runs. Pure."""
