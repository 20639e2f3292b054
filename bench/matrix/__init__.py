"""The silent-fault matrix: recordings of a server under every fault, and what each detector makes of them."""
