"""Keep the garbage collector away from what lives as long as the test run."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Six thousand collected tests are looked through at every full collection, for nothing."""
    gc.collect()
    gc.freeze()
