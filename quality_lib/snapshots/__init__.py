"""What was served: manifests, root hashes, eligibility and the start-up check. Pure."""
