from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from quality_lib.errors import BadInput
from quality_lib.snapshots.manifest import (
    SCHEMA,
    FileRecord,
    ImageRecord,
    Manifest,
    deployment_key,
    root_hash,
    was_redeployed,
)
from tests.snapshots.builders import manifest, serving


def test_the_id_is_the_hash_of_the_canonical_text() -> None:
    one = manifest()
    assert one.snapshot_id == hashlib.sha256(one.to_canonical_json().encode()).hexdigest()


@pytest.mark.parametrize(
    "one",
    [
        manifest(),
        manifest(serving=serving(args=None, generation_config=None, adapters=("sql", "fr"))),
        manifest(created_by="Zoë 東京"),
    ],
)
def test_reading_gives_back_what_was_written(one: Manifest) -> None:
    assert Manifest.from_json(one.to_canonical_json()) == one


def test_the_order_of_keys_does_not_matter() -> None:
    one = manifest()
    turned = json.dumps(dict(reversed(json.loads(one.to_canonical_json()).items())), indent=2)
    assert Manifest.from_json(turned).snapshot_id == one.snapshot_id


@pytest.mark.parametrize(
    "change",
    [
        {"created_by": "eve"},
        {"image": ImageRecord("registry.example/vllm:0.32", "sha256:0")},
        {"serving": serving(dtype="float16")},
        {"live_fingerprint": "f" * 64},
    ],
)
def test_any_change_is_another_snapshot(change: dict[str, Any]) -> None:
    assert manifest(**change).snapshot_id != manifest().snapshot_id


def _without(path: str) -> str:
    data = json.loads(manifest().to_canonical_json())
    *parents, last = path.split(".")
    place = data
    for name in parents:
        place = place[name]
    del place[last]
    return json.dumps(data)


def _with(path: str, value: Any) -> str:
    data = json.loads(manifest().to_canonical_json())
    *parents, last = path.split(".")
    place = data
    for name in parents:
        place = place[name]
    place[last] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no valid JSON"),
        ("[]", "no JSON object"),
        ("{}", "schema"),
        (_with("schema", SCHEMA + 1), "field 'schema': has schema 2"),
        (_without("weights"), "field 'weights': is missing"),
        (_without("serving.dtype"), "field 'serving.dtype': is missing"),
        (_without("golden"), "field 'golden': is missing"),
        (_with("surprise", 1), "field 'surprise': is unknown"),
        (_with("weights.files", {}), "field 'weights.files': should be a list"),
        (_with("weights.files", [1]), r"field 'weights.files\[0\]': should be an object"),
        (
            _with("serving.max_model_len", "2048"),
            "field 'serving.max_model_len': should be a whole",
        ),
        (_with("serving.max_model_len", True), "should be a whole number"),
        (_with("serving.generation_config", 3), "should be an object"),
        (_with("created_by", None), "field 'created_by': should be a text"),
    ],
)
def test_what_is_no_manifest_is_named(text: str, told: str) -> None:
    with pytest.raises(BadInput, match=told) as caught:
        Manifest.from_json(text, source="m.json")
    assert caught.value.file == "m.json"


def test_the_root_hash_is_over_sorted_lines() -> None:
    a, b = FileRecord("a", 1, "0" * 64), FileRecord("b/c", 22, "1" * 64)
    lines = f"a\0{1}\0{'0' * 64}\nb/c\0{22}\0{'1' * 64}\n"
    assert root_hash([b, a]) == root_hash([a, b]) == hashlib.sha256(lines.encode()).hexdigest()


def test_a_deployment_is_weights_arguments_and_image() -> None:
    image = ImageRecord("vllm:1", "sha256:1")
    key = deployment_key("w", "a", image)
    assert key == deployment_key("w", "a", ImageRecord("renamed", "sha256:1"))
    others = {
        deployment_key("x", "a", image),
        deployment_key("w", "b", image),
        deployment_key("w", None, image),
        deployment_key("w", "a", ImageRecord("vllm:2")),
    }
    assert key not in others
    assert len(others) == 4


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"weights_uri": "file:///models/other"}, True),
        ({"args_sha256": "0" * 64}, True),
        ({"image": ImageRecord("vllm", "sha256:1")}, True),
    ],
)
def test_other_content_in_the_same_place_was_not_meant(
    change: dict[str, Any], expected: bool
) -> None:
    one = manifest()
    seen = {
        "weights_uri": one.weights.uri,
        "args_sha256": one.serving.args_sha256,
        "image": one.image,
    }
    assert was_redeployed(one, **{**seen, **change}) is expected
