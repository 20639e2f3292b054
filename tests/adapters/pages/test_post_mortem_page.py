"""The page of a post-mortem: whole, partial and hostile facts; one file without a script."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from quality_lib.adapters.pages.post_mortem_page import (
    post_mortem_json,
    render_post_mortem,
    seconds,
)
from quality_lib.rollout.journal import Event, Rejected
from quality_lib.rollout.post_mortem import post_mortem
from quality_lib.rollout.post_mortem_facts import Facts, FileFacts, TensorChange, TensorFacts
from tests.adapters.pages.test_report_html import HOSTILE, Page
from tests.builders import case_comparison, comparison, golden_result, golden_verdict
from tests.rollout.post_mortem_builders import AT, facts, nothing, record


def page_of(known: Facts) -> Page:
    page = Page(render_post_mortem(post_mortem(known)))
    assert page.open == []
    return page


def test_everything_that_is_known_is_there() -> None:
    page = page_of(facts())
    for words in (
        "chat is back on snapshot 5afe5afe5afe",
        "2 golden runs in a row failed and 41 % of the answers",  # why
        "a damaged copy",  # cause
        "likely",
        "100 % to the target",  # timeline
        "+6 min 30 s",
        "golden run g-2",  # inputs of the decision
        "not counted: older than 15 minutes",
        "not known",
        "Served before the rollback",  # worst cases
        "which lies on the river Seine",  # what the target answers now
        "400",  # requests
        "1 failed, 0 cut",
        "127.0.0.1:8001",
        "not in the route",
        "its golden set is bad: mean similarity 0.61",
        "model.layers.3.mlp.down_proj.weight",
        "272 of 272 tensors are as loaded",
        "vllm_version",
        "s3://evidence/chat/chat-0badc0de-0/evidence-abc123.tar.gz",
        "py-spy is not installed",
    ):
        assert words in page.text, words
    assert "What this report cannot tell" not in page.text


@pytest.mark.parametrize("state", ["open", "rolling", "done", "aborted", "failed"])
def test_from_nothing_but_the_record_it_says_so(state: Any) -> None:
    text = page_of(nothing(state=state)).text
    assert "What this report cannot tell" in text
    assert "No decision was recorded" in text
    assert "There is no golden check to show." in text
    assert "Nothing was measured" in text
    assert "The cause is not known." in text
    assert "None" not in text


@pytest.mark.parametrize("left_out", [
    "decision", "events", "phases", "table_before", "table_after", "rejected", "before", "after",
    "files", "tensors", "live", "compared", "evidence",
])  # fmt: skip
def test_each_part_may_be_missing(left_out: str) -> None:
    empty = Facts(record=record(), written_at=AT)
    page_of(facts(**{left_out: getattr(empty, left_out)}))


def test_no_script_and_nothing_from_outside() -> None:
    source = render_post_mortem(post_mortem(facts()))
    page = Page(source)
    assert not {"script", "link", "iframe", "object", "img"} & set(page.tags)
    assert not [value for name, value in page.attributes if name in {"src", "href"}]
    assert "@import" not in source
    assert "url(" not in source


def test_hostile_texts_are_only_text() -> None:
    case = case_comparison(HOSTILE, prompt=HOSTILE, baseline_text=HOSTILE, current_text=HOSTILE * 2)
    check = golden_result(
        verdict=golden_verdict(worst_cases=(HOSTILE,)), comparison=comparison(cases=(case,))
    )
    known = facts(
        record=record(reason=HOSTILE, mode=HOSTILE),
        decision={"policy": HOSTILE, "headline": HOSTILE, "conditions": [
            {"name": HOSTILE, "state": HOSTILE, "sentence": HOSTILE, "inputs": [
                {"name": HOSTILE, "value": HOSTILE, "at": HOSTILE, "state": HOSTILE}]},
            "nonsense", None,
        ]},
        events=(Event(AT, HOSTILE, HOSTILE),),
        rejected=(Rejected(HOSTILE, HOSTILE),),
        before=check,
        after=check,
        tensors=TensorFacts(0, (TensorChange(HOSTILE, HOSTILE, None, None, 0),)),
        end_reason=HOSTILE,
        problems=(HOSTILE,),
    )  # fmt: skip
    page = page_of(known)
    assert not {"script", "img", "style2"} & set(page.tags)
    assert page.tags.count("style") == 1
    assert "\x00" not in page.text


def test_a_flood_is_cut_and_said() -> None:
    change = TensorChange("t", "changed", 0.5, math.inf, 1)
    known = facts(
        events=tuple(Event(AT, "move", f"event {n}") for n in range(1000)),
        tensors=TensorFacts(10, (change,) * 500),
        files=FileFacts("/m", "5" * 64, True, 400, tuple(f"f{n}" for n in range(400))),
    )
    source = render_post_mortem(post_mortem(known))
    assert len(source) < 200_000
    assert "700 later events" in source
    assert "480 further tensors" in source
    assert "380 more files" in source
    assert "∞" in source


def test_the_json_holds_all_of_it_and_is_json() -> None:
    change = TensorChange("t", "changed", 0.5, math.inf, 1)
    known = facts(tensors=TensorFacts(100, (change,)), decision={"x": [math.nan]})
    text = post_mortem_json(post_mortem(known))
    data = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert data["facts"]["record"]["incident_id"] == "chat-0badc0de-0"
    assert data["causes"][0]["code"] == "weights_damaged"
    assert data["facts"]["tensors"]["changed"][0]["relative_l2"] == "Infinity"
    assert data["facts"]["before"]["comparison"]["cases"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (math.inf, "–"),
        (0.25, "0.2 s"),
        (42.4, "42 s"),
        (390, "6 min 30 s"),
        (7260, "2 h 01 min"),
    ],
)
def test_durations_for_people(value: float | None, words: str) -> None:
    assert seconds(value) == words
