"""Evidence with sensible defaults: a test names only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from quality_lib.golden.result import TrendPoint
from quality_lib.records import Summary, Tri
from quality_lib.rollout.engine_finding import EngineFinding
from quality_lib.rollout.evidence import Evidence
from quality_lib.rollout.incident import IncidentHistory, IncidentRecord
from quality_lib.scoring.result import Depth, ScorePoint
from quality_lib.snapshots.manifest import ImageRecord, deployment_key
from quality_lib.snapshots.ports import Health, SnapshotEntry

NOW = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
KEY = "d41d8cd98f00b204"


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def run(minutes: float, similarity: float | None = 0.98, **changes: Any) -> TrendPoint:
    """A golden run so many minutes ago; its verdict follows from the similarity."""
    is_bad = similarity is not None and similarity < 0.8
    fields = {
        "run_id": f"run-{minutes:g}",
        "started_at": ago(minutes).isoformat(),
        "summary": Summary.FAILED if is_bad else Summary.HEALTHY,
        "changed": Tri.YES if is_bad else Tri.NO,
        "mean_similarity": similarity,
        "raw_logprob_delta": 0.0,
        "deployment_key": KEY,
    }
    return TrendPoint(**{**fields, **changes})


def window(minutes: float, low: int = 0, rows: int = 400, **changes: Any) -> ScorePoint:
    """A quick window of ten minutes that ended so many minutes ago."""
    share = low / rows if rows else None
    fields = {
        "score_id": f"quick-{minutes:g}",
        "start": ago(minutes + 10).isoformat(),
        "end": ago(minutes).isoformat(),
        "depth": Depth.QUICK,
        "summary": Summary.DEGRADED if share and share > 0.05 else Summary.HEALTHY,
        "changed": Tri.UNKNOWN,
        "rows": rows,
        "share": share,
        "low": 0.0,
        "high": 1.0,
        "effective_rows": float(rows),
    }
    return ScorePoint(**{**fields, **changes})


def signal(state: Tri = Tri.NO, name: str = "engine_health", **changes: Any) -> EngineFinding:
    fields = {
        "name": name,
        "state": state,
        "sentence": f"the counter says {state.value}",
        "evidence": {"value": 3},
        "at": ago(0.1).isoformat(),
    }
    return EngineFinding(**{**fields, **changes})


GOLDEN = {
    Tri.YES: (run(5, 0.4), run(65, 0.5)),
    Tri.NO: (run(5), run(65)),
    Tri.UNKNOWN: (),
}
SCORES = {Tri.YES: (window(2, 80),), Tri.NO: (window(2),), Tri.UNKNOWN: ()}
SIGNALS = {Tri.YES: (signal(Tri.YES),), Tri.NO: (signal(),), Tri.UNKNOWN: (signal(Tri.UNKNOWN),)}


def evidence(a: Tri = Tri.NO, b: Tri = Tri.NO, c: Tri = Tri.NO, **changes: Any) -> Evidence:
    """Evidence that makes the conditions what is asked."""
    fields: dict[str, Any] = {
        "service": "chat",
        "now": NOW,
        "golden": GOLDEN[a],
        "scores": SCORES[b],
        "signals": SIGNALS[c],
        "serving_snapshot_id": None,
        "deployment_key": KEY,
        "last_change_at": None,
    }
    return Evidence(**{**fields, **changes})


def entry(number: int, health: Health = Health.HEALTHY, **changes: Any) -> SnapshotEntry:
    fields = {
        "snapshot_id": f"{number:02d}" + "ab" * 31,
        "service": "chat",
        "number": number,
        "created_at": ago(10_000).isoformat(),
        "created_by": "ada",
        "health": health,
        "health_at": ago(5000).isoformat(),
        "aliases": (),
        "weights_root_sha256": f"w{number}",
        "args_sha256": "args",
        "image": ImageRecord(),
        "vllm_version": "0.32.0",
        "golden_digest": "g" * 64,
        "files": (),
        "url": "",
    }
    return SnapshotEntry(**{**fields, **changes})


def key_of(number: int) -> str:
    return deployment_key(f"w{number}", "args", ImageRecord())


def incident(number: int = 0, **changes: Any) -> IncidentRecord:
    """A finished incident of two days ago."""
    fields = {
        "incident_id": f"chat-d41d8cd9-{number}",
        "service": "chat",
        "state": "done",
        "opened_at": ago(2880),
        "closed_at": ago(2870),
        "bad_deployment_key": "other",
        "bad_snapshot_id": None,
        "target_snapshot_id": "t" * 64,
        "mode": "auto",
        "reason": "it was bad",
    }
    return IncidentRecord(**{**fields, **changes})


def history(*records: IncidentRecord) -> IncidentHistory:
    return IncidentHistory.of("chat", records)
