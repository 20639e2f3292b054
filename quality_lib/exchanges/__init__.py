"""Exchanges of production: the record, the formats they come in, and how they are sampled. Pure."""
