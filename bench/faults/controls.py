"""Healthy variation that must stay silent, and changes that are changes without being worse."""

from __future__ import annotations

from dataclasses import dataclass

from bench.faults.catalogue import EVERY, FLIP_FAMILIES
from bench.faults.engine_changes import Flags, Nothing
from bench.faults.fault import Expected, Fault
from bench.faults.request_change import Dropped
from bench.faults.weight_change import Weights
from bench.faults.weight_steps import Step

MANTISSA = tuple(range(7))
LOADS = (1, 2, 8, 32)


@dataclass(frozen=True)
class Manner:
    """How a check is asked: what may vary between two healthy ones."""

    load: int = 1
    """Scored answers under way at a time, beside strangers; texts are drawn at this load or ``DECODE_LOAD``."""
    cache: str = "cold"
    """``warm``: every probe was asked before under the same salt."""
    order: int = 0
    """Seed of the order of the probes; 0 keeps it."""
    draws: bool = True
    """Whether seeded requests are sent. A prompt that is computed in parts ends vLLM's CPU engine when the request
    has a seed: its generator cannot be wound back."""


@dataclass(frozen=True)
class Control:
    """A change and the manner in which the check is asked under it."""

    fault: Fault
    manner: Manner = Manner()


def controls() -> tuple[Control, ...]:
    """Return all controls; the restart is that every start of the recorder is compared with the first."""
    silent = Expected.SILENT
    return (
        *(
            Control(_control(f"load-{load}", "load", silent), Manner(load=load))
            for load in LOADS
        ),
        Control(_control("cache-warm", "cache", silent), Manner(cache="warm")),
        Control(_control("reordered", "order", silent), Manner(order=7)),
        Control(Fault(0, "restart", "restart", Flags(()), expected=silent)),
        Control(
            Fault(0, "chunked-prefill", "prefill",
                  Flags(("--enable-chunked-prefill", "--max-num-batched-tokens", "64")), expected=silent),
            Manner(draws=False),
        ),
        Control(Fault(0, "one-dropped", "transport", Dropped(1), expected=silent)),
        Control(Fault(0, "float32", "precision", Flags(("--dtype", "float32")), expected=Expected.CHANGED)),
        *(
            Control(
                Fault(0, f"low-bit-{family}", "low bits",
                      Weights((Step("flip", patterns, bits=MANTISSA, count=1),)), 5, Expected.CHANGED)
            )
            for family, patterns in FLIP_FAMILIES.items()
        ),
        Control(
            Fault(0, "low-bits-10", "low bits",
                  Weights((Step("flip", EVERY, bits=MANTISSA, count=10),)), 5, Expected.CHANGED)
        ),
    )  # fmt: skip


def _control(name: str, kind: str, expected: Expected) -> Fault:
    return Fault(0, name, kind, Nothing(), expected=expected)
