"""What the mark ``gpu`` promises: such a test runs only where there is an NVIDIA GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

DEVICE = Path("/dev/nvidiactl")
"""Made by the driver; asking torch would cost every test run seconds."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is marked where no driver is loaded."""
    if item.get_closest_marker("gpu") is not None and not DEVICE.exists():
        pytest.skip("there is no NVIDIA GPU")
