"""Errors of the engine in a vLLM log, and what only looks like one."""

from __future__ import annotations

from pathlib import Path

import pytest

from quality_lib.adapters.engine.error_log import engine_errors, look_at_log

CORE = "(EngineCore pid=42) ERROR 11-30 12:00:00 [core.py:100] "
API = "(APIServer pid=7) "
WORKER = "(Worker_TP1 pid=43) ERROR 11-30 12:00:00 [multiproc_executor.py:9] "


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (CORE + "RuntimeError: CUDA error: an illegal memory access was encountered", "CUDA"),
        (CORE + "torch.AcceleratorError: CUDA error: device-side assert triggered", "Accelerator"),
        (CORE + "EngineCore encountered a fatal error.", "fatal"),
        (CORE + "RuntimeError: NaNs detected in logits: {'r1': 3}", "NaNs"),
        (WORKER + "torch.AcceleratorError: CUDA error: unspecified launch failure", "launch"),
        (WORKER + "RuntimeError: NaNs detected in logits: {'r1': 3}", "NaNs"),
        (CORE + "RuntimeError: cuBLAS error: CUBLAS_STATUS_EXECUTION_FAILED", "CUBLAS"),
        ("(EngineCore_DP0 pid=42) CRITICAL 11-30 12:00:00 NCCL error: unhandled", "NCCL"),
        (
            API
            + "ERROR 11-30 12:00:00 [async_llm.py:1] vllm.v1.engine.exceptions.EngineDeadError: x",
            "Dead",
        ),
        (
            "\x1b[0;36m(EngineCore pid=4)\x1b[0;0m ERROR 11-30 12:00:00 [c.py:1] OSError: x",
            "OSError",
        ),
    ],
)
def test_errors_of_the_engine(line: str, told: str) -> None:
    (found,) = engine_errors([line])
    assert told in found


@pytest.mark.parametrize(
    "line",
    [
        # What a client wrote, sent wrongly, or left.
        API + "INFO 11-30 12:00:00 [logger.py:1] Received request x: prompt: 'CUDA error: NaN'",
        API + "WARNING 11-30 12:00:00 [x.py:1] the prompt holds NaN and a Traceback",
        API + "ERROR 11-30 12:00:00 [serving.py:1] ValueError: CUDA error: said the user",
        API + "INFO 127.0.0.1:1 - 'POST /v1/completions HTTP/1.1' 500 Internal Server Error",
        API + "ERROR 11-30 12:00:00 [x.py:1] Client disconnected: ConnectionResetError",
        "Traceback (most recent call last):",
        "RuntimeError: CUDA error: without a prefix it may be part of a prompt",
        "(EngineCore pid=42) WARNING 11-30 12:00:00 [x.py:1] RuntimeError: NaN, tried again",
        "(EngineCore pid=42) INFO 11-30 12:00:00 [x.py:1] CUDA error: none",
        "(EngineCore pid=42) RuntimeError: no level",
        CORE + "Traceback (most recent call last):",
        CORE + '  File "core.py", line 1, in step',
        "",
    ],
)
def test_what_only_looks_like_one(line: str) -> None:
    assert list(engine_errors([line])) == []


def test_a_call_that_the_engine_survived_is_no_error_of_its_own() -> None:
    lines = [
        # As vLLM 0.32 wrote it of a call with a wrong name.
        WORKER + "WorkerProc hit an exception.",
        WORKER + "Traceback (most recent call last):",
        WORKER + "KeyError: 'model.layers.3.self_attn.rotary_emb.cos_sin_cache'",
        CORE + "Invocation of collective_rpc method failed",
        CORE + "Traceback (most recent call last):",
        CORE + "RuntimeError: Worker failed with error ''model.layers.3…'', please check the stack",
        "(EngineCore pid=42) INFO 11-30 12:00:01 [x.py:1] going on",
        CORE + "RuntimeError: CUDA error: misaligned address",
    ]
    assert list(engine_errors(lines)) == ["RuntimeError: CUDA error: misaligned address"]


def test_each_line_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(CORE + "RuntimeError: one\n")
    first = look_at_log(log, None, from_start=True)
    assert first.errors == ("RuntimeError: one",)
    with log.open("a") as file:
        file.write(CORE + "RuntimeError: tw")
    second = look_at_log(log, first, from_start=True)
    assert second.errors == ()  # still being written
    with log.open("a") as file:
        file.write("o\n")
    third = look_at_log(log, second, from_start=True)
    assert third.errors == ("RuntimeError: two",)
    assert look_at_log(log, third, from_start=True).errors == ()


def test_a_log_that_others_wrote_before_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(CORE + "RuntimeError: of last week\n")
    first = look_at_log(log, None, from_start=False)
    assert first.errors == ()
    with log.open("a") as file:
        file.write(CORE + "RuntimeError: new\n")
    assert look_at_log(log, first, from_start=False).errors == ("RuntimeError: new",)


@pytest.mark.parametrize("how", ["rotated", "emptied"])
def test_a_log_that_began_again_is_read_whole(tmp_path: Path, how: str) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("x" * 500 + "\n")
    first = look_at_log(log, None, from_start=False)
    if how == "rotated":
        log.rename(tmp_path / "vllm.log.1")
    log.write_text(CORE + "RuntimeError: new\n")
    assert look_at_log(log, first, from_start=False).errors == ("RuntimeError: new",)


def test_a_log_that_is_not_there_is_a_problem_and_loses_nothing(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    assert look_at_log(log, None, from_start=True).problem
    log.write_text("x\n")
    first = look_at_log(log, None, from_start=True)
    log.chmod(0)
    moved = log.rename(tmp_path / "away")
    gone = look_at_log(log, first, from_start=True)
    assert (gone.offset, gone.file) == (first.offset, first.file)
    moved.chmod(0o644)


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_bytes(b"\xff\xfe\x00\n" + CORE.encode() + b"RuntimeError: \xff\n")
    assert len(look_at_log(log, None, from_start=True).errors) == 1
