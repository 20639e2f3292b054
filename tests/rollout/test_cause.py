"""Which cause is suspected from which facts, and how sure the words are."""

from __future__ import annotations

from typing import Any

import pytest

from quality_lib.records import Summary, Tri
from quality_lib.rollout.cause import Confidence, causes
from quality_lib.rollout.post_mortem_facts import (
    Compared,
    FileFacts,
    LiveFacts,
    TensorChange,
    TensorFacts,
)
from tests.builders import golden_result, golden_verdict
from tests.rollout.post_mortem_builders import TARGET, facts, nothing

SAME_FILES = FileFacts("/models/chat", TARGET, True, 9, ())
OTHER = ("model.safetensors: has SHA-256 1, recorded is 2",)
INTACT = LiveFacts(Tri.NO, "all as loaded")


def tensors(changed: int, equal: int) -> TensorFacts:
    one = TensorChange("layers.0.weight", "changed", 0.5, 1.0, 0)
    return TensorFacts(equal, (one,) * changed)


def given(**more: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"decision": {}, "files": None, "tensors": None, "live": None}
    return plain | {"compared": (), "before": None} | more


def signals(state: str) -> dict[str, Any]:
    inputs = [{"name": "nan", "state": state, "sentence": "3 requests with NaN"}]
    return {"conditions": [{"name": "C", "state": state, "inputs": inputs}]}


@pytest.mark.parametrize(
    ("known", "code", "confidence"),
    [
        ({"files": FileFacts("/m", TARGET, True, 9, OTHER)}, "files_changed", "proven"),
        (
            {"files": FileFacts("/m", TARGET, False, 9, OTHER), "tensors": tensors(1, 271)},
            "weights_damaged",
            "likely",
        ),
        (
            {"files": FileFacts("/m", TARGET, False, 9, OTHER), "tensors": tensors(200, 72)},
            "other_weights",
            "likely",
        ),
        ({"files": FileFacts("/m", TARGET, False, 9, OTHER)}, "other_weights", "likely"),
        (
            {"files": SAME_FILES, "live": LiveFacts(Tri.YES, "1 tensor changed", ("a.weight",))},
            "memory_changed",
            "proven",
        ),
        (
            {"files": SAME_FILES, "live": INTACT, "compared": (Compared("dtype", "half", "bf16"),)},
            "arguments_changed",
            "likely",
        ),
        ({"compared": (Compared("vllm", "2", "1", "version"),)}, "versions_changed", "possible"),
        ({"compared": (Compared("gpu", "A", "B", "machine"),)}, "machine_changed", "possible"),
        ({"decision": signals("yes")}, "engine_signals", "possible"),
        ({"decision": signals("no")}, "unknown", "unknown"),
        ({"compared": (Compared("gpu", "", "B", "machine"),)}, "unknown", "unknown"),
        ({"files": SAME_FILES, "live": INTACT}, "unknown", "unknown"),
        ({}, "unknown", "unknown"),
        ({"decision": {"conditions": "nonsense"}}, "unknown", "unknown"),
    ],
)
def test_the_best_explanation(known: dict[str, Any], code: str, confidence: str) -> None:
    best = causes(facts(**given(**known)))[0]
    assert (best.code, best.confidence) == (code, confidence)
    assert best.grounds


def test_a_proof_comes_before_what_only_fits() -> None:
    found = causes(
        facts(**given(
            files=FileFacts("/m", TARGET, False, 9, OTHER),
            tensors=tensors(1, 271),
            live=LiveFacts(Tri.NO, "all as loaded"),
            compared=(Compared("dtype", "half", "bf16"),),
            decision=signals("yes"),
        ))
    )  # fmt: skip
    assert [cause.code for cause in found] == [
        "weights_damaged",
        "arguments_changed",
        "engine_signals",
    ]
    assert found[1].confidence is Confidence.POSSIBLE, "the weights explain it already"


def test_the_grounds_name_files_and_tensors_and_are_few() -> None:
    many = tuple(f"file-{n}: differs" for n in range(50))
    change = TensorChange("a.weight", "changed", 0.25, float("inf"), 1200)
    best = causes(
        facts(**given(
            files=FileFacts("/m", TARGET, False, 60, many),
            tensors=TensorFacts(99, (change,)),
        ))
    )[0]  # fmt: skip
    told = "\n".join(best.grounds)
    assert "file-0: differs" in told
    assert "and 45 more files" in told
    assert "1 of 100 tensors differ" in told
    assert "a.weight: changed, 25.00% of its numbers, relative change inf, 1,200 became NaN" in told


def test_the_golden_check_may_suspect_where_nothing_else_is_known() -> None:
    check = golden_result(verdict=golden_verdict(Summary.FAILED, suspected="the sampler"))
    best = causes(facts(**given(before=check)))[0]
    assert (best.code, best.confidence) == ("unknown", Confidence.POSSIBLE)
    assert "the golden check suspects: the sampler" in best.grounds


def test_of_nothing_the_cause_is_unknown_and_says_what_was_not_looked_at() -> None:
    (only,) = causes(nothing())
    assert only.confidence is Confidence.UNKNOWN
    assert "the files on disk were not hashed again" in only.grounds
