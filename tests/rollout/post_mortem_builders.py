"""Facts of an incident with defaults, so that a test names only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from quality_lib.golden.result import GoldenResult
from quality_lib.records import Summary, Tri
from quality_lib.rollout.incident import IncidentRecord
from quality_lib.rollout.journal import Event, Rejected
from quality_lib.rollout.ports import Backend, RouteTable, Served
from quality_lib.rollout.post_mortem_facts import (
    Compared,
    Facts,
    FileFacts,
    KeptEvidence,
    LiveFacts,
    Phase,
    TensorChange,
    TensorFacts,
)
from tests.builders import case_comparison, comparison, golden_result, golden_verdict, reason

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
TARGET = "5afe" * 16
BAD = "0bad" * 16


def record(**more: Any) -> IncidentRecord:
    given: dict[str, Any] = {
        "incident_id": "chat-0badc0de-0",
        "service": "chat",
        "state": "done",
        "opened_at": AT,
        "closed_at": AT + timedelta(minutes=9, seconds=20),
        "bad_deployment_key": "0badc0de12345678",
        "bad_snapshot_id": None,
        "target_snapshot_id": TARGET,
        "mode": "approve-first",
        "reason": "2 golden runs in a row failed and 41 % of the answers are low quality",
        "url": "",
    }
    return IncidentRecord(**given | more)


def decision() -> dict[str, Any]:
    def given(
        source: str, name: str, value: str, limit: str, state: str, **more: Any
    ) -> dict[str, Any]:
        at = (AT - timedelta(minutes=5)).isoformat()
        return {"source": source, "name": name, "at": at, "value": value, "limit": limit,
                "state": state, "counted": True, "why_not": "", **more}  # fmt: skip

    return {
        "action": "rollback",
        "policy": "(A and B) or C",
        "policy_state": "yes",
        "headline": "chat is bad: A and B hold",
        "conditions": [
            {
                "name": "A",
                "state": "yes",
                "sentence": "2 golden runs in a row are below 0.80",
                "inputs": [
                    given("golden run", "g-2", "0.212", "0.80", "yes"),
                    given("golden run", "g-1", "0.231", "0.80", "yes"),
                ],
            },
            {
                "name": "B",
                "state": "yes",
                "sentence": "41 % of 200 answers are low quality",
                "inputs": [given("score", "s-9", "41 %", "5 %", "yes")],
            },
            {
                "name": "C",
                "state": "unknown",
                "sentence": "no signal could be read",
                "inputs": [
                    given(
                        "signal", "kv leak", "", "40 %", "unknown", why_not="older than 15 minutes"
                    ),
                ],
            },
        ],
    }


def bad_check() -> GoldenResult:
    cases = tuple(
        case_comparison(
            f"bad-{n}",
            similarity=0.1 * n,
            baseline_text="The capital of France is Paris, on the river Seine.",
            current_text="The capital of of of of ########## Seine Seine Seine",
        )
        for n in range(1, 4)
    )
    return golden_result(
        verdict=golden_verdict(
            Summary.FAILED, reasons=(reason(),), worst_cases=("bad-1", "bad-2", "bad-3")
        ),
        comparison=comparison(cases=cases, mean_similarity=0.212),
    )


def good_check() -> GoldenResult:
    cases = (
        case_comparison(
            "bad-1",
            similarity=1.0,
            baseline_text="The capital of France is Paris, on the river Seine.",
            current_text="The capital of France is Paris, which lies on the river Seine.",
        ),
    )
    return golden_result(comparison=comparison(cases=cases, mean_similarity=0.998))


def phases() -> tuple[Phase, ...]:
    found = []
    for number, weight in enumerate((25, 50, 75, 100)):
        since = AT + timedelta(minutes=5, seconds=30 * number)
        new = Served(weight, 0, 0, 4.2 + number, 0)
        old = Served(100 - weight, int(weight == 25), 0, 6.0, 0 if weight == 100 else 3)
        found.append(
            Phase(
                f"{weight} %",
                since.isoformat(),
                (since + timedelta(seconds=30)).isoformat(),
                {"old": 100 - weight, "chat-r1": weight},
                {"old": old, "chat-r1": new},
            )
        )
    return tuple(found)


def events() -> tuple[Event, ...]:
    told = (
        (12, "validate", "the files of snapshot 5afe5afe5afe are as recorded"),
        (95, "validate", "golden set in staging: healthy, mean similarity 0.998"),
        (210, "start", "the staging instance becomes the new one, 'chat-r1' with weight 0"),
        (240, "check", "10 core cases passed"),
        (300, "move", "25 % to the target"),
        (390, "move", "100 % to the target"),
        (430, "retire", "'old' has no request left; its evidence is kept"),
        (520, "recover", "core cases through the route: 10 of 10"),
    )
    return tuple(Event(AT + timedelta(seconds=s), step, what) for s, step, what in told)


def facts(**more: Any) -> Facts:
    given: dict[str, Any] = {
        "record": record(),
        "written_at": AT + timedelta(minutes=10),
        "decision": decision(),
        "plan_headline": "roll 'chat' back to snapshot 5afe5afe5afe (#3), surge",
        "events": events(),
        "phases": phases(),
        "table_before": RouteTable("chat", (Backend("old", "127.0.0.1:8000", 100),)),
        "table_after": RouteTable("chat", (Backend("chat-r1", "127.0.0.1:8001", 100),)),
        "rejected": (Rejected("bead" * 16, "its golden set is bad: mean similarity 0.61"),),
        "before": bad_check(),
        "after": good_check(),
        "files": FileFacts(
            "/models/chat",
            TARGET,
            False,
            9,
            (f"model.safetensors: has SHA-256 {'1' * 64}, recorded is {'2' * 64}",),
        ),
        "tensors": TensorFacts(
            271,
            (TensorChange("model.layers.3.mlp.down_proj.weight", "changed", 0.0004, 812.5, 17),),
        ),
        "live": LiveFacts(Tri.NO, "272 of 272 tensors are as loaded"),
        "compared": (
            Compared("vllm_version", "0.32.0", "0.32.0", "version"),
            Compared("dtype", "bfloat16", "bfloat16"),
            Compared("driver", "", "570.1", "machine"),
        ),
        "evidence": (
            KeptEvidence(
                "old",
                "/var/quality/evidence-abc123.tar.gz",
                "s3://evidence/chat/chat-0badc0de-0/evidence-abc123.tar.gz",
                181_244,
                "3" * 64,
                ("engine.log", "metrics.txt", "server.json"),
                ("stacks.txt: py-spy is not installed: no Python stacks",),
            ),
        ),
    }
    return Facts(**given | more)


def nothing(**more: Any) -> Facts:
    """Facts of an incident of which only the record is left."""
    return Facts(record=record(**more), written_at=AT)
