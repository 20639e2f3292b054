"""Manifests with defaults, so that a test names only what it is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quality_lib.snapshots.arguments import args_sha256
from quality_lib.snapshots.manifest import (
    CodeRecord,
    EnvironmentRecord,
    FileRecord,
    GoldenRecord,
    ImageRecord,
    Manifest,
    ServingRecord,
    WeightsRecord,
    root_hash,
)

ARGS = ("--max-model-len", "2048", "--enforce-eager")


def serving(**changes: Any) -> ServingRecord:
    facts: dict[str, Any] = {
        "vllm_version": "0.32.0",
        "args": ARGS,
        "args_sha256": args_sha256(ARGS),
        "generation_config": {"temperature": 0.7},
        "chat_template_sha256": "c" * 64,
        "tokenizer_sha256": "d" * 64,
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "max_model_len": 2048,
        "adapters": (),
    }
    return ServingRecord(**facts | changes)


def manifest(**changes: Any) -> Manifest:
    files = (FileRecord("config.json", 2, "a" * 64), FileRecord("model.safetensors", 9, "b" * 64))
    parts: dict[str, Any] = {
        "weights": WeightsRecord(files, root_hash(files), "file:///models/small"),
        "image": ImageRecord("registry.example/vllm:0.32", "sha256:" + "e" * 64),
        "code": CodeRecord("0123abc"),
        "serving": serving(),
        "environment": EnvironmentRecord(gpu="H100", driver="570.1", python="3.11.9"),
        "golden": None,
        "live_fingerprint": None,
        "created_at": "2026-01-02T03:04:05+00:00",
        "created_by": "ada",
    }
    return Manifest(**parts | changes)


def with_baseline(folder: Path, **changes: Any) -> tuple[Manifest, dict[str, Path]]:
    """A manifest that records a baseline of two files, and those files."""
    from hashlib import sha256

    contents = {"baseline.json": b'{"golden_digest": "g"}', "answers/one.txt": b"Paris"}
    files = {}
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        files[f"baseline/{name}"] = path
    records = [FileRecord(n, len(c), sha256(c).hexdigest()) for n, c in contents.items()]
    golden = GoldenRecord("g" * 64, "baseline/baseline.json", root_hash(records))
    return manifest(golden=golden, **changes), files
