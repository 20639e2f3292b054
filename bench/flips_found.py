"""How many single flipped bits does the live-weights fingerprint find in the memory of a running vLLM?

    python -m bench.flips_found [ENDPOINT] [--flips 1000] [--seed 1] [--model DIR] [--work DIR] [--out FILE]

Each flip is drawn as the matrix draws them: in turn from attention, MLP, embedding and norms, any element and any of the
16 bits alike. It is made in place, the fingerprint is read and compared as ``quality weights live`` does, then the flip is
taken back and the same reading proves that nothing is left of it. A flip counts when all of this was done; each is one
line in the work folder, so the same command goes on after a kill. Without an address a server is started for it; one of
your own needs ``bench.faults.worker.FaultWorker`` and vLLM's development mode (``bench/faults/remote.py``).
"""

from __future__ import annotations

import argparse
import json
import statistics
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.errors_told import errors_told
from bench.faults.catalogue import FLIP_FAMILIES
from bench.faults.fault import Expected, Fault, Shim
from bench.faults.remote import DEV_ENV, FaultyServer, RemoteWorker
from bench.faults.weight_change import Weights
from bench.faults.weight_steps import Step, drawn_flips, seed_of
from bench.faults.worker_weights import module_of
from bench.matrix.record import NAME, SERVER_ARGS, START_TIMEOUT_S
from bench.measures import machine, share
from bench.packaged import packaged_model
from quality_lib import settings
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, running
from quality_lib.adapters.files.line_journal import LineJournal
from quality_lib.adapters.model.safetensors_files import TensorPlace, tensors_of
from quality_lib.adapters.vllm.live_weights import LiveFingerprint, take_fingerprint
from quality_lib.errors import BadInput, OutsideFailure

FLIPS = 1000
BITS = tuple(range(16))
JOURNAL = "flips.jsonl"
AGAIN = "run the same command again: it goes on where it stopped"
MOST_NAMES = 20
Say = Callable[[str], None]


@dataclass(frozen=True)
class Drawn:
    """One flip that is to be made."""

    number: int
    family: str
    tensor: str
    """As the model's files call it."""
    element: int
    bit: int
    before: str
    after: str
    """The element's value with the bit flipped; texts, since JSON knows no infinity."""

    @property
    def changes_value(self) -> bool:
        """Whether the two values differ: a zero that changes its sign is as large as before."""
        return float(self.before) != float(self.after)


@dataclass(frozen=True)
class Outcome:
    """A flip that was made, read, taken back, and proved to be gone."""

    flip: Drawn
    is_found: bool
    changed: tuple[str, ...]
    """Tensors that the fingerprint names, as vLLM calls them."""
    read_s: float
    """Of the reading that looked for it."""
    seconds: float
    """Of everything, the proof included."""

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Outcome:
        """Read one line of the journal."""
        return cls(**{**row, "flip": Drawn(**row["flip"]), "changed": tuple(row["changed"])})

    @property
    def is_named(self) -> bool:
        """Whether one of the named tensors belongs to the module that holds the flipped one."""
        return any(name.startswith(module_of(self.flip.tensor)) for name in self.changed)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("endpoint", nargs="?", help="a running server; default: one of its own")
    parser.add_argument("--flips", type=int, default=FLIPS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", type=Path, help="folder of safetensors that the server serves")
    parser.add_argument("--work", type=Path, help="folder of what was done so far")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    with errors_told():
        _run(args)


def _run(args: argparse.Namespace) -> None:
    model = args.model or packaged_model()
    work = args.work or settings.home() / "bench-flips"
    work.mkdir(parents=True, exist_ok=True)
    flips = drawn(model, args.flips, args.seed)
    journal = LineJournal(work / JOURNAL, asdict, Outcome.from_json, again=AGAIN)
    try:
        refuse_other_flips(journal, flips)
        if len(journal.entries) < len(flips):
            with _served(args.endpoint, model, work) as endpoint:
                flip_all(endpoint, flips, args.seed, journal, _say)
    finally:
        journal.close()
    counts = result_of(flips, journal.entries)
    text = json.dumps({**machine(), "model": model.name, "seed": args.seed, **counts}, indent=2)
    print(text)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text + "\n", encoding="utf-8")


@contextmanager
def _served(endpoint: str | None, model: Path, work: Path) -> Generator[str]:
    if endpoint:
        yield endpoint
        return
    spec = EngineSpec(model, NAME, SERVER_ARGS, env=DEV_ENV, drain_s=5.0)
    with running(LocalEngine(work / "engine"), spec, START_TIMEOUT_S) as instance:
        yield instance.endpoint


def fault_of(number: int, seed: int) -> Fault:
    """Return the fault of a number: its family in turn, one bit of it by the seed."""
    families = list(FLIP_FAMILIES.values())
    step = Step("flip", families[number % len(families)], bits=BITS, count=1)
    own = seed_of(seed, "live flip", str(number))
    return Fault(2, f"live-flip-{number}", "live flip", Weights((step,)), own, Expected.CHANGED)


