"""GPU memory errors from NVML and from DCGM's exporter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from quality_lib.adapters.engine.gpu_health import gpus_of_dcgm, gpus_of_this_machine
from quality_lib.rollout.engine_reading import GpuHealth

EXPORTED = """\
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a",Hostname="one"} 48
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-b",Hostname="two"} 0
# TYPE DCGM_FI_DEV_ECC_DBE_VOL_TOTAL counter
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="0",UUID="GPU-a",Hostname="one"} 2
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",Hostname="one"} 40
"""


def exporter(text: str, status: int = 200) -> httpx.MockTransport:
    return httpx.MockTransport(lambda request: httpx.Response(status, text=text))


def test_dcgm() -> None:
    found, _ = gpus_of_dcgm("http://x:9400/metrics", transport=exporter(EXPORTED))
    assert found == (GpuHealth("GPU-a", 2, None, 48), GpuHealth("GPU-b", None, None, 0))


def test_only_the_gpus_of_the_service() -> None:
    found, _ = gpus_of_dcgm("http://x/metrics", 'Hostname="two"', exporter(EXPORTED))
    assert found == (GpuHealth("GPU-b", None, None, 0),)


@pytest.mark.parametrize(
    ("text", "status"), [("", 200), ("vllm:other 1\n", 200), ("<html>{", 200), (EXPORTED, 500)]
)
def test_an_exporter_that_tells_nothing(text: str, status: int) -> None:
    found, why = gpus_of_dcgm("http://x/metrics", transport=exporter(text, status))
    assert found is None
    assert why


class Nvml:
    """As much of NVML as is asked, with one GPU."""

    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0

    def __init__(self, *, count: int = 1, ecc: int | None = 3, starts: bool = True) -> None:
        self.count, self.ecc, self.starts = count, ecc, starts
        self.open = 0

    def nvmlInit(self) -> None:
        if not self.starts:
            raise RuntimeError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        return SimpleNamespace(index=index)

    def nvmlDeviceGetUUID(self, handle: Any) -> bytes:
        return b"GPU-a"

    def nvmlDeviceGetTotalEccErrors(self, *of: Any) -> int:
        if self.ecc is None:
            raise RuntimeError("Not Supported")
        return self.ecc

    def nvmlDeviceGetRemappedRows(self, handle: Any) -> tuple[int, int, int, int]:
        return (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("nvml", "gpus"),
    [
        (Nvml(), (GpuHealth("GPU-a", 3, True),)),
        (Nvml(ecc=None), (GpuHealth("GPU-a", None, True),)),
        (Nvml(count=0), None),
        (Nvml(starts=False), None),
    ],
)
def test_nvml(nvml: Nvml, gpus: Any) -> None:
    found, why = gpus_of_this_machine(nvml)
    assert found == gpus
    assert found or why
    assert nvml.open == 0


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    found, why = gpus_of_this_machine()
    assert found, why
