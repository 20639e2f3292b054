"""The plan of a rollback as a page."""

from __future__ import annotations

from typing import Any

import pytest
from quality_airflow.plan_page import page

from tests.dags.conftest import plan_of

PLAN = plan_of("chat")["json"]


def test_a_page_tells_target_capacity_outage_steps_and_weights() -> None:
    lines = page(PLAN).splitlines()
    assert lines[0] == "## roll 'chat' back to snapshot bbbbbbbbbbbb"
    assert "- **Back to**: bbbbbbbbbbbb" in lines
    assert "- **Capacity**: 1 instance serves now" in lines
    assert "- **Outage**: none" in lines
    assert "| validate | re-hash \\| golden set | 90 s |" in lines
    assert "| 50 % | old 50 %, new 50 % |" in lines
    assert "dry run" not in page(PLAN)


def test_a_dry_run_says_so() -> None:
    assert page({**PLAN, "dry_run": True}).endswith("nothing was changed.\n")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "none"), (45, "about 45 s"), (600, "about 10 min"), (None, "length")],
)
def test_an_outage_is_never_hidden(seconds: float | None, said: str) -> None:
    plan = {**PLAN["plan"], "outage_s": seconds}
    assert said in page({**PLAN, "plan": plan})


@pytest.mark.parametrize(
    "result",
    [{}, {"plan": None}, {"plan": {"steps": "x", "moves": [1, None], "candidates": [None]}}],
)
def test_a_result_of_another_shape_still_gives_a_page(result: dict[str, Any]) -> None:
    assert page(result).startswith("## ")