def drawn(model: Path, count: int, seed: int) -> list[Drawn]:
    """Draw flips for the tensors of a model folder.

    Raises:
        BadInput: the folder holds no model, or one whose elements do not have 16 bits.
    """
    places = tensors_of(model)
    sizes = {name: place.size // 2 for name, place in places.items()}
    families = list(FLIP_FAMILIES)
    found = []
    for number in range(count):
        fault = fault_of(number, seed)
        assert isinstance(fault.change, Weights)
        (flip,) = drawn_flips(sizes, fault.change.steps[0], fault.seed)
        values = _values(places[flip.tensor], flip.element, flip.bit)
        family = families[number % len(families)]
        found.append(Drawn(number, family, flip.tensor, flip.element, flip.bit, *values))
    return found


def _values(place: TensorPlace, element: int, bit: int) -> tuple[str, str]:
    """Return an element with and without the flip, as texts."""
    if place.dtype not in {"BF16", "F16"}:
        raise BadInput(f"'{place.name}' is {place.dtype}; flips are of 16 bits", file=place.file)
    with place.file.open("rb") as file:
        file.seek(place.offset + 2 * element)
        (bits,) = struct.unpack("<H", file.read(2))

    def value(told: int) -> str:
        is_half = place.dtype == "F16"
        data = struct.pack("<H", told) if is_half else struct.pack("<I", told << 16)
        return str(struct.unpack("<e" if is_half else "<f", data)[0])

    return value(bits), value(bits ^ 1 << bit)


def refuse_other_flips(journal: LineJournal[Outcome], flips: Sequence[Drawn]) -> None:
    """Refuse a journal of another model or seed; what it holds beyond ``flips`` is no matter.

    Raises:
        BadInput: naming the first line that is not the draw of that number.
    """
    for line, (flip, outcome) in enumerate(zip(flips, journal.entries, strict=False), 1):
        if flip != outcome.flip:
            raise BadInput(
                "holds flips of another model or seed",
                file=journal.path,
                line=line,
                fix="give another --work",
            )


def flip_all(
    endpoint: str,
    flips: Sequence[Drawn],
    seed: int,
    journal: LineJournal[Outcome],
    say: Say = lambda _: None,
) -> None:
    """Make every flip that the journal lacks.

    Raises:
        OutsideFailure: the server does not answer, or was changed before the first flip.
        NotMended: a flip could not be taken back; it is not counted.
    """
    worker = RemoteWorker(endpoint)
    server = FaultyServer(worker, Shim())
    began, missing = time.monotonic(), flips[len(journal.entries) :]
    try:
        if (now := take_fingerprint(endpoint)).is_changed:
            names = ", ".join(_names(now)[:3])
            raise OutsideFailure(f"{endpoint} was changed before any flip: {names}; start it anew")
        for done, flip in enumerate(missing, 1):
            outcome = _one(server, flip, fault_of(flip.number, seed))
            journal.append(outcome)
            left = (time.monotonic() - began) / done * (len(missing) - done)
            say(
                f"{len(journal.entries)}/{len(flips)} bit {flip.bit} of {flip.tensor}: "
                f"{'found' if outcome.is_found else 'MISSED'} in {outcome.seconds:.1f} s, "
                f"about {left / 60:.0f} min left"
            )
    finally:
        worker.close()


def _one(server: FaultyServer, flip: Drawn, fault: Fault) -> Outcome:
    began = time.monotonic()
    server.harm(fault)
    told = take_fingerprint(server.worker.endpoint)
    server.mend(is_proved=True)
    seconds = round(time.monotonic() - began, 3)
    return Outcome(flip, told.is_changed, tuple(_names(told)), round(told.wall_s, 3), seconds)


def _names(told: LiveFingerprint) -> list[str]:
    return [str(one["name"]) for one in told.changed]


def result_of(flips: Sequence[Drawn], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Count; an unfinished bench is told by ``flips`` below ``wanted``."""
    done = outcomes[: len(flips)]
    found = [one for one in done if one.is_found]
    missed = [one.flip for one in done if not one.is_found]
    return {
        "wanted": len(flips),
        "flips": len(done),
        "found": _found(done),
        "found_of_changed_values": _found([one for one in done if one.flip.changes_value]),
        "named_of_found": share(sum(one.is_named for one in found), len(found)),
        "mended": len(done),
        "missed_tensors": dict(Counter(flip.tensor for flip in missed).most_common(MOST_NAMES)),
        "missed": [asdict(flip) for flip in missed[:MOST_NAMES]],
        "by_family": _by(done, lambda flip: flip.family),
        "by_bit": _by(done, lambda flip: flip.bit),
        "median_read_s": _median([one.read_s for one in done]),
        "median_flip_s": _median([one.seconds for one in done]),
        "target": 1.0,
        "is_met": len(done) == len(flips) and not missed,
    }


def _found(done: Sequence[Outcome]) -> dict[str, Any]:
    return share(sum(one.is_found for one in done), len(done))


def _by(done: Sequence[Outcome], key: Callable[[Drawn], Any]) -> dict[str, dict[str, Any]]:
    groups: dict[Any, list[Outcome]] = {}
    for one in done:
        groups.setdefault(key(one.flip), []).append(one)
    return {str(name): _found(group) for name, group in sorted(groups.items())}


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 3) if values else None


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
