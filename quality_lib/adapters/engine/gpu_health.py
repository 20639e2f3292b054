"""Memory errors of GPUs: from NVML on the machine itself, or from DCGM's exporter by address."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from quality_lib.rollout.engine_reading import GpuHealth

TIMEOUT_S = 10.0

_UNCORRECTED = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
_REMAP_FAILED = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
_XID = "DCGM_FI_DEV_XID_ERRORS"
DCGM_FIELDS = (_UNCORRECTED, _REMAP_FAILED, _XID)

Seen = tuple[tuple[GpuHealth, ...] | None, str]
"""GPUs, or None and why."""


def gpus_of_this_machine(nvml: Any = None) -> Seen:
    """Ask NVML for every GPU of this machine; Xid errors are not among what it keeps.

    ``nvml``: the module to ask; default: pynvml, or the copy that vLLM brings.
    """
    if nvml is None:
        nvml = _nvml()
    if nvml is None:
        return None, "there is no NVML library for Python"
    try:
        nvml.nvmlInit()
    except Exception as error:  # noqa: BLE001  NVML's errors are made at run time
        return None, f"NVML does not start: {error}"
    try:
        return tuple(_one(nvml, i) for i in range(nvml.nvmlDeviceGetCount())) or None, "no GPU"
    except Exception as error:  # noqa: BLE001  the same
        return None, f"NVML does not answer: {error}"
    finally:
        nvml.nvmlShutdown()


def gpus_of_dcgm(
    address: str, only: str = "", transport: httpx.BaseTransport | None = None
) -> Seen:
    """Read DCGM's exporter at ``http://host:9400/metrics``.

    ``only``: a regular expression over the line's labels, ``Hostname="gpu-7"`` say, where the
    exporter or what federates it tells of more GPUs than the service's own.
    """
    try:
        with httpx.Client(transport=transport, timeout=TIMEOUT_S) as client:
            answer = client.get(address)
        answer.raise_for_status()
        families = list(text_string_to_metric_families(answer.text))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return None, f"{address} gives no metrics: {str(error) or type(error).__name__}"
    values: dict[str, dict[str, float]] = defaultdict(dict)
    for family in families:
        for sample in family.samples:
            labels = ",".join(f'{k}="{v}"' for k, v in sorted(sample.labels.items()))
            # The parser gives counters the ending that their names should have.
            field = sample.name.removesuffix("_total")
            if field in DCGM_FIELDS and re.search(only, labels):
                name = sample.labels.get("UUID") or f"gpu {sample.labels.get('gpu', '?')}"
                values[name][field] = sample.value
    if not values:
        return None, f"{address} tells of none of {', '.join(DCGM_FIELDS)}"
    return tuple(_from_dcgm(name, found) for name, found in sorted(values.items())), ""


def _from_dcgm(name: str, values: dict[str, float]) -> GpuHealth:
    remap, xid, uncorrected = (values.get(k) for k in (_REMAP_FAILED, _XID, _UNCORRECTED))
    return GpuHealth(
        name,
        None if uncorrected is None else int(uncorrected),
        None if remap is None else bool(remap),
        None if xid is None else int(xid),
    )


def _nvml() -> Any:
    try:
        import pynvml  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        try:
            from vllm.third_party import pynvml  # type: ignore[no-redef,unused-ignore]
        except ImportError:
            return None
    return pynvml


def _one(nvml: Any, index: int) -> GpuHealth:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetUUID(handle)
    return GpuHealth(
        name.decode() if isinstance(name, bytes) else str(name),
        _seen(
            lambda: int(
                nvml.nvmlDeviceGetTotalEccErrors(
                    handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
                )
            )
        ),
        _seen(lambda: bool(nvml.nvmlDeviceGetRemappedRows(handle)[3])),
    )


def _seen(read: Any) -> Any:
    """Return what NVML tells, or None: a GPU without ECC is no broken one."""
    try:
        return read()
    except Exception:  # noqa: BLE001  not supported by this device
        return None
