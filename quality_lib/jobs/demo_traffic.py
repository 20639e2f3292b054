"""The demo's users: how many answers they have got, and the score of what the guard recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from quality_lib.adapters.logs.shipped_log import await_shipped
from quality_lib.adapters.machine.own_command import run_quality
from quality_lib.exchanges.exchange import Exchange
from quality_lib.exchanges.parse import parse_exchange
from quality_lib.gates.gate import judge
from quality_lib.jobs.check import CheckGates, check_gates
from quality_lib.jobs.clock import utc_now
from quality_lib.records import Outcome
from quality_lib.settings import GateSettings

REQUESTS = 64
"""Above the fifty that a verdict needs; some 20 s on two cores."""

SHIP_TIMEOUT_S = 60.0


def score_traffic(
    since: datetime,
    service: str,
    log: Path,
    out: Path,
    *,
    config: Path,
    env: Mapping[str, str],
) -> dict[str, Any]:
    """Score the records of the traffic with ``quality logs score``, and publish the score to MLflow."""
    await_shipped(log, SHIP_TIMEOUT_S)
    # Object stores keep whole seconds.
    start = since.replace(microsecond=0)
    end = utc_now().replace(microsecond=0) + timedelta(seconds=1)
    scored = run_quality(
        *("logs", "score", "--service", service, "--out", str(out)),
        *("--from", start.isoformat(), "--to", end.isoformat()),
        config=config,
        env=env,
    )
    published = run_quality("logs", "publish", str(out), config=config, env=env)
    return {**scored, "report_url": published["report_url"]}


def garbage_test() -> Callable[[str, str], bool]:
    """Return a test of question and answer: whether a gate of level 4 says FAILED."""
    gates: CheckGates = check_gates(GateSettings())

    def is_garbage(question: str, text: str) -> bool:
        exchange: Exchange = parse_exchange({"prompt": question, "text": text})
        return judge(exchange, gates.answer).outcome is Outcome.FAILED

    return is_garbage
