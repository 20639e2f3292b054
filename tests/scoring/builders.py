"""Small parts of a scored window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.exchanges.row import Facts
from quality_lib.exchanges.sampling import Counts
from quality_lib.gates.gate import GateVerdict, Judgement, Level
from quality_lib.records import Outcome, Verdict
from quality_lib.scoring.result import SCHEMA, Depth, PartResult
from quality_lib.scoring.tally import Group, Kind, Score, Tallies, Tally, score_of
from quality_lib.scoring.worst import Worst, shown_row


def said(
    outcome: str, reason: str = "", level: Level = Level.OUTPUT, sentence: str = "it is so"
) -> GateVerdict:
    reason = reason or outcome.lower()
    return GateVerdict(f"gate_{reason}", level, Verdict(Outcome(outcome), reason, sentence))


def judgement(*verdicts: GateVerdict) -> Judgement:
    return Judgement(Outcome.PASSED, verdicts)


def score(*verdicts: GateVerdict) -> Score:
    return score_of(judgement(*verdicts))


GOOD = score(said("PASSED"))
LOW = score(said("FAILED", "loop_only"))


def tally(rows: int, low: int, **more: Any) -> Tally:
    fields = {
        "rows": rows,
        "judged": rows,
        "low": low,
        "weight": float(rows),
        "weight_squares": float(rows),
        "low_weight": float(low),
    }
    return Tally(**{**fields, **more})


def group(rows: int, low: int, kind: Kind = Kind.SERVICE, name: str = "", **more: Any) -> Group:
    return Group(kind, name, tally(rows, low, **more))


def exchange(number: int = 0, text: str | None = "fine", **more: Any) -> Exchange:
    fields: dict[str, Any] = {
        "id": f"r{number:04d}",
        "messages": ({"role": "user", "content": f"question {number}"},),
        "answer": Answer(text=text, finish_reason="stop"),
        "started_at": f"2026-03-01T00:00:{number % 60:02d}+00:00",
        "service": "chat",
    }
    return Exchange(**{**fields, **more})


def part(
    scores: Sequence[Score],
    index: int = 0,
    count: int = 1,
    counts: Counts | None = None,
    **more: Any,
) -> PartResult:
    tallies, worst = Tallies(), Worst()
    for number, one in enumerate(scores):
        tallies.add([one], 1.0, {Kind.MODEL: "m", Kind.STRATUM: "all"})
        row = shown_row(exchange(1000 * index + number), Facts(), one, "all", "log:1", lambda t: t)
        if worst.wants(one):
            worst.add(row)
    number = len(scores)
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        "service": "chat",
        "depth": Depth.QUICK,
        "start": "2026-03-01T00:00:00+00:00",
        "end": "2026-03-01T00:10:00+00:00",
        "index": index,
        "count": count,
        "counts": counts or Counts(objects=1, entries=number, scored=number, sampled=number),
        "groups": tallies.groups,
        "reasons": tallies.reasons,
        "worst": worst.rows,
        "replay": None,
        "notes": (),
        "seen": (f"seen{index}",),
        "duration_s": 1.0,
    }
    return PartResult(**{**fields, **more})
