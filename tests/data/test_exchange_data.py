"""The labelled exchanges are what their README says."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from bench.exchanges import assemble, fresh_prompts, made_cases, prompts, written_cases
from bench.exchanges.collect import TWISTS, chosen, params_of, with_fresh_prompts
from bench.exchanges.faults import FAULTS
from quality_lib.exchanges.parse import parse_exchange

LABELS = ("healthy", "bad")
ROWS = {label: assemble.read(assemble.DATA / f"{label}.jsonl") for label in LABELS}
EVERY = [row for rows in ROWS.values() for row in rows]
NEEDED = {"id", "label", "kind", "why", "source", "split", "text", "finish_reason"}


def test_there_are_enough_of_both_in_both_splits() -> None:
    real = [row for row in ROWS["bad"] if row["source"].startswith("real model")]
    assert len(ROWS["healthy"]) >= 200
    assert len(ROWS["bad"]) >= 150
    assert len(real) > len(ROWS["bad"]) / 2
    for rows in ROWS.values():
        assert sum(row["split"] == "test" for row in rows) >= 100
        assert sum(row["split"] == "tune" for row in rows) >= 300


@pytest.mark.parametrize("label", LABELS)
def test_every_row_has_its_fields_and_is_an_exchange(label: str) -> None:
    for number, row in enumerate(ROWS[label], 1):
        assert set(row) >= NEEDED, row["id"]
        assert set(row) <= set(assemble.FIELDS), row["id"]
        assert row["label"] == label
        assert row["why"], row["id"]
        exchange = parse_exchange(row, file=f"{label}.jsonl", line=number)
        assert exchange.answer is not None
        assert exchange.last_asked.strip(), row["id"]


def test_ids_are_unique_and_follow_from_the_row() -> None:
    assert not [name for name, count in Counter(r["id"] for r in EVERY).items() if count > 1]
    assert [r["id"] for r in EVERY if assemble.identity(r) != r["id"]] == []


def test_no_answer_to_the_same_prompt_is_there_twice() -> None:
    seen = Counter(
        json.dumps([assemble.asked(r), r["text"], r.get("tool_calls"), r.get("usage")])
        for r in EVERY
    )
    assert max(seen.values()) == 1


def test_no_prompt_is_in_both_splits() -> None:
    splits = defaultdict(set)
    for row in EVERY:
        splits[" ".join(assemble.asked(row).lower().split())].add(row["split"])
        assert row["split"] == assemble.split_of(assemble.asked(row))
    assert [prompt for prompt, found in splits.items() if len(found) > 1] == []


def test_written_and_computed_cases_are_in_the_data_unchanged() -> None:
    """The files are the output of ``assemble``: whoever edits a source must run it."""
    again = assemble.assembled(assemble.from_data())
    for label in LABELS:
        assert {r["id"] for r in again[label]} == {r["id"] for r in ROWS[label]}


def test_computed_cases_are_the_same_each_time() -> None:
    assert made_cases.cases() == made_cases.cases()


def test_a_written_case_without_an_answer_mark_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cases.txt"
    path.write_text("#### table\nprompt without an answer\n", "utf-8")
    with pytest.raises(ValueError, match="table"):
        written_cases.read(path)


def test_a_written_case_is_read_with_its_extra_fields(tmp_path: Path) -> None:
    path = tmp_path / "cases.txt"
    path.write_text(
        '#### code {"finish_reason": "length"}\nask\nmore\n>>>>\n# one\n\ntwo\n', "utf-8"
    )
    (case,) = written_cases.read(path)
    expected = {
        "kind": "code",
        "prompt": "ask\nmore",
        "text": "# one\n\ntwo",
        "finish_reason": "length",
    }
    assert {name: case[name] for name in expected} == expected


def test_the_split_does_not_see_case_or_blanks() -> None:
    fresh = fresh_prompts.ALL[0].user
    assert assemble.split_of(fresh) == "test"
    assert assemble.split_of(f"  {fresh.upper()} ") == "test"
    assert assemble.split_of(prompts.ALL[0].user) == "tune"


def test_faults_are_told_apart_and_name_what_exists() -> None:
    assert len({f.name for f in FAULTS}) == len(FAULTS)
    assert {f.client for f in FAULTS} - {""} <= set(TWISTS)
    assert all(set(f.only) <= set(prompts.BY_ID) for f in FAULTS)
    assert {row["source"].split("fault ")[1].split(",")[0] for row in _of_faults()} <= {
        *(f.name for f in FAULTS), "healthy-greedy", "healthy-sampled", "healthy-plain",
        "fresh-sampled",
    }  # fmt: skip


def _of_faults() -> list[dict[str, Any]]:
    return [row for row in EVERY if row["source"].startswith("real model")]


def test_a_fault_asks_the_same_each_time() -> None:
    for fault in FAULTS:
        first, second = chosen(fault), chosen(fault)
        assert first == second
        assert [params_of(fault, p, n) for n, p in enumerate(first)] == [
            params_of(fault, p, n) for n, p in enumerate(second)
        ]


def test_every_fault_has_fresh_prompts_and_none_stands_among_the_others() -> None:
    known = {" ".join(p.user.lower().split()) for p in prompts.BY_ID.values()}
    fresh = {" ".join(p.user.lower().split()) for p in fresh_prompts.ALL}
    assert not known & fresh
    for fault in FAULTS:
        assert with_fresh_prompts(fault) == with_fresh_prompts(fault)
        assert {p.id for p in chosen(with_fresh_prompts(fault))} <= set(fresh_prompts.BY_ID)
        assert chosen(with_fresh_prompts(fault)), fault.name
