from __future__ import annotations

import pytest

from quality_lib.snapshots.arguments import args_sha256, comparable


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], ()),
        (["serve", "/models/m", "--dtype", "half"], ("--dtype half",)),
        (["--max_model_len=8"], ("--max-model-len 8",)),
        (["--enforce-eager", "--dtype", "half"], ("--dtype half", "--enforce-eager")),
        (["--lora-modules", "a=1", "b=2"], ("--lora-modules a=1 b=2",)),
        (["--seed", "-1"], ("--seed -1",)),
        (["--host", "h", "--port=1", "--uds", "u", "--model", "m"], ()),
        (["--api-key", "s3cret"], ()),
        (["--middleware", "quality_lib.serving.introspection.Introspection"], ()),
        (["--worker-extension-cls", "quality_lib.serving.live_weights_worker.LiveWeights"], ()),
        (["--middleware", "theirs.Filter"], ("--middleware theirs.Filter",)),
    ],
)
def test_comparable(args: list[str], expected: tuple[str, ...]) -> None:
    assert comparable(args) == expected


def test_another_port_or_order_is_the_same_deployment() -> None:
    assert args_sha256(["--port", "1", "--seed", "2", "--dtype", "half"]) == args_sha256([
        "--dtype=half",
        "--seed=2",
        "--port=9",
    ])
    assert args_sha256(["--seed", "2"]) != args_sha256(["--seed", "3"])
