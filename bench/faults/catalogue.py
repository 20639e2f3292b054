"""The twenty rows of the silent-fault matrix as values; ``docs/matrix.md`` tells them in words.

Numbers and injections follow the benchmark protocol; where a row is drawn often (single flips), a name carries
the number of its draw and the draw is its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.faults.adapter_folder import ATTENTION, RANK, SHARE
from bench.faults.engine_changes import Cache, Flags, Logits, Rope
from bench.faults.fault import Change, Expected, Fault
from bench.faults.folder_changes import Config, Template, Tokenizer
from bench.faults.quantised import LINEAR, W8A8
from bench.faults.request_change import Parameters, Truncation
from bench.faults.weight_change import Weights
from bench.faults.weight_steps import Step

EVERY = ("*",)
MATRICES = (*LINEAR, "model.embed_tokens.weight")
FLIP_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "attention": ATTENTION,
    "mlp": ("model.layers.*.mlp.*_proj.weight",),
    "embedding": ("model.embed_tokens.weight",),
    "norm": ("*norm.weight",),
}
"""Single flips are drawn from these in turn, because by size alone no norm would ever be drawn."""

TOP_EXPONENT = 14
OTHER_BITS = (*range(14), 15)
THETA = 100_000.0
"""Of the packaged model."""


@dataclass(frozen=True)
class Sizes:
    """How many draws of the rows that are drawn often."""

    top_flips: int = 200
    other_flips: int = 500
    many_flips: int = 30
    draws: int = 30
    """Of every other random row."""
    first: int = 0
    """Number of the first draw: another one gives other bits, tensors and noise."""

    def numbers(self, count: int) -> range:
        """Return the numbers of so many draws."""
        return range(self.first, self.first + count)


FULL = Sizes()
MEDIUM = Sizes(top_flips=16, other_flips=16, many_flips=2, draws=2, first=1000)
"""Its draws are none of the full form's, nor of the recording that the statistics were chosen on (0 to 15)."""
SHORT = Sizes(top_flips=4, other_flips=4, many_flips=1, draws=1)


@dataclass(frozen=True)
class Given:
    """What the catalogue cannot know by itself."""

    template: str = ""
    """The healthy chat template."""
    layers: int = 30
    tuned: Mapping[int, Path] | None = None
    """Folders of really fine-tuned weights, by number of steps."""


def catalogue(given: Given, sizes: Sizes = FULL) -> tuple[Fault, ...]:
    """Return every fault of the matrix, row by row. Row 20 is composed from recordings (``matrix.mixture``)."""
    rows: tuple[Callable[[Given, Sizes], Sequence[Fault]], ...] = (
        _flips, _zeroed, _rounded, _cache, _rope, _sampling, _sampler, _penalty, _template, _context,
        _tokenizer, _adapter, _tiny_change, _garbage,
    )  # fmt: skip
    return tuple(fault for row in rows for fault in row(given, sizes))


def short_form(given: Given) -> tuple[Fault, ...]:
    """Return the dozen faults of the short form: one of each way of injection that needs no other server."""
    wanted = (
        "top-flip-0", "top-flip-1", "flip-0", "flips-100-0", "zero-o-mid", "int8", "int4", "cache-zero-mid",
        "rope-10000", "temperature-0.7", "sampler-second", "repetition-1.1", "no-system-prompt",
        "context-head", "adapter-0", "noise-2^-7-0", "nan",
    )  # fmt: skip
    by_name = {fault.name: fault for fault in catalogue(given, SHORT)}
    return tuple(by_name[name] for name in wanted)


def _flips(given: Given, sizes: Sizes) -> list[Fault]:
    families = list(FLIP_FAMILIES)

    def one(draw: int, bits: tuple[int, ...]) -> Change:
        family = families[draw % len(families)]
        return Weights((Step("flip", FLIP_FAMILIES[family], bits=bits, count=1),))

    top = [
        Fault(1, f"top-flip-{n}", "top flip", one(n, (TOP_EXPONENT,)), n, is_gross=True)
        for n in sizes.numbers(sizes.top_flips)
    ]
    other = [
        Fault(2, f"flip-{n}", "other flip", one(n, OTHER_BITS), n, Expected.CHANGED)
        for n in sizes.numbers(sizes.other_flips)
    ]
    many = [
        Fault(3, f"flips-{count}-{n}", f"{count} flips",
              Weights((Step("flip", EVERY, bits=tuple(range(16)), count=count),)), n, is_gross=True)
        for count in (10, 100) for n in sizes.numbers(sizes.many_flips)
    ]  # fmt: skip
    return [*top, *other, *many]


