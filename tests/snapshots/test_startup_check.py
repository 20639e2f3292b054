from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quality_lib.records import Outcome
from quality_lib.snapshots.startup_check import (
    FIELDS,
    ServerFacts,
    check_startup,
    judge_fingerprint,
)
from tests.snapshots.builders import ARGS, manifest, serving

SAME = ServerFacts(
    vllm_version="0.32.0",
    args=("--port", "8001", *ARGS),
    dtype="bfloat16",
    kv_cache_dtype="auto",
    max_model_len=2048,
    generation_config={"temperature": 0.7},
    chat_template_sha256="c" * 64,
    tokenizer_sha256="d" * 64,
    adapters=(),
    live_fingerprint="v1-0123456789abcdef-aaaa",
)
LIVE = "v1-0123456789abcdef-aaaa"


def test_the_same_server_passes_every_field() -> None:
    verdicts = check_startup(manifest(live_fingerprint=LIVE), SAME)
    names = (*FIELDS, "live_fingerprint")
    assert [v.reason for v in verdicts] == [f"startup_{name}" for name in names]
    assert {v.outcome for v in verdicts} == {Outcome.PASSED}


@pytest.mark.parametrize(
    ("recorded", "observed", "outcome"),
    [
        (LIVE, LIVE, Outcome.PASSED),
        (LIVE, "v1-0123456789abcdef-bbbb", Outcome.FAILED),
        # Other hardware, sharding or vLLM packs equal weights otherwise.
        (LIVE, "v1-fedcba9876543210-bbbb", Outcome.UNJUDGED),
        (LIVE, "v2-0123456789abcdef-aaaa", Outcome.UNJUDGED),
        (LIVE, None, Outcome.UNJUDGED),
        (None, LIVE, Outcome.UNJUDGED),
        (None, None, Outcome.UNJUDGED),
        ("f" * 64, LIVE, Outcome.UNJUDGED),
    ],
)
def test_the_weights_in_memory(
    recorded: str | None, observed: str | None, outcome: Outcome
) -> None:
    assert judge_fingerprint(recorded, observed).outcome is outcome


@pytest.mark.parametrize(
    ("field", "found", "told"),
    [
        ("vllm_version", "0.25.1", "the snapshot has 0.32.0, the server has 0.25.1"),
        (
            "args",
            (*ARGS, "--kv-cache-dtype", "fp8"),
            "has nothing more, the server has --kv-cache-dtype fp8",
        ),
        ("dtype", "float16", "bfloat16"),
        ("kv_cache_dtype", "fp8", "auto"),
        ("max_model_len", 4096, "2048, the server has 4096"),
        ("generation_config", {}, "temperature=0.7, the server has nothing more"),
        ("generation_config", {"temperature": 2.0}, "temperature=2.0"),
        ("chat_template_sha256", "0" * 64, "0000"),
        ("tokenizer_sha256", "0" * 64, "0000"),
        ("adapters", ("sql",), "the server has sql"),
    ],
)
def test_one_difference_fails_that_field_alone(field: str, found: Any, told: str) -> None:
    verdicts = check_startup(manifest(), replace(SAME, **{field: found}))
    failed = [v for v in verdicts if v.outcome is Outcome.FAILED]
    assert [v.evidence["field"] for v in failed] == [field]
    assert told in failed[0].sentence


def test_digests_are_shown_short_and_the_weights_by_what_they_are() -> None:
    told = judge_fingerprint(f"v1-{'a' * 12}-{'b' * 64}", f"v1-{'a' * 12}-{'c' * 64}").sentence
    assert told == ("weights in memory: the snapshot has bbbbbbbbbbbb, the server has cccccccccccc")


@pytest.mark.parametrize("field", FIELDS)
def test_what_cannot_be_observed_is_never_a_pass(field: str) -> None:
    verdicts = check_startup(manifest(), replace(SAME, **{field: None}))
    assert verdicts[FIELDS.index(field)].outcome is Outcome.UNJUDGED


@pytest.mark.parametrize("field", FIELDS)
def test_what_was_not_recorded_is_never_a_pass(field: str) -> None:
    verdicts = check_startup(manifest(serving=serving(**{field: None})), SAME)
    assert verdicts[FIELDS.index(field)].outcome is Outcome.UNJUDGED
