"""Entropy of next-token distributions, and the lower temperature of those that are too flat.

The part that both of vLLM's logits-processor interfaces share. It is loaded by vLLM alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch  # noqa: TID253  runs inside vLLM, which has long loaded it

from quality_lib.serving.entropy_layout import CORRECT_ARGUMENT, ID_ARGUMENT, request_key
from quality_lib.serving.entropy_writer import EntropyWriter

log = logging.getLogger(__name__)

GREEDY_BELOW = 1e-5
"""vLLM's own limit: a lower temperature is greedy."""


@dataclass(frozen=True)
class Correction:
    """When a step is drawn at a lower temperature."""

    max_entropy: float
    """Nats, at the request's own temperature."""
    temperature: float
    """What it is drawn at; never above the request's own."""


@dataclass(frozen=True)
class RequestArguments:
    """What one request asked of the processor."""

    key: int
    """0: nobody follows it."""
    temperature: float
    """0 for greedy requests, and for those that are not to be corrected."""


def request_arguments(params: Any, is_correcting: bool) -> RequestArguments:
    """Read a request's sampling parameters."""
    extra = params.extra_args or {}
    quality_id = extra.get(ID_ARGUMENT)
    temperature = float(params.temperature or 0.0)
    if not is_correcting or temperature < GREEDY_BELOW or extra.get(CORRECT_ARGUMENT) == "off":
        temperature = 0.0
    is_followed = isinstance(quality_id, str) and quality_id
    return RequestArguments(request_key(str(quality_id)) if is_followed else 0, temperature)


def check_arguments(params: Any) -> None:
    """Refuse arguments that mean nothing.

    Raises:
        ValueError: the server answers 400 with these words.
    """
    extra = params.extra_args or {}
    quality_id = extra.get(ID_ARGUMENT, "")
    if not isinstance(quality_id, str) or len(quality_id) > 256:
        raise ValueError(f"vllm_xargs.{ID_ARGUMENT} must be a text of at most 256 characters")
    if extra.get(CORRECT_ARGUMENT, "on") not in ("on", "off"):
        raise ValueError(f'vllm_xargs.{CORRECT_ARGUMENT} must be "on" or "off"')


class Entropies:
    """Computes the entropy of every row; keeps its working memory between steps."""

    def __init__(self) -> None:
        self._work: torch.Tensor | None = None

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        """Return nats per row in float32; NaN where logits hold NaN or infinity (masks do not)."""
        logits = logits.float()
        if logits.device.type != "cpu":
            return torch.special.entr(torch.softmax(logits, -1)).sum(-1)
        return self._on_cpu(logits)

    def _on_cpu(self, logits: torch.Tensor) -> torch.Tensor:
        # H = log Z - sum(p x): two fast passes. A logarithm per token is slow on CPUs, and so is
        # fresh memory at every step.
        shape = logits.shape
        if self._work is None or self._work.numel() < logits.numel():
            self._work = torch.empty(logits.numel(), dtype=torch.float32)
        p = torch.softmax(logits, -1, out=self._work[: logits.numel()].view(shape))
        top, where = logits.max(-1, keepdim=True)
        log_z = (top - p.gather(-1, where).log()).squeeze(-1)
        mean = torch.stack([torch.dot(a, b) for a, b in zip(p, logits, strict=True)])
        entropies = (log_z - mean).clamp_min_(0.0)
        odd = torch.isnan(entropies).nonzero().flatten()
        if len(odd):
            # A masked token is 0 times minus infinity above, and rightly nothing here.
            entropies[odd] = torch.special.entr(p[odd]).sum(-1)
        return entropies


