"""Put the labelled test data together: what was written, what was computed, what the real model said and was kept.

    python -m bench.exchanges.assemble [--candidates FILE] [--fresh-candidates FILE]

``kept.txt`` and ``kept-fresh.txt`` name the candidates of ``collect`` that were read and called bad or healthy; the
others are dropped. Without a file of candidates the model's answers are taken from the data as they are.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.exchanges import fresh_prompts, made_cases, written_cases

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "tests" / "data" / "exchanges"
KEPT, KEPT_FRESH = HERE / "kept.txt", HERE / "kept-fresh.txt"
FRESH = "-fresh"
"""Ends the names of the files whose written cases are of the test half."""
LABELS = ("healthy", "bad")
FIELDS = (
    "id", "label", "kind", "why", "source", "split", "prompt", "messages", "text", "finish_reason", "params",
    "tools", "tool_calls", "usage", "response_format", "expected_prompt_tokens", "nonce",
)  # fmt: skip


def asked(row: dict[str, Any]) -> str:
    """Return what the caller wrote last, which decides the split."""
    if row.get("messages"):
        return str(row["messages"][-1]["content"])
    return str(row["prompt"])


def split_of(prompt: str) -> str:
    """Return ``test`` for the fresh prompts, else ``tune``; one prompt is never in both, whoever answered it."""
    return "test" if _folded(prompt) in _fresh_prompts() else "tune"


def _folded(prompt: str) -> str:
    return " ".join(prompt.lower().split())


@functools.cache
def _fresh_prompts() -> frozenset[str]:
    written = (
        asked(row)
        for path in written_cases.WRITTEN.glob(f"*{FRESH}.txt")
        for row in written_cases.read(path)
    )
    return frozenset(map(_folded, (*written, *(prompt.user for prompt in fresh_prompts.ALL))))


def identity(row: dict[str, Any]) -> str:
    """Return an id that depends on prompt and answer alone."""
    told = {name: row.get(name) for name in ("text", "tool_calls", "finish_reason", "usage")}
    text = json.dumps([asked(row), told], sort_keys=True, ensure_ascii=False)
    return f"{row['label']}-{row['kind']}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def finished(row: dict[str, Any], label: str) -> dict[str, Any]:
    whole = {**row, "label": label, "why": row.get("why") or "an ordinary answer to what was asked"}
    whole["split"] = split_of(asked(row))
    whole["id"] = identity(whole)
    return {name: whole[name] for name in FIELDS if name in whole}


def kept_rows(candidates: Path, names: Path = KEPT) -> list[tuple[dict[str, Any], str]]:
    """Return the candidates that a list of kept ones names, with its labels.

    A line is ``LABEL CANDIDATE [KIND [WHY]]``; kind and reason are the fault's own where they are not given.
    """
    lines = candidates.read_text("utf-8").splitlines()
    by_id = {row["id"]: row for row in map(json.loads, lines)}
    kept = []
    for line in names.read_text("utf-8").splitlines():
        label, name, *more = line.split(" ", 3)
        if name not in by_id:
            print(f"no candidate {name}", file=sys.stderr)
            continue
        row = {**by_id[name]}
        if label == "healthy":
            row |= {"kind": "real_model", "why": ""}
        row |= dict(zip(("kind", "why"), more, strict=False))
        kept.append((row, label))
    return kept


def from_data(split: str | None = None) -> list[tuple[dict[str, Any], str]]:
    """Return the model's answers that stand in the data, those of one split or all."""
    rows = [row for label in LABELS for row in read(DATA / f"{label}.jsonl")]
    return [
        (row, row["label"])
        for row in rows
        if row["source"].startswith("real model") and split in {None, split_of(asked(row))}
    ]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def assembled(model_rows: Iterable[tuple[dict[str, Any], str]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows by label, in a fixed order, without doubles."""
    rows: dict[str, dict[str, dict[str, Any]]] = {label: {} for label in LABELS}
    labelled: list[tuple[dict[str, Any], str]] = []
    for path in sorted(written_cases.WRITTEN.glob("*.txt")):
        label = "bad" if path.name.startswith("bad") else "healthy"
        labelled += [(row, label) for row in written_cases.read(path)]
    labelled += [(row, "healthy") for row in made_cases.cases()]
    for row, label in [*labelled, *model_rows]:
        whole = finished(row, label)
        rows[label].setdefault(whole["id"], whole)
    return {label: list(found.values()) for label, found in rows.items()}


def write(rows: Sequence[dict[str, Any]], path: Path) -> None:
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--candidates", type=Path)
    parser.add_argument("--fresh-candidates", type=Path)
    args = parser.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    model_rows = kept_rows(args.candidates) if args.candidates else from_data("tune")
    if args.fresh_candidates:
        model_rows += kept_rows(args.fresh_candidates, KEPT_FRESH)
    else:
        model_rows += from_data("test")
    for label, rows in assembled(model_rows).items():
        write(rows, DATA / f"{label}.jsonl")
        tests = sum(row["split"] == "test" for row in rows)
        print(f"{label}: {len(rows)} rows, {tests} of them to test", file=sys.stderr)


if __name__ == "__main__":
    main()
