"""What runs inside the vLLM server, loaded through its own options; never a fork or patch."""
