"""The statistics of drift: bands, rates, and the decision that a service has changed. Pure."""
