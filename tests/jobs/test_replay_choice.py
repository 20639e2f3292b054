"""Which sampled answers are replayed: only those whose prompt the log holds as the server read it."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.exchanges.row import Facts, Scored
from quality_lib.exchanges.sampling import Sampled
from quality_lib.jobs import deep_scoring
from quality_lib.scoring.replay import Skip
from tests.jobs.production_log import settings

WHOLE = Exchange(
    id="r", prompt="Hi", answer=Answer("Hello", token_ids=(1, 2), finish_reason="stop")
)


@pytest.mark.parametrize(
    ("change", "masked", "skipped"),
    [
        ({}, set(), {}),
        ({}, {"response"}, {}),
        ({}, {"request"}, {"prompt_masked": 5}),
        (
            {"prompt_token_ids": (5, 6)},
            {"request"},
            {},
        ),  # are dropped where they spell what is masked
        ({"prompt": None}, set(), {"no_prompt": 5}),  # the log holds its hash alone
    ],
)
def test_a_prompt_that_is_not_known_takes_no_place(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    masked: set[str],
    skipped: dict[str, int],
) -> None:
    async def replay_all(_: Any, exchanges: list[Exchange], __: Any) -> list[Skip]:
        await asyncio.sleep(0)
        asked.extend(e.id for e in exchanges)
        return [Skip.REFUSED] * len(exchanges)

    asked: list[str] = []
    monkeypatch.setattr(deep_scoring, "replay_all", replay_all)
    exchanges = [dataclasses.replace(WHOLE, id=f"r{n}", **change) for n in range(5)]
    exchanges += [dataclasses.replace(WHOLE, id=f"whole{n}") for n in range(5)]
    facts = [Facts(masked=frozenset(masked))] * 5 + [Facts()] * 5
    rows = [
        Sampled(Scored(e, f, "k", 1, e.id), "", 1.0) for e, f in zip(exchanges, facts, strict=True)
    ]
    known = settings(tmp_path, tmp_path, replay_endpoint="http://127.0.0.1:9", replay_rows=5)
    totals = deep_scoring.replay_answers(known.service("chat"), exchanges, rows, 1, lambda *_: None)
    told = {k: n for k, n in totals.skipped.items() if k != Skip.REFUSED.value}
    assert told == skipped
    assert len(asked) == 5
    if skipped:
        assert set(asked) == {f"whole{n}" for n in range(5)}