def _zeroed(given: Given, sizes: Sizes) -> list[Fault]:
    layers = {"first": 0, "mid": given.layers // 2, "last": given.layers - 1}
    parts = {
        "q": "self_attn.q_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
        "down": "mlp.down_proj", "norm": "input_layernorm",
    }  # fmt: skip
    return [
        Fault(4, f"zero-{part}-{place}", "zeroed tensor",
              Weights((Step("zero", (f"model.layers.{layer}.{name}.weight",)),)), is_gross=True)
        for part, name in parts.items() for place, layer in layers.items()
    ]  # fmt: skip


def _rounded(given: Given, sizes: Sizes) -> list[Fault]:
    return [
        Fault(5, "int8", "int8 weights", Weights((Step("int8", LINEAR),)), expected=Expected.CHANGED),
        Fault(5, "w8a8", "int8 weights and activations", W8A8(), expected=Expected.CHANGED),
        Fault(6, "int4", "int4 weights", Weights((Step("int4", LINEAR),)), is_gross=True),
    ]  # fmt: skip


def _cache(given: Given, sizes: Sizes) -> list[Fault]:
    mid, last = given.layers // 2, given.layers - 1
    every = given.layers
    return [
        Fault(7, "cache-fp8", "rounded cache", Cache("round_fp8", every), expected=Expected.CHANGED),
        Fault(7, "cache-fp8-server", "rounded cache", Flags(("--kv-cache-dtype", "fp8")),
              expected=Expected.CHANGED),
        *(Fault(8, f"cache-zero-{name}", "harmed cache", Cache("zero_block", layer))
          for name, layer in (("first", 0), ("mid", mid), ("last", last), ("every", every))),
        *(Fault(8, f"cache-swap-{name}", "harmed cache", Cache("swap_blocks", layer))
          for name, layer in (("mid", mid), ("every", every))),
        *(Fault(8, f"cache-value-{n}", "harmed cache", Cache("scale_value", mid), n)
          for n in sizes.numbers(sizes.draws)),
    ]  # fmt: skip


def _rope(given: Given, sizes: Sizes) -> list[Fault]:
    config = "rope_parameters.rope_theta"
    return [
        *(Fault(9, f"rope-{theta:.0f}", "rotary base", Rope(theta), is_gross=theta != 9e4)
          for theta in (1e4, 2e5, 9e4)),
        Fault(9, "rope-rounded", "rotary base", Rope(THETA, is_rounded=True), expected=Expected.CHANGED),
        Fault(9, "rope-config", "rotary base", Config({config: 1e4}), is_gross=True),
    ]  # fmt: skip


def _sampling(given: Given, sizes: Sizes) -> list[Fault]:
    return [
        *(Fault(10, f"temperature-{t}", "temperature", Parameters({"temperature": t}), is_gross=True)
          for t in (0.7, 0.9, 1.1, 1.3)),
        *(Fault(11, name, "nucleus", Parameters(fields), is_gross=True)
          for name, fields in (("top-p-0.95", {"top_p": 0.95}), ("top-p-0.9", {"top_p": 0.9}),
                               ("top-k-1", {"top_k": 1}), ("min-p-0.1", {"min_p": 0.1}))),
        Fault(10, "seed-off-by-one", "seed", Parameters({"seed": 43}), expected=Expected.CHANGED),
    ]  # fmt: skip


def _sampler(given: Given, sizes: Sizes) -> list[Fault]:
    return [
        Fault(12, "sampler-second", "sampler", Logits("second", 0.01)),
        Fault(12, "sampler-drop-top", "sampler", Logits("drop_top", 0.01)),
    ]


def _penalty(given: Given, sizes: Sizes) -> list[Fault]:
    return [
        Fault(13, f"repetition-{by}", "penalty",
              Parameters({"repetition_penalty": by}, is_for_greedy=True), is_gross=by > 1.05)
        for by in (1.02, 1.1)
    ]  # fmt: skip


def _template(given: Given, sizes: Sizes) -> list[Fault]:
    return [
        Fault(14, name, "template", Template(name.replace("-", "_"), given.template), is_gross=True)
        for name in ("doubled-bos", "no-system-prompt", "alpaca", "missing-newline")
    ]


def _context(given: Given, sizes: Sizes) -> list[Fault]:
    return [
        *(Fault(15, f"context-{part}", "context", Truncation(part, 0.2), is_gross=True)
          for part in ("head", "tail", "middle")),
        Fault(15, "context-short", "context", Flags(("--max-model-len", "256")), is_gross=True),
    ]  # fmt: skip


def _tokenizer(given: Given, sizes: Sizes) -> list[Fault]:
    return [Fault(16, "tokenizer-permuted", "tokenizer", Tokenizer(200), 1, is_gross=True)]


def _adapter(given: Given, sizes: Sizes) -> list[Fault]:
    return [
        Fault(17, f"adapter-{n}", "adapter",
              Weights((Step("adapter", ATTENTION, amount=SHARE, count=RANK),)), n)
        for n in sizes.numbers(sizes.draws)
    ]  # fmt: skip


def _tiny_change(given: Given, sizes: Sizes) -> list[Fault]:
    def family(name: str, op: str, powers: Sequence[int]) -> list[Fault]:
        return [
            Fault(18, f"{name}-2^-{power}-{n}", f"TinyChange {name}",
                  Weights((Step(op, MATRICES, amount=2.0**-power),)), n, Expected.CHANGED)
            for power in powers for n in sizes.numbers(1 if op == "prune_small" else sizes.draws)
        ]  # fmt: skip

    tuned = [
        Fault(18, f"tuned-{steps}", "TinyChange tuned", Weights((), str(folder)), steps, Expected.CHANGED)
        for steps, folder in sorted((given.tuned or {}).items())
    ]  # fmt: skip
    return [
        *family("noise", "noise", range(3, 16, 2)),
        *family("prune-small", "prune_small", range(2, 11, 2)),
        *family("prune-random", "prune_random", range(4, 11, 2)),
        *tuned,
    ]


def _garbage(given: Given, sizes: Sizes) -> list[Fault]:
    loop = {"repetition_penalty": 0.5, "ignore_eos": True}
    return [
        *(Fault(19, how, "garbage", Logits(how), is_gross=True) for how in ("nan", "constant", "uniform")),
        Fault(19, "loop", "garbage", Parameters(loop, is_for_greedy=True), is_gross=True),
    ]  # fmt: skip
