"""The demo's users: real requests through the guarded server, and the score of what it recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from quality_lib.adapters.client_traffic import send_traffic
from quality_lib.adapters.engine import Instance
from quality_lib.adapters.own_command import run_quality
from quality_lib.adapters.shipped_log import await_shipped
from quality_lib.errors import OutsideFailure
from quality_lib.jobs.golden import utc_now

REQUESTS = 64
"""Above the fifty that a verdict needs; some 20 s on two cores."""

SHIP_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Traffic:
    """What users have asked, and since when."""

    began: datetime
    requests: int
    seconds: float


def ask_as_users(instance: Instance) -> Traffic:
    """Send everyday requests; a request that fails ends the story, because garbage is no failure."""
    began = utc_now()
    sent = send_traffic(instance.endpoint, instance.served_name, REQUESTS)
    if sent.failed:
        raise OutsideFailure(
            f"{sent.failed} of {REQUESTS} requests failed, first: {sent.first_failure}"
        )
    return Traffic(began, sent.answered, sent.seconds)


def score_traffic(
    traffic: Traffic,
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
    start = traffic.began.replace(microsecond=0)
    end = utc_now().replace(microsecond=0) + timedelta(seconds=1)
    scored = run_quality(
        *("logs", "score", "--service", service, "--out", str(out)),
        *("--from", start.isoformat(), "--to", end.isoformat()),
        config=config,
        env=env,
    )
    published = run_quality("logs", "publish", str(out), config=config, env=env)
    return {**scored, "report_url": published["report_url"]}
