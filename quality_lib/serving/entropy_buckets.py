"""The buckets in which entropies are counted, in the engine and on ``/metrics`` alike."""

from __future__ import annotations

ENTROPY_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0)
"""Upper edges in nats; one more bucket has none. A uniform choice among 150,000 tokens has 11.9."""
