"""Recorded arguments become arguments that start the same server again."""

from __future__ import annotations

import pytest

from quality_lib.errors import BadInput
from quality_lib.rollout.launch import launch_args

OURS = ("--model", "/m", "--served-model-name", "chat", "--host", "127.0.0.1", "--port", "8000")
LOOK = "quality_lib.serving.introspection.Introspection"
GUARD = "quality_lib.serving.guard.Guard"


@pytest.mark.parametrize(
    ("recorded", "kept"),
    [
        (("-m", "vllm.entrypoints.openai.api_server", *OURS), ()),
        (("serve", "/m", "--max-model-len", "2048"), ("--max-model-len", "2048")),
        (("--max_model_len=8", "--enforce-eager"), ("--max_model_len=8", "--enforce-eager")),
        (("--shutdown-timeout", "30", "--enforce-eager"), ("--enforce-eager",)),
        (("--middleware", LOOK, "--middleware", GUARD), ("--middleware", GUARD)),
        ((f"--middleware={LOOK}",), ()),
        (("--api-key", "***", "***", "--dtype", "auto"), ("--dtype", "auto")),
        (("--served_model_name=chat", "--lora-modules", "a=/a", "b=/b"),
         ("--lora-modules", "a=/a", "b=/b")),
    ],
)  # fmt: skip
def test_what_the_engine_sets_itself_is_left_out(
    recorded: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    assert launch_args(recorded) == kept


def test_a_masked_secret_is_never_passed_on() -> None:
    with pytest.raises(BadInput, match="without its secret"):
        launch_args(("--kv-transfer-config", '{"token": "***"}'))
