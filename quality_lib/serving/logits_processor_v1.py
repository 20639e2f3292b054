"""The logits processor for vLLM's first interface, which every runner but V2 uses.

Loaded with ``--logits-processors quality_lib.serving.logits_processor_v1:EntropyProcessor``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch  # noqa: TID253  this module is loaded by vLLM alone
from vllm.v1.sample.logits_processor.interface import (  # noqa: TID253  the class to derive from
    LogitsProcessor,
    MoveDirectionality,
)

from quality_lib.serving.entropy_core import (
    RequestArguments,
    StepMeter,
    check_arguments,
    correction_of,
    open_writer,
    request_arguments,
)

NOBODY = RequestArguments(0, 0.0)


class EntropyProcessor(LogitsProcessor):
    """Measures every row's entropy before temperature; re-draws flat ones where configured."""

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request whose arguments for this processor mean nothing."""
        check_arguments(sampling_params)

    def __init__(
        self,
        vllm_config: Any,  # noqa: ARG002  vLLM's own signature
        device: torch.device,
        is_pin_memory: bool,  # noqa: ARG002
        meter: StepMeter | None = None,
    ) -> None:
        self._meter = meter or StepMeter(correction_of(), open_writer())
        self._device = device
        self._rows: dict[int, RequestArguments] = {}
        self._size = 0
        self._keys: Any = np.zeros(0, dtype=np.uint64)
        self._temperatures: torch.Tensor | None = None

    def is_argmax_invariant(self) -> bool:
        """Return False, though greedy rows are never changed: else greedy batches pass unmeasured,
        and rows would be seen after their temperature."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Follow requests that came, went or moved within the batch."""
        if batch_update is None:
            return
        rows = self._rows
        for index in batch_update.removed:
            rows.pop(index, None)
        for index, params, _, _ in batch_update.added:
            rows[index] = request_arguments(params, self._meter.correction is not None)
        for first, second, direction in batch_update.moved:
            moved, other = rows.pop(first, None), rows.pop(second, None)
            if moved is not None:
                rows[second] = moved
            if direction == MoveDirectionality.SWAP and other is not None:
                rows[first] = other
        self._size = -1

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Measure the step; the rows of the logits are the batch's requests in order."""
        if self._size != logits.shape[0]:
            self._lay_out(logits.shape[0])
        return self._meter.step(logits, self._keys, self._temperatures)

    def _lay_out(self, size: int) -> None:
        known = [self._rows.get(i, NOBODY) for i in range(size)]
        self._size = size
        self._keys = np.array([row.key for row in known], dtype=np.uint64)
        temperatures = [row.temperature for row in known]
        self._temperatures = (
            torch.tensor(temperatures, dtype=torch.float32, device=self._device)
            if any(temperatures)
            else None
        )
