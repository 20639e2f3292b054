"""A golden run on disk: a journal while it runs, Parquet and ``run.json`` when it is done.

While it runs: ``plan.json`` (what is being run) and ``answers.jsonl`` (one answer a line, written and
flushed before the next step, so a kill loses at most the line being written). When it is done:
``answers.parquet`` and, written last, ``run.json``; only with ``run.json`` is a run complete.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quality_lib.adapters.files.line_journal import LineJournal
from quality_lib.errors import BadInput, DigestMismatch, OutsideFailure
from quality_lib.golden.answer import Answer, Channel, Fault, GoldenRun, Probe

PLAN, JOURNAL, TABLE, RUN = "plan.json", "answers.jsonl", "answers.parquet", "run.json"


class RunFolder:
    """Recorder of one golden run in a folder."""

    def __init__(self, folder: Path, plan: Mapping[str, Any]) -> None:
        """Open a folder for the run that ``plan`` describes; an unfinished equal one is resumed.

        Raises:
            DigestMismatch: the folder holds the beginning of another run.
            OutsideFailure: the disk refuses.
        """
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if (folder / RUN).exists():
                raise BadInput(
                    "already holds a finished run", file=folder, fix="choose another --out"
                )
            self.plan = self._settle_plan(plan)
        except OSError as error:
            raise OutsideFailure(f"{folder} cannot be written: {error}") from error
        self._journal = LineJournal(
            folder / JOURNAL,
            _to_row,
            _from_row,
            again="run the same command again to resume",
            # An answer can be asked for again, and waiting for the disk would be felt at every probe.
            survives_power_loss=False,
        )
        self._answers = {answer.probe.key: answer for answer in self._journal.entries}

    def _settle_plan(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the identity of an unfinished run, so that run id and cache salt stay the same."""
        path = self.folder / PLAN
        if not path.exists():
            write_json(path, plan)
            return dict(plan)
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if kept.get("deployment_key") != plan.get("deployment_key"):
            # Answers of two deployments must not be mixed: begin again with the one that serves now.
            (self.folder / JOURNAL).unlink(missing_ok=True)
            write_json(path, plan)
            return dict(plan)
        refuse_another_run(self.folder, kept, plan)
        return kept

    def recorded(self) -> Mapping[str, Answer]:
        """Return the answers kept so far."""
        return self._answers

    def record(self, answer: Answer) -> None:
        """Append one answer to the journal."""
        self._journal.append(answer)
        self._answers[answer.probe.key] = answer

    def finish(self, run: GoldenRun) -> None:
        """Write the table and, last, ``run.json``; the journal goes when both are on disk."""
        try:
            self._journal.close()
            write_answers(self.folder / TABLE, run.answers)
            meta = {f.name: getattr(run, f.name) for f in dataclasses.fields(run)}
            del meta["answers"]
            write_json(self.folder / RUN, meta)
            (self.folder / JOURNAL).unlink()
            (self.folder / PLAN).unlink()
        except OSError as error:
            raise OutsideFailure(
                f"{self.folder} cannot be written: {error}. The answers are in {JOURNAL}; "
                "free some space and run the same command again."
            ) from error

    def close(self) -> None:
        """Release the journal."""
        self._journal.close()


def refuse_another_run(folder: Path, kept: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse a folder whose run asked something else, or somebody else.

    Raises:
        DigestMismatch: naming what differs.
    """
    for name in ("golden_digest", "service", "model", "endpoint", "reference_run_id"):
        if kept.get(name) != wanted.get(name):
            raise DigestMismatch(
                f"holds another run ({name} {kept.get(name)!r}, now {wanted.get(name)!r})",
                file=folder,
                fix="choose another --out, or remove that folder",
            )


def read_run(folder: Path) -> GoldenRun:
    """Load a finished run.

    Raises:
        BadInput: no such folder, an unfinished run, or one that cannot be read.
    """
    if not (folder / RUN).exists():
        if (folder / JOURNAL).exists():
            raise BadInput(
                "holds an unfinished run",
                file=folder,
                fix="run the same command again to resume it",
            )
        raise BadInput(
            "holds no golden run", file=folder, fix="pass a folder written by 'golden run'"
        )
    try:
        meta = json.loads((folder / RUN).read_text(encoding="utf-8"))
        return GoldenRun(**meta, answers=read_answers(folder / TABLE))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadInput(f"cannot be read: {error}", file=folder) from error


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file so that it is either whole or not there."""
    write_whole(path, json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True).encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is either whole and on disk, or not there."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def keep_whole(path: Path, content: bytes) -> None:
    """Write a file as ``write_whole`` does, and its folder where that is missing.

    Raises:
        OutsideFailure: the disk refuses.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise OutsideFailure(f"{path} cannot be written: {error}") from error


def write_answers(path: Path, answers: Mapping[str, Answer]) -> None:
    """Write answers as one Parquet table, a row each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([
        ("case_id", pa.string()),
        ("channel", pa.string()),
        ("attempt", pa.int32()),
        ("text", pa.string()),
        ("tool_calls", pa.string()),
        ("finish_reason", pa.string()),
        ("prompt_token_ids", pa.list_(pa.int32())),
        ("token_ids", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float64())),
        ("latency_ms", pa.float64()),
        ("fault", pa.string()),
        ("error", pa.string()),
    ])
    rows = [_to_row(answer) for answer in answers.values()]
    for row in rows:
        row["tool_calls"] = json.dumps(row["tool_calls"], ensure_ascii=False)
    part = path.with_name(path.name + ".part")
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), part, compression="zstd")
    part.replace(path)


def read_answers(path: Path) -> dict[str, Answer]:
    """Load what ``write_answers`` wrote."""
    import pyarrow.parquet as pq

    rows = pq.read_table(path).to_pylist()
    for row in rows:
        row["tool_calls"] = json.loads(row["tool_calls"])
    answers = [_from_row(row) for row in rows]
    return {answer.probe.key: answer for answer in answers}


def _to_row(answer: Answer) -> dict[str, Any]:
    row = {f.name: getattr(answer, f.name) for f in dataclasses.fields(answer)}
    probe = row.pop("probe")
    return {
        "case_id": probe.case_id,
        "channel": str(probe.channel),
        "attempt": probe.attempt,
        **row,
        "tool_calls": [dict(call) for call in answer.tool_calls],
        "fault": str(answer.fault) if answer.fault else None,
    }


def _from_row(row: Mapping[str, Any]) -> Answer:
    return Answer(
        probe=Probe(row["case_id"], Channel(row["channel"]), row["attempt"]),
        text=row["text"],
        tool_calls=tuple(row["tool_calls"]),
        finish_reason=row["finish_reason"],
        prompt_token_ids=tuple(row["prompt_token_ids"]),
        token_ids=tuple(row["token_ids"]),
        logprobs=tuple(row["logprobs"]),
        latency_ms=row["latency_ms"],
        fault=Fault(row["fault"]) if row["fault"] else None,
        error=row["error"],
    )
