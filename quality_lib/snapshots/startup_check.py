"""Whether a running server is what its snapshot says it should be (requirement G6.1). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib.records import Outcome, Verdict
from quality_lib.snapshots.arguments import comparable
from quality_lib.snapshots.manifest import Manifest

FIELDS = (
    "vllm_version",
    "args",
    "dtype",
    "kv_cache_dtype",
    "max_model_len",
    "generation_config",
    "chat_template_sha256",
    "tokenizer_sha256",
    "adapters",
)

NAMES = {
    "vllm_version": "vLLM's version",
    "args": "arguments",
    "kv_cache_dtype": "dtype of the KV cache",
    "max_model_len": "longest context",
    "generation_config": "generation config",
    "chat_template_sha256": "chat template",
    "tokenizer_sha256": "tokenizer",
    "live_fingerprint": "weights in memory",
}
"""For people; other fields are called as they are."""
DIGEST_SHOWN = 12


@dataclass(frozen=True)
class ServerFacts:
    """What could be observed of a running server; ``None`` means that it could not be observed."""

    vllm_version: str | None = None
    args: tuple[str, ...] | None = None
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    max_model_len: int | None = None
    generation_config: Mapping[str, Any] | None = None
    chat_template_sha256: str | None = None
    tokenizer_sha256: str | None = None
    adapters: tuple[str, ...] | None = None
    """Names of the LoRA adapters that are served; the empty tuple means none."""
    weights_path: str | None = None
    live_fingerprint: str | None = None
    """Of the weights in memory as they lay after loading, see ``serving/live_fingerprint.py``."""


def check_startup(manifest: Manifest, observed: ServerFacts) -> tuple[Verdict, ...]:
    """Return one verdict per field, in the order of ``FIELDS``, then that of the weights in memory.

    A field that was not recorded or cannot be observed is UNJUDGED: it is never a pass.
    """
    fields = tuple(
        _judge(name, getattr(manifest.serving, name), getattr(observed, name)) for name in FIELDS
    )
    return (*fields, judge_fingerprint(manifest.live_fingerprint, observed.live_fingerprint))


def judge_fingerprint(recorded: str | None, observed: str | None) -> Verdict:
    """Judge the weights in memory against those of the snapshot.

    Where weights lie in another layout (other hardware, sharding or vLLM) equal weights have other
    fingerprints, so nothing can be said.
    """
    verdict = _judge("live_fingerprint", recorded, observed)
    if verdict.outcome is not Outcome.FAILED or recorded is None or observed is None:
        return verdict
    if recorded.rpartition("-")[0] == observed.rpartition("-")[0]:
        return verdict
    return Verdict(
        Outcome.UNJUDGED,
        verdict.reason,
        "weights in memory: they lie in another layout than the snapshot's (other hardware, sharding or "
        "vLLM), so they cannot be compared",
        verdict.evidence,
    )


def _judge(field: str, recorded: Any, observed: Any) -> Verdict:
    reason, name = f"startup_{field}", NAMES.get(field, field)
    expected, found = _comparable(field, recorded), _comparable(field, observed)
    evidence = {"field": field, "expected": expected, "found": found}
    if recorded is None:
        return Verdict(
            Outcome.UNJUDGED, reason, f"{name}: the snapshot does not record it", evidence
        )
    if observed is None:
        return Verdict(Outcome.UNJUDGED, reason, f"{name}: could not be observed", evidence)
    if expected == found:
        return Verdict(Outcome.PASSED, reason, f"{name}: as recorded", evidence)
    return Verdict(
        Outcome.FAILED,
        reason,
        f"{name}: the snapshot has {_shown(field, expected, found)}, "
        f"the server has {_shown(field, found, expected)}",
        evidence,
    )


def _comparable(field: str, value: Any) -> Any:
    if value is None:
        return None
    if field == "args":
        return comparable(value)
    if field == "adapters":
        return tuple(sorted(value))
    if field == "generation_config":
        return dict(value)
    return value


def _shown(field: str, value: Any, other: Any) -> str:
    """Show the start of a digest, and of a collection only what the other side lacks."""
    if field.endswith("_sha256") or field == "live_fingerprint":
        return str(value).rpartition("-")[2][:DIGEST_SHOWN]
    if isinstance(value, tuple) and isinstance(other, tuple):
        own = [str(item) for item in value if item not in other]
        return ", ".join(own) if own else "nothing more"
    if isinstance(value, dict) and isinstance(other, dict):
        own = [
            f"{key}={value[key]!r}"
            for key in sorted(value)
            if key not in other or other[key] != value[key]
        ]
        return ", ".join(own) if own else "nothing more"
    return str(value)
