"""Healthy checks on disk while they are collected: one JSON line each, on the disk before the next."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from quality_lib.adapters.files.run_folder import cut_last_line, write_json
from quality_lib.drift.reading import Block, CheckReading, ProbeReading
from quality_lib.errors import BadInput, DigestMismatch, OutsideFailure

PLAN, READINGS = "calibration-plan.json", "readings.jsonl"


class ReadingsFolder:
    """Keeps readings as they come; a kill loses at most the line that was being written."""

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
            self.readings = read_readings(path)
            if self.readings and not resume:
                raise BadInput(
                    f"holds {len(self.readings)} healthy checks already",
                    file=path,
                    fix="add --resume to go on with them, or choose another --out",
                )
            self._journal: IO[str] = path.open("a", encoding="utf-8")
        except OSError as error:
            raise OutsideFailure(f"{folder} cannot be written: {error}") from error

    def record(self, reading: CheckReading) -> None:
        """Append one reading; after this returns it survives a kill."""
        try:
            self._journal.write(json.dumps(_to_row(reading)) + "\n")
            self._journal.flush()
            os.fsync(self._journal.fileno())
        except OSError as error:
            raise OutsideFailure(
                f"{self.folder / READINGS} cannot be written: {error}. Free some space and run the "
                "same command with --resume."
            ) from error
        self.readings.append(reading)

    def close(self) -> None:
        """Release the journal."""
        self._journal.close()


def read_readings(path: Path) -> list[CheckReading]:
    """Load the readings of a folder; none without the file. A line cut by a kill is taken away.

    Raises:
        BadInput: a whole line is no reading; names the line.
    """
    if not path.exists():
        return []
    *lines, tail = path.read_bytes().split(b"\n")
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(_from_row(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"is no healthy check: {error!r}",
                file=path,
                line=number,
                fix="remove that line and run the same command with --resume",
            ) from error
    if tail:
        cut_last_line(path)
    return found


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
        "probes": [
            [p.case_id, p.channel, p.token_ids[0] if p.token_ids else None, list(p.logprobs)]
            for p in reading.probes
        ],
    }


def _from_row(row: Mapping[str, Any]) -> CheckReading:
    return CheckReading(
        check_id=str(row["check_id"]),
        at=str(row["at"]),
        block=Block(str(row["start"]), int(row["load"]), str(row["cache"])),
        probes=tuple(_probe(*probe) for probe in row["probes"]),
        burst=row["burst"],
    )


def _probe(case_id: str, channel: str, token: int | None, logprobs: list[Any]) -> ProbeReading:
    # Scored tokens are one number, repeated (``golden/reading.py``); only whole answers are kept here.
    scores = tuple(None if x is None else float(x) for x in logprobs)
    tokens = () if token is None else (int(token),) * len(scores)
    return ProbeReading(str(case_id), str(channel), tokens, scores)
