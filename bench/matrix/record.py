"""The recorder: servers are started, harmed, asked and mended; every finished unit is a file that is never made again.

    python -m bench.matrix record [--short] [--minutes 60] [--work DIR] [--model DIR]

Exit code 75: time ran out; the same command goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import httpx

from bench.faults.engine_changes import Jitter
from bench.faults.fault import Fault, Shim, Target, Where
from bench.faults.model_copy import model_copy
from bench.faults.remote import DEV_ENV, EXTENSION, FaultyServer, NotMended, RemoteWorker
from bench.faults.request_change import ShimTransport
from bench.faults.weight_steps import seed_of
from bench.matrix.ask import Asker
from bench.matrix.parquet_files import write_checks
from bench.matrix.plan import Unit
from bench.matrix.probes import ProbeSet, Stored
from bench.matrix.progress import Progress
from bench.matrix.recording import Check, Head, Track
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, Instance, running
from quality_lib.adapters.vllm.http import Refused, VllmHttp
from quality_lib.errors import OutsideFailure

NAME = "chat"
SERVER_ARGS = (
    *("--max-model-len", "2048"),
    "--enforce-eager",
    # Two blocks even for short prompts, so that blocks can be exchanged.
    *("--block-size", "32"),
    *EXTENSION,
    "--trust-request-chat-template",
    *("--max-num-batched-tokens", "16384"),
)
JITTER = 1e-3
"""Relative noise of the noisy track, before the output head; ``docs/matrix.md`` has what it does to health."""
START_TIMEOUT_S = 900.0
WRITTEN = ("config.json", "tokenizer.json", "chat_template.jinja")
MORE = 75
LONGEST_SLEEP_S = 0.2
"""Between two tries of a lost request: the server is on this machine."""


@dataclass(frozen=True)
class Place:
    """Where things lie and how long there is."""

    model: Path
    work: Path
    probes: ProbeSet
    until: float
    """On the monotonic clock."""

    @property
    def recordings(self) -> Path:
        """Return the folder of Parquet files."""
        return self.work / "recordings"

    def file(self, unit: Unit) -> Path:
        """Return the file of a unit."""
        return self.recordings / f"{unit.key}.parquet"

    def open(self, units: Sequence[Unit]) -> list[Unit]:
        """Return the units that are not recorded yet."""
        return [unit for unit in units if not self.file(unit).exists()]


def record(
    place: Place, shared: Sequence[Unit], alone: Sequence[Unit], serve: Serve | None = None
) -> bool:
    """Record what is missing; return whether everything is there.

    ``shared`` units use one server a start; each of ``alone`` has its own. ``serve`` starts a server and records
    units from it, as many as it gets done.
    """
    serve = serve or _serve
    progress = Progress(len(shared) + len(alone), len(place.open([*shared, *alone])))
    for _, group in groupby(shared, key=lambda unit: unit.start):
        missing = place.open(list(group))
        if missing and not _one_start(place, missing, progress, serve):
            return False
    for unit in place.open(alone):
        if time.monotonic() > place.until:
            return False
        assert unit.fault is not None
        with altered_model(place.model, place.work, unit.fault) as (model, flags):
            serve(place, model, flags, [unit], progress)
    return not place.open([*shared, *alone])


@contextmanager
def altered_model(model: Path, work: Path, fault: Fault) -> Generator[tuple[Path, tuple[str, ...]]]:
    """Give the folder and the arguments of a server that is broken from its start."""
    is_folder = Where.FOLDER in fault.change.places
    with model_copy(model, work / f"model-{fault.name}", WRITTEN) as folder:
        flags: list[str] = []
        fault.apply(Target(folder=folder if is_folder else None, flags=flags))
        yield folder, tuple(flags)


class ServerGone(Exception):
    """The server has ended under a fault, or is of no more use; what it said before is kept."""

    def __init__(self, found: list[Check], why: str) -> None:
        super().__init__(why)
        self.found = found


NOT_A_NUMBER = "Out of range float values"
"""With these words vLLM refuses a request whose scores are not numbers: JSON has none for them."""


def has_spoilt_cache(checks: Sequence[Check]) -> bool:
    """Whether NaN was computed, which stays in the KV cache when the weights are whole again.

    Blocks are not cleared when they are freed, and attention multiplies what is behind the end of a
    request by zero; zero times NaN is NaN. Seen with vLLM 0.32 on processors.
    """
    return any(NOT_A_NUMBER in (row.problem or "") for check in checks for row in check.rows)


Serve = Callable[[Place, Path, Sequence[str], Sequence[Unit], Progress], None]


def _one_start(place: Place, units: Sequence[Unit], progress: Progress, serve: Serve) -> bool:
    """Record the units of a start; a fault that ends the server costs another one.

    So does one whose undo was not exact: it is recorded anew, and twice in a row ends the recording.

    Raises:
        NotMended: the same unit could not be undone twice.
    """
    stuck = ""
    while missing := place.open(units):
        if time.monotonic() > place.until:
            return False
        try:
            serve(place, place.model, (), missing, progress)
        except NotMended as error:
            # Units are recorded in order: the first that is open is the one.
            if (key := place.open(units)[0].key) == stuck:
                raise
            stuck = key
            print(f"{key}: {error}; again on another server", file=sys.stderr, flush=True)
    return True


def _serve(
    place: Place,
    model: Path,
    flags: Sequence[str],
    units: Sequence[Unit],
    progress: Progress,
) -> None:
    spec = EngineSpec(model, NAME, (*SERVER_ARGS, *flags), env=DEV_ENV, drain_s=5.0)
    with running(LocalEngine(place.work / "engine"), spec, START_TIMEOUT_S) as instance:
        asyncio.run(record_units(place, instance, units, progress))


async def record_units(
    place: Place,
    instance: Instance,
    units: Sequence[Unit],
    progress: Progress,
    longest_sleep_s: float = LONGEST_SLEEP_S,
) -> None:
    """Record units until they are done, time runs out, or the server has ended."""

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(min(seconds, longest_sleep_s))

    shim, worker = Shim(), RemoteWorker(instance.endpoint)
    shimmed = VllmHttp(instance.endpoint, transport=ShimTransport(shim), sleep=sleep, timeout_s=600)
    async with shimmed, VllmHttp(instance.endpoint, timeout_s=600) as plain, _closing(worker):
        asker = Asker(shimmed, plain, NAME, place.probes)
        stored = await _stored(place, asker)
        server = FaultyServer(worker, shim)
        one = _Recorder(asker, server, worker, stored, instance.id)
        for unit in units:
            if time.monotonic() > place.until:
                break
            began = time.monotonic()
            is_gone = False
            try:
                checks = await one.unit(unit)
            except ServerGone as gone:
                checks, is_gone = gone.found, True
                print(f"{unit.key}: {gone}", file=sys.stderr, flush=True)
            write_checks(place.file(unit), checks)
            progress.told(unit, sum(len(c.rows) for c in checks), time.monotonic() - began)
            if is_gone:
                break


@asynccontextmanager
async def _closing(worker: RemoteWorker) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        worker.close()


@dataclass
class _Recorder:
    asker: Asker
    server: FaultyServer
    worker: RemoteWorker
    stored: Mapping[str, Stored]
    server_id: str
    prompts: Mapping[str, Sequence[int]] = field(default_factory=dict)

    async def unit(self, unit: Unit) -> list[Check]:
        """Record the checks of a unit and leave the server healthy.

        Raises:
            ServerGone: it did not survive; carries the checks.
            NotMended: it is not what it was.
        """
        found: list[Check] = []
        is_altered = unit.fault is not None and unit.fault.needs_restart
        if not self.prompts:
            self.prompts = await self.asker.prompts()
        try:
            with self._noise(unit):
                if unit.fault is not None and not is_altered:
                    self.server.harm(unit.fault)
                for number in range(unit.checks):
                    found.append(await self._check(unit, number))
                self.server.mend(is_proved=unit.fault is not None and unit.fault.touches_weights)
            if has_spoilt_cache(found):
                raise ServerGone(found, "NaN is left in its cache")
            # The healthy model, without noise, judges what was drawn; an altered server cannot.
            return found if is_altered else [await self._replayed(check) for check in found]
        except (NotMended, ServerGone):
            raise
        except (OutsideFailure, httpx.HTTPError, Refused) as error:
            if not found:
                raise
            # What a mended server refuses has nothing to do with what is asked.
            why = str(error) if isinstance(error, Refused) else "the server has ended"
            raise ServerGone(found, why) from None

    @contextmanager
    def _noise(self, unit: Unit) -> Generator[None]:
        if unit.track is not Track.NOISY:
            yield
            return
        undo = Jitter(JITTER).apply(
            Target(worker=self.worker), seed_of(unit.start, str(unit.block))
        )
        try:
            yield
        finally:
            undo()

    async def _replayed(self, check: Check) -> Check:
        return Check(check.head, await self.asker.replayed(check.rows, self.prompts))

    async def _check(self, unit: Unit, number: int) -> Check:
        check_id = f"{unit.key}-{number}"
        rows, seconds = await self.asker.check(check_id, unit.manner, self.stored)
        return Check(self._head(unit, number, check_id, seconds), rows)

    def _head(self, unit: Unit, number: int, check_id: str, seconds: float) -> Head:
        head = Head(
            check_id,
            unit.start,
            self.server_id,
            unit.track,
            block=unit.block,
            load=unit.manner.load,
            cache=unit.manner.cache,
            repeat=number,
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            seconds=round(seconds, 3),
        )
        return head if unit.fault is None else _of_fault(head, unit.fault)


def _of_fault(head: Head, fault: Fault) -> Head:
    return replace(
        head,
        fault=fault.name,
        number=fault.number,
        kind=fault.kind,
        expected=fault.expected,
        is_gross=fault.is_gross,
        seed=fault.seed,
    )


async def _stored(place: Place, asker: Asker) -> dict[str, Stored]:
    """Return the answers that all checks score: made once, by the first healthy server.

    Of several recorders the first to have them wins.
    """
    file = place.work / "stored.json"
    if not file.exists():
        made = {case: asdict(one) for case, one in (await asker.store()).items()}
        file.parent.mkdir(parents=True, exist_ok=True)
        own = file.with_suffix(f".{os.getpid()}")
        own.write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")
        with suppress(FileExistsError):
            file.hardlink_to(own)
        own.unlink()
    told = json.loads(file.read_text(encoding="utf-8"))
    return {
        case: Stored(one["text"], tuple(one["prompt_ids"]), tuple(one["token_ids"]))
        for case, one in told.items()
    }
