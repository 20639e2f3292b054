"""A golden run on disk survives kills, full disks and strangers."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.adapters.files.run_folder import (
    JOURNAL,
    RUN,
    RunFolder,
    read_answers,
    read_run,
    write_answers,
)
from quality_lib.errors import BadInput, DigestMismatch, OutsideFailure
from quality_lib.golden.answer import Answer, Channel, Fault, GoldenRun, Probe

PLAN = {
    "run_id": "r1",
    "started_at": "2026-01-01T00:00:00+00:00",
    "golden_digest": "d",
    "service": "chat",
    "model": "m",
    "endpoint": "http://x",
    "reference_run_id": None,
}


def answer(number: int, **changes: Any) -> Answer:
    probe = Probe(f"case-{number}", Channel.GREEDY, 1)
    fields: dict[str, Any] = {
        "text": "Grüße, 世界 \u2028 \x00 \ud83d".encode("utf-8", "replace").decode(),
        "tool_calls": ({"name": "f", "arguments": '{"a": 1}'},),
        "finish_reason": "stop",
        "prompt_token_ids": (1, 2),
        "token_ids": (3, 4),
        "logprobs": (-0.5, None),
        "latency_ms": 12.5,
    }
    return Answer(probe, **{**fields, **changes})


def run_with(answers: list[Answer]) -> GoldenRun:
    return GoldenRun(
        **{k: v for k, v in PLAN.items() if k != "reference_run_id"},  # type: ignore[arg-type]
        duration_s=1.0,
        concurrency=4,
        contract={"max_model_len": 2048},
        answers={a.probe.key: a for a in answers},
    )


def test_a_finished_run_reads_back_as_it_was(tmp_path: Path) -> None:
    run = run_with([answer(1), answer(2, fault=Fault.REFUSED, error="HTTP 500")])
    folder = RunFolder(tmp_path / "run", PLAN)
    for one in run.answers.values():
        folder.record(one)
    folder.finish(run)
    assert read_run(tmp_path / "run") == run
    assert not (tmp_path / "run" / JOURNAL).exists()


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_kill_in_the_middle_of_a_line_loses_that_line_only(tmp_path: Path, cut: int) -> None:
    folder = RunFolder(tmp_path, PLAN)
    for number in range(3):
        folder.record(answer(number))
    folder.close()
    journal = tmp_path / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-cut])
    again = RunFolder(tmp_path, {**PLAN, "run_id": "another"})
    assert list(again.recorded()) == ["case-0/greedy/1", "case-1/greedy/1"]
    assert again.plan["run_id"] == "r1"
    again.record(answer(2))
    again.close()
    third = RunFolder(tmp_path, PLAN)
    third.close()
    assert dict(third.recorded()) == {a.probe.key: a for a in map(answer, range(3))}


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, PLAN)
    folder.record(answer(1))
    folder.close()
    journal = tmp_path / JOURNAL
    journal.write_text("{broken\n" + journal.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(BadInput, match=rf"{JOURNAL}:1"):
        RunFolder(tmp_path, PLAN)


@pytest.mark.parametrize("name", ["golden_digest", "service", "endpoint", "reference_run_id"])
def test_the_beginning_of_another_run_is_not_mixed_in(tmp_path: Path, name: str) -> None:
    RunFolder(tmp_path, PLAN).close()
    with pytest.raises(DigestMismatch, match=name):
        RunFolder(tmp_path, {**PLAN, name: "other"})


def test_a_finished_run_is_never_overwritten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, PLAN)
    folder.finish(run_with([]))
    with pytest.raises(BadInput, match="finished run"):
        RunFolder(tmp_path, PLAN)


def test_an_unfinished_run_says_how_to_go_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, PLAN)
    folder.record(answer(1))
    folder.close()
    with pytest.raises(BadInput, match="resume"):
        read_run(tmp_path)
    with pytest.raises(BadInput, match="no golden run"):
        read_run(tmp_path / "nowhere")


def test_a_spoilt_run_file_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, PLAN)
    folder.finish(run_with([answer(1)]))
    meta = json.loads((tmp_path / RUN).read_text(encoding="utf-8"))
    (tmp_path / RUN).write_text(json.dumps({**meta, "surprise": 1}), encoding="utf-8")
    with pytest.raises(BadInput, match="surprise"):
        read_run(tmp_path)


def test_a_full_disk_keeps_the_answers_and_says_so(tmp_path: Path) -> None:
    """``/dev/full`` refuses every byte, as a full disk does."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    folder = RunFolder(tmp_path, PLAN)
    folder.record(answer(1))
    folder.close()
    folder._journal._file = full.open("wb")
    with pytest.raises(OutsideFailure, match="No space left"):
        folder.record(answer(2))
    with contextlib.suppress(OSError):
        folder.close()
    again = RunFolder(tmp_path, PLAN)
    again.close()
    assert list(again.recorded()) == ["case-1/greedy/1"]


def test_a_folder_that_cannot_be_made_is_an_outside_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(OutsideFailure, match="cannot be written"):
        RunFolder(tmp_path / "file" / "run", PLAN)


@given(
    st.lists(
        st.tuples(
            st.text(max_size=20),
            st.lists(st.one_of(st.none(), st.floats(allow_nan=False)), max_size=5),
        ),
        max_size=5,
    )
)
def test_parquet_keeps_every_text_and_number(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, list[float | None]]]
) -> None:
    answers = {
        a.probe.key: a
        for number, (text, logprobs) in enumerate(rows)
        for a in [answer(number, text=text, logprobs=tuple(logprobs))]
    }
    path = tmp_path_factory.mktemp("t") / "answers.parquet"
    write_answers(path, answers)
    assert read_answers(path) == answers


def test_answers_of_another_deployment_are_thrown_away(tmp_path: Path) -> None:
    old = RunFolder(tmp_path, {**PLAN, "deployment_key": "old"})
    old.record(answer(1))
    old.close()
    new = RunFolder(tmp_path, {**PLAN, "run_id": "r2", "deployment_key": "new"})
    new.close()
    assert new.recorded() == {}
    assert new.plan["run_id"] == "r2"
