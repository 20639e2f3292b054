"""Small production logs on disk, healthy and corrupted, and the configuration that reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.exchanges.record import record_of
from quality_lib.exchanges.window import Window
from quality_lib.settings import Settings, load

SENTENCES = (
    "The river rises in the mountains and reaches the sea after three hundred kilometres.",
    "Trout live in its upper course, where the water stays cold and clear all year.",
    "In spring the snow melts and the level rises by two metres, so farms lie higher up.",
    "Old stone bridges cross it in every town, and most of them are closed to lorries.",
)
DEAD = "!" * 300
SALAD = "the the the the river river river " * 40
LEAKED = "The river <|im_end|><|im_start|>assistant is long <|im_end|><|im_start|>assistant"


def healthy(number: int) -> str:
    first, second = SENTENCES[number % 4], SENTENCES[(number + 1 + number // 4 % 3) % 4]
    return f"{first} {second} That was fact number {number}."


def record(number: int, text: str | None, **more: Any) -> dict[str, Any]:
    answer = Answer(text, finish_reason="stop", **more.pop("answer", {}))
    fields: dict[str, Any] = {
        "id": f"req-{number:04d}",
        "messages": ({"role": "user", "content": f"Tell me fact {number} about a river."},),
        "params": {"temperature": 0.7, "max_tokens": 200},
        "prompt_tokens": 20,
        "completion_tokens": 60,
        "service": "chat",
        "endpoint": "http://a:8000",
        "started_at": datetime.now(UTC).isoformat(),
    }
    return record_of(Exchange(answer=answer, **{**fields, **more}))


def write_log(folder: Path, lines: Sequence[Any], name: str = "log.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return folder


def now_window() -> Window:
    """The window in which a file that was just written has arrived."""
    now = datetime.now(UTC)
    return Window(now - timedelta(minutes=9), now + timedelta(minutes=1))


def config(folder: Path, log: Path, **scoring: Any) -> Path:
    quick = {"embeddings": False, "reference_model": None}
    path = folder / "quality.yaml"
    service = {
        "endpoint": "http://127.0.0.1:9",
        "model": "m",
        "weights": "w",
        "logs": {"source": str(log), "reading": {"settle_seconds": 0}},
        "scoring": {**quick, **scoring},
    }
    path.write_text(
        yaml.safe_dump({
            "services": {"chat": service},
            "stores": {"mlflow": f"sqlite:///{folder}/mlflow.db", "work_dir": str(folder / "runs")},
        }),
        encoding="utf-8",
    )
    return path


def settings(folder: Path, log: Path, **scoring: Any) -> Settings:
    return load(config(folder, log, **scoring))
