"""The command line of the server that is started."""

from __future__ import annotations

import importlib.metadata
import itertools
import os
from pathlib import Path

import pytest

from quality_lib.adapters.engine.port import EngineSpec
from quality_lib.adapters.vllm import command as command_module
from quality_lib.adapters.vllm.command import (
    EXTENSION_OPTION,
    HUGE_PAGES,
    WHOLE_PROMPTS,
    is_cpu_build,
    server_env,
    takes_extension,
    vllm_command,
)
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


@pytest.mark.parametrize(
    ("args", "cpu", "whole"),
    [
        ((), True, True),
        ((), False, False),
        (("--max-model-len", "2048"), True, True),
        (("--enable-chunked-prefill",), True, False),
        (("--max-num-batched-tokens", "512"), True, False),
        (("--max_num_batched_tokens=512",), True, False),
    ],
)
def test_a_cpu_build_reads_prompts_whole_unless_told_otherwise(
    args: tuple[str, ...], cpu: bool, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_module, "is_cpu_build", lambda: cpu)
    command = vllm_command(EngineSpec(Path("/m"), "chat", args), 8000)
    assert (WHOLE_PROMPTS in command) is whole


@pytest.mark.parametrize(("processors", "threads"), [(1, "1"), (2, "1"), (3, "1"), (16, "8")])
def test_an_instance_leaves_half_of_the_processors_to_the_one_beside_it(
    processors: int, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_module, "is_cpu_build", lambda: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    env = server_env({}, {})
    assert env["OMP_NUM_THREADS"] == threads
    assert env["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert env.items() >= HUGE_PAGES.items()


def test_what_the_operator_has_set_goes_before_our_defaults() -> None:
    theirs = {"OMP_NUM_THREADS": "7", "VLLM_ENABLE_V1_MULTIPROCESSING": "1", "GLIBC_TUNABLES": ""}
    env = server_env(theirs, {"VLLM_CPU_KVCACHE_SPACE": "4"})
    assert theirs.items() <= env.items()
    assert env["VLLM_CPU_KVCACHE_SPACE"] == "4"


@pytest.mark.parametrize(
    ("installed", "cpu"),
    [
        ({"vllm-cpu": "0.32.0"}, True),
        ({"vllm": "0.32.0+cpu"}, True),
        ({"vllm": "0.32.0"}, False),
        ({"vllm": "0.32.0+cu130"}, False),
        ({}, False),
    ],
)
def test_a_server_for_gpus_is_started_as_vllm_wants_it(
    installed: dict[str, str], cpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        try:
            return installed[name]
        except KeyError:
            raise importlib.metadata.PackageNotFoundError(name) from None

    monkeypatch.setattr(importlib.metadata, "version", version)
    is_cpu_build.cache_clear()
    try:
        assert is_cpu_build() is cpu
        assert ("OMP_NUM_THREADS" in server_env({}, {})) is cpu
    finally:
        is_cpu_build.cache_clear()
