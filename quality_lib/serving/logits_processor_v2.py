"""The logits processor for the interface of vLLM's model runner V2.

Loaded with ``--logits-processors quality_lib.serving.logits_processor_v2:EntropyProcessor``; the
server refuses it at start where the runner wants the first interface, and says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch  # noqa: TID253  this module is loaded by vLLM alone
from vllm.v1.worker.gpu.sample.logits_processor import (  # noqa: TID253  the class to derive from
    LogitsProcessor,
)

from quality_lib.serving.entropy_core import (
    StepMeter,
    check_arguments,
    correction_of,
    open_writer,
    request_arguments,
)


class EntropyProcessor(LogitsProcessor):
    """Measures every row's entropy before temperature; re-draws flat ones where configured.

    State is kept per request slot. With speculative decoding a request has several rows in a step;
    then all are counted and corrected, but none is given to a follower of the request, because
    rejected drafts are no steps of its answer.
    """

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request whose arguments for this processor mean nothing."""
        check_arguments(sampling_params)

    def __init__(
        self,
        vllm_config: Any,  # noqa: ARG002  vLLM's own signature
        req_states: Any,
        meter: StepMeter | None = None,
    ) -> None:
        self._meter = meter or StepMeter(correction_of(), open_writer())
        slots = req_states.max_num_reqs
        self._keys = np.zeros(slots, dtype=np.uint64)
        self._slot_temperatures = np.zeros(slots, dtype=np.float32)
        self._on_device = torch.zeros(slots, dtype=torch.float32, device=req_states.device)
        self._is_stale = False

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Take a request into a slot; always wants to be asked, because it measures every row."""
        row = request_arguments(sampling_params, self._meter.correction is not None)
        self._keys[req_idx] = row.key
        self._is_stale |= self._slot_temperatures[req_idx] != np.float32(row.temperature)
        self._slot_temperatures[req_idx] = row.temperature
        return True

    def apply_staged_writes(self) -> None:
        """Bring the slots' temperatures to the device, when any has changed."""
        if self._is_stale:
            self._on_device.copy_(torch.from_numpy(self._slot_temperatures))
            self._is_stale = False

    def apply(self, logits: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Measure the step."""
        slots = ctx.idx_mapping_np
        if len(slots) == logits.shape[0]:
            keys = self._keys[slots]
        else:
            keys = np.zeros(logits.shape[0], dtype=np.uint64)
        temperatures = None
        if self._slot_temperatures[slots].any():
            temperatures = self._on_device[ctx.expanded_idx_mapping]
        return self._meter.step(logits, keys, temperatures)
