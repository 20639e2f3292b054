"""How many bad answers the gates find, and how many healthy ones they wrong, on the labelled exchanges.

    python -m bench.gate_detection [--data DIR] [--out FILE] [--reference MODEL|off]

The data is split by prompt: thresholds were chosen on ``tune``, and ``test`` was not looked at. The promise is kept
or broken on ``test``, by what ``quality check`` asks: levels 1, 2 and 4 and the reference model. The same without
the model, and level 4 alone, stand beside it. The score of a detector is the rank of its outcome; the measures of
the reference model are scored by themselves as well.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gates_under_test import gates_by_level
from bench.measures import auroc, machine, share
from quality_lib import settings
from quality_lib.adapters.model.cached_similarity import CachedSimilarity
from quality_lib.adapters.model.reference_model import ReferenceModel
from quality_lib.adapters.model.source import DEFAULT_SOURCE
from quality_lib.exchanges.parse import parse_exchange
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.coherence import worst_excess, worst_perplexity
from quality_lib.gates.gate import Gate, judge
from quality_lib.gates.level_output import model_gates
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.reading import Gains, Readings
from quality_lib.jobs.reference_reading import alike_by, gains_of, readings_of
from quality_lib.records import Outcome

DATA = Path(__file__).parents[1] / "tests" / "data" / "exchanges"
SPLITS = ("test", "tune")
FLAGGED = (Outcome.FAILED, Outcome.SUSPECT)
MIN_FLAGGED = 0.95
MAX_HEALTHY_FAILED = 0.01
MAX_HEALTHY_SUSPECT = 0.03
OFF = "off"
RANK = {Outcome.FAILED: 2.0, Outcome.SUSPECT: 1.0}


@dataclass(frozen=True)
class Judged:
    row: dict[str, Any]
    outcome: Outcome
    reasons: tuple[str, ...]
    ranks: dict[str, float]
    """By gate: 2 failed, 1 suspect, 0 anything else."""


def judged(rows: Sequence[dict[str, Any]], gates: Sequence[Gate]) -> list[Judged]:
    found = []
    for row in rows:
        judgement = judge(parse_exchange(row), gates)
        ranks = {g.gate: RANK.get(g.verdict.outcome, 0.0) for g in judgement.gates}
        found.append(Judged(row, judgement.outcome, judgement.reasons, ranks))
    return found


def measured(rows: Sequence[dict[str, Any]], gates: Sequence[Gate]) -> dict[str, Any]:
    """Return shares, misses and false alarms by kind, and what each detector does alone."""
    found = judged(rows, gates)
    bad = [j for j in found if j.row["label"] == "bad"]
    healthy = [j for j in found if j.row["label"] == "healthy"]
    return {
        "bad_flagged": share(sum(j.outcome in FLAGGED for j in bad), len(bad)),
        "bad_failed": share(sum(j.outcome is Outcome.FAILED for j in bad), len(bad)),
        "healthy_failed": share(sum(j.outcome is Outcome.FAILED for j in healthy), len(healthy)),
        "healthy_suspect": share(sum(j.outcome is Outcome.SUSPECT for j in healthy), len(healthy)),
        "auroc": auroc([_rank(j) for j in bad], [_rank(j) for j in healthy]),
        "kinds": {"bad": _by_kind(bad), "healthy": _by_kind(healthy)},
        "missed": [_told(j) for j in bad if j.outcome not in FLAGGED],
        "false_alarms": [_told(j) for j in healthy if j.outcome in FLAGGED],
        "detectors": _detectors(bad, healthy),
    }


def _rank(one: Judged) -> float:
    return RANK.get(one.outcome, 0.0)


def _told(one: Judged) -> dict[str, Any]:
    return {"id": one.row["id"], "outcome": str(one.outcome), "reasons": list(one.reasons)}


def _by_kind(found: Sequence[Judged]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        counts[one.row["kind"]][str(one.outcome)] += 1
    return {kind: dict(sorted(counts[kind].items())) for kind in sorted(counts)}


def _detectors(bad: Sequence[Judged], healthy: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    table = {}
    for name in bad[0].ranks if bad else ():
        hits = [j.ranks[name] for j in bad]
        wrongs = [j.ranks[name] for j in healthy]
        kinds = Counter(j.row["kind"] for j in bad if j.ranks[name])
        alone = sum(1 for j in bad if j.ranks[name] and sum(1 for r in j.ranks.values() if r) == 1)
        table[name] = {
            "bad_flagged": sum(1 for h in hits if h),
            "flagged_by_no_other": alone,
            "healthy_flagged": sum(1 for w in wrongs if w),
            **auroc(hits, wrongs),
            "kinds": dict(kinds.most_common()),
        }
    return table


def measures(rows: Sequence[dict[str, Any]], readings: Readings, gains: Gains) -> dict[str, Any]:
    """Return how well each measure of the reference model parts the answers that it can be taken of."""
    found: dict[str, dict[str, list[float]]] = {
        name: {"bad": [], "healthy": []} for name in ("perplexity", "excess", "no_gain")
    }
    for row in rows:
        exchange = parse_exchange(row)
        gain = gains(exchange)
        if gain is not None:
            found["no_gain"][row["label"]].append(-gain)
        reading = readings(exchange)
        if reading is None:
            continue
        perplexity = worst_perplexity(reading, LearnedBounds().window)
        if perplexity is not None:
            found["perplexity"][row["label"]].append(perplexity)
            found["excess"][row["label"]].append(worst_excess(reading, LearnedBounds().window))
    return {
        name: {
            "answers": sum(map(len, by_label.values())),
            **auroc(by_label["bad"], by_label["healthy"]),
        }
        for name, by_label in found.items()
    }


def is_met(result: dict[str, Any]) -> bool:
    """Return whether what ``quality check`` asks keeps the promise on the rows nobody tuned on."""
    test = result["splits"]["test"][result["promise"]]
    return bool(
        test["bad_flagged"]["share"] >= MIN_FLAGGED
        and test["healthy_failed"]["share"] <= MAX_HEALTHY_FAILED
        and test["healthy_suspect"]["share"] <= MAX_HEALTHY_SUSPECT
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--reference", default=DEFAULT_SOURCE, help="a model, or 'off'")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = [
        json.loads(line)
        for label in ("healthy", "bad")
        for line in (args.data / f"{label}.jsonl").read_text("utf-8").splitlines()
    ]
    levels = gates_by_level()
    every = tuple(gate for gates in levels.values() for gate in gates)
    readings: Readings | None = None
    if args.reference != OFF:
        began = time.monotonic()
        model = ReferenceModel(args.reference, settings.home() / "models")
        exchanges = [parse_exchange(row) for row in rows]
        readings = readings_of(model, exchanges)
        gains = gains_of(model, exchanges, readings)
        seconds = round(time.monotonic() - began, 1)
        alike = alike_by(CachedSimilarity())
        of_model = model_gates(
            OutputLimits(), LearnedBounds(), readings=readings, gains=gains, alike=alike
        )
    splits: dict[str, dict[str, Any]] = {}
    for split in SPLITS:
        chosen = [row for row in rows if row["split"] == split]
        splits[split] = {
            "output_gates": measured(chosen, levels["4"]),
            "all_gates": measured(chosen, every),
        }
        if readings is not None:
            splits[split]["with_reference"] = measured(chosen, (*every, *of_model))
            splits[split]["reference_measures"] = measures(chosen, readings, gains)
    result = {
        **machine(),
        "rows": len(rows),
        "promise": "all_gates" if readings is None else "with_reference",
        "reference": args.reference,
        "reference_seconds": None if readings is None else seconds,
        "targets": {
            "bad_flagged": MIN_FLAGGED,
            "healthy_failed": MAX_HEALTHY_FAILED,
            "healthy_suspect": MAX_HEALTHY_SUSPECT,
        },
        "splits": splits,
    }
    if args.out:
        args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if args.json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        _print(result)
    sys.exit(0 if is_met(result) else 1)


def _print(result: dict[str, Any]) -> None:
    for split, by_gates in result["splits"].items():
        for gates, found in by_gates.items():
            if gates == "reference_measures":
                print(f"{split}, {gates}: {found}")
                continue
            print(f"{split}, {gates}:")
            for name in ("bad_flagged", "healthy_failed", "healthy_suspect"):
                told = found[name]
                low, high = told["interval"]
                print(
                    f"  {name:16} {told['hits']:4}/{told['of']:<4} "
                    f"{told['share'] or 0:7.2%} ({low:.2%} to {high:.2%})"
                )


if __name__ == "__main__":
    main()
