"""Checks of stored answers on disk: one JSON line each, on the disk before the next.

A calibration keeps its healthy checks in a folder of its own (``ReadingsFolder``); a golden check keeps what
it asked beside its run (``ReadingsJournal``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quality_lib.adapters.files.line_journal import LineJournal
from quality_lib.adapters.files.run_folder import write_json
from quality_lib.drift.reading import SCORED, Block, CheckReading, ProbeReading
from quality_lib.errors import BadInput, DigestMismatch, OutsideFailure

PLAN, READINGS = "calibration-plan.json", "readings.jsonl"
RECHECKS = "rechecks.jsonl"
"""In the folder of a golden check: what was asked of the server beside the run."""


class ReadingsJournal:
    """Keeps readings as they come; a kill loses at most the line that was being written."""

    def __init__(self, path: Path, again: str) -> None:
        """Open a journal, or go on with one; ``again`` is the advice after a full disk.

        Raises:
            BadInput: a whole line is no reading; names the line.
            OutsideFailure: the disk refuses.
        """
        self._journal = LineJournal(path, _to_row, _from_row, again=again)

    @property
    def readings(self) -> list[CheckReading]:
        """What was kept so far, in the order in which it was made."""
        return self._journal.entries

    def record(self, reading: CheckReading) -> None:
        """Append one reading; after this returns it survives a kill."""
        self._journal.append(reading)

    def close(self) -> None:
        """Release the file."""
        self._journal.close()


class ReadingsFolder(ReadingsJournal):
    """The healthy checks of one calibration, over all server starts."""

    def __init__(self, folder: Path, plan: Mapping[str, Any], *, resume: bool) -> None:
        """Open a folder for the checks that ``plan`` describes.

        Raises:
            BadInput: it holds checks already and ``resume`` is false.
            DigestMismatch: it holds checks of something else.
            OutsideFailure: the disk refuses.
        """
        self.folder = folder
        path = folder / READINGS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _settle(folder, plan)
        except OSError as error:
            raise OutsideFailure(f"{folder} cannot be written: {error}") from error
        super().__init__(path, "run the same command with --resume")
        if self.readings and not resume:
            self.close()
            raise BadInput(
                f"holds {len(self.readings)} healthy checks already",
                file=path,
                fix="add --resume to go on with them, or choose another --out",
            )


def _settle(folder: Path, plan: Mapping[str, Any]) -> None:
    path = folder / PLAN
    wanted = json.loads(json.dumps(plan))
    if not path.exists():
        write_json(path, wanted)
        return
    try:
        kept = json.loads(path.read_bytes())
        different = [name for name in wanted if kept.get(name) != wanted[name]]
    except (ValueError, AttributeError) as error:
        raise BadInput(f"cannot be read: {error}", file=path, fix="choose another --out") from None
    if different:
        name = different[0]
        raise DigestMismatch(
            f"holds checks of something else ({_shown(kept.get(name))}, now {_shown(wanted[name])}): "
            "healthy checks of two deployments must not be mixed",
            file=path,
            field=name,
            fix="choose another --out",
        )


def _shown(value: Any) -> str:
    return f"{len(value)} of them" if isinstance(value, list) else repr(value)


def _to_row(reading: CheckReading) -> dict[str, Any]:
    block = reading.block
    return {
        "check_id": reading.check_id,
        "at": reading.at,
        "start": block.start,
        "load": block.load,
        "cache": block.cache,
        "burst": reading.burst,
        "running": reading.running,
        "probes": [_probe_row(probe) for probe in reading.probes],
    }


def _from_row(row: Mapping[str, Any]) -> CheckReading:
    return CheckReading(
        check_id=str(row["check_id"]),
        at=str(row["at"]),
        block=Block(str(row["start"]), int(row["load"]), str(row["cache"])),
        probes=tuple(_probe(*probe) for probe in row["probes"]),
        burst=row["burst"],
        running=row.get("running"),  # older checks were not told
    )


def _probe_row(probe: ProbeReading) -> list[Any]:
    tokens: Any = list(probe.token_ids)
    if probe.channel in SCORED and tokens and len(tokens) == len(probe.logprobs):
        tokens = tokens[0]  # of a stored answer one number, repeated (``golden/reading.py``)
    row = [probe.case_id, probe.channel, tokens, list(probe.logprobs)]
    return row if probe.problem is None else [*row, probe.problem]


def _probe(
    case_id: str,
    channel: str,
    tokens: int | list[int],
    logprobs: list[Any],
    problem: str | None = None,
) -> ProbeReading:
    scores = tuple(None if x is None else float(x) for x in logprobs)
    ids = tuple(map(int, tokens)) if isinstance(tokens, list) else (int(tokens),) * len(scores)
    return ProbeReading(str(case_id), str(channel), ids, scores, problem=problem)
