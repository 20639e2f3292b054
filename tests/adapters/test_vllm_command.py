"""The command line of the server that is started."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from quality_lib.adapters.engine import EngineSpec
from quality_lib.adapters.vllm_command import EXTENSION_OPTION, takes_extension, vllm_command
from quality_lib.serving.live_weights import EXTENSION


def extensions(*, introspection: bool = True) -> list[str]:
    command = vllm_command(EngineSpec(Path("/m"), "chat", introspection=introspection), 8000)
    pairs = itertools.pairwise(command)
    return [value for option, value in pairs if option == EXTENSION_OPTION]


def test_the_installed_vllm_takes_the_extension() -> None:
    assert takes_extension()
    assert extensions() == [EXTENSION]


def test_without_introspection_nobody_would_ask() -> None:
    assert extensions(introspection=False) == []


@pytest.mark.parametrize("spelling", ["--worker-extension-cls", "--worker_extension_cls"])
def test_the_operators_own_extension_goes_first(spelling: str) -> None:
    spec = EngineSpec(Path("/m"), "chat", (f"{spelling}=theirs.Worker",))
    command = vllm_command(spec, 8000)
    assert EXTENSION not in command
    assert f"{spelling}=theirs.Worker" in command