class StepMeter:
    """Measures, corrects and reports one step at a time, without waiting for the device.

    On a GPU the numbers of a step are copied while the engine goes on, and written at the next
    step; on a CPU they are written at once.
    """

    def __init__(self, correction: Correction | None, writer: EntropyWriter | None) -> None:
        self.correction = correction
        self._writer = writer
        self._entropies = Entropies()
        self._own_entropies = Entropies()
        self._pending: tuple[Any, torch.Tensor, Any] | None = None
        self._is_off = False

    def step(
        self, logits: torch.Tensor, keys: Any, temperatures: torch.Tensor | None
    ) -> torch.Tensor:
        """Measure all rows; scale in place those that are too flat at their own temperature.

        ``keys``: one request key per row, on the host. ``temperatures``: per row, on the logits'
        device, 0 for rows that must stay as they are; ``None`` when that is all of them. When this
        fails it says so once and stops measuring: the engine goes on.
        """
        if self._is_off:
            return logits
        try:
            return self._step(logits, keys, temperatures)
        except Exception:
            log.exception("entropies are not measured any more in this process")
            self._is_off = True
            return logits

    def _step(
        self, logits: torch.Tensor, keys: Any, temperatures: torch.Tensor | None
    ) -> torch.Tensor:
        self._flush()
        if not logits.shape[0]:
            return logits
        entropies = self._entropies(logits)
        report = entropies.unsqueeze(0)
        if temperatures is not None and self.correction is not None:
            factors = self._factors(logits, entropies, temperatures, self.correction)
            if factors.device.type != "cpu" or bool((factors != 1.0).any()):
                logits.mul_(factors.unsqueeze(-1).to(logits.dtype))
            report = torch.stack([entropies, (factors != 1.0).float()])
        if self._writer is not None:
            self._report(report, keys)
        return logits

    def _factors(
        self,
        logits: torch.Tensor,
        entropies: torch.Tensor,
        temperatures: torch.Tensor,
        correction: Correction,
    ) -> torch.Tensor:
        may = temperatures > correction.temperature
        own = torch.where(may, temperatures, 1.0)
        if logits.device.type == "cpu":
            # Heat only raises entropy and cold only lowers it, so few rows need another look; on a
            # GPU a look at all of them costs less than asking which.
            is_flat = entropies > correction.max_entropy
            rows = (torch.where(is_flat, own < 1.0, own > 1.0) & may).nonzero().flatten()
            if len(rows):
                entropies = entropies.clone()
                entropies[rows] = self._own_entropies(logits[rows].float() / own[rows, None])
        else:
            entropies = self._own_entropies(logits.float() / own.unsqueeze(-1))
        # NaN is above nothing, so a row with it stays for others to see.
        too_flat = may & (entropies > correction.max_entropy)
        return torch.where(too_flat, own / correction.temperature, 1.0)

    def _report(self, report: torch.Tensor, keys: Any) -> None:
        if report.device.type == "cpu":
            self._write(report, keys)
            return
        host = torch.empty(report.shape, dtype=report.dtype, pin_memory=True)
        host.copy_(report, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._pending = (event, host, keys)

    def _flush(self) -> None:
        if self._pending is not None:
            event, host, keys = self._pending
            self._pending = None
            event.synchronize()
            self._write(host, keys)

    def _write(self, report: torch.Tensor, keys: Any) -> None:
        assert self._writer is not None  # noqa: S101  asked before anything is copied
        rows = report.numpy()
        corrected = int(rows[1].sum()) if len(rows) > 1 else 0
        self._writer.add(rows[0].astype(np.float64), keys, corrected)


def correction_of(env: Mapping[str, str] | None = None) -> Correction | None:
    """Return what the service's configuration asks for; ``None`` unless it enforces ``correct``.

    Raises:
        BadInput: the configuration or the bounds cannot be read; the server does not start.
    """
    from quality_lib.gates.level_stream import GATE as STREAM_GATE
    from quality_lib.gates.stream_windows import high_of
    from quality_lib.serving.learned_bounds import read_bounds
    from quality_lib.settings import CONFIG_ENV, SERVICE_ENV, load

    env = os.environ if env is None else env
    if not env.get(CONFIG_ENV):
        return None
    settings = load(Path(env[CONFIG_ENV]))
    name = env.get(SERVICE_ENV) or (
        next(iter(settings.services)) if len(settings.services) == 1 else ""
    )
    gates = settings.service(name).gates
    is_off = gates.reaction != "enforce" or STREAM_GATE in gates.disabled
    if is_off or gates.stream.reaction != "correct":
        return None
    learned = high_of(read_bounds(gates.bounds).step_entropy) if gates.bounds else None
    return Correction(
        gates.stream.max_step_entropy if learned is None else learned,
        gates.stream.correct_temperature,
    )


def is_first_rank() -> bool:
    """Whether this process reports: with tensor parallelism every rank may sample the same rows."""
    try:
        from vllm.distributed.parallel_state import get_tensor_model_parallel_rank

        return int(get_tensor_model_parallel_rank()) == 0
    except (ImportError, AssertionError):
        return True


def open_writer() -> EntropyWriter | None:
    """Return the writer of this process; ``None`` where nothing can be written: the engine goes on."""
    if not is_first_rank():
        return None
    try:
        return EntropyWriter()
    except OSError as error:
        log.warning("entropies cannot be told to the API server: %s", error)
        return None
