"""Windows of real log files scored from end to end: healthy, corrupted, empty, resumed, partitioned."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from quality_lib.errors import BadInput, DigestMismatch, OutsideFailure
from quality_lib.exchanges.watermark import Watermark
from quality_lib.jobs import scoring
from quality_lib.records import Summary
from quality_lib.scoring.result import Depth, ScoreResult
from quality_lib.settings import Settings
from tests.jobs.production_log import (
    DEAD,
    LEAKED,
    SALAD,
    healthy,
    now_window,
    record,
    settings,
    write_log,
)


@pytest.fixture(autouse=True)
def no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trend is another test's matter, and a database takes seconds to make."""
    monkeypatch.setattr("quality_lib.adapters.mlflow.scores.MlflowScores.history", lambda *_: ())


def scored(
    known: Settings, out: Path, *, count: int = 1, depth: Depth = Depth.QUICK, **more: Any
) -> ScoreResult:
    plan = scoring.plan_window(known, "chat", now_window(), depth, out, count=count, **more)
    for index in range(len(plan.parts)):
        scoring.score_partition(known, out, index)
    return scoring.merge_window(known, out)


def rows(bad: int, good: int) -> list[dict[str, Any]]:
    damage = (DEAD, SALAD, LEAKED)
    return [
        *(record(n, damage[n % 3]) for n in range(bad)),
        *(record(1000 + n, healthy(n)) for n in range(good)),
    ]


@pytest.mark.parametrize(
    ("lines", "summary", "reason"),
    [
        (rows(0, 120), "healthy", "quality_good"),
        (rows(1, 119), "healthy", "quality_good"),
        (rows(24, 96), "degraded", "low_quality"),
        (rows(60, 60), "failed", "low_quality_failed"),
        (rows(0, 20), "inconclusive", "too_few_rows"),
        (rows(20, 0), "inconclusive", "too_few_rows"),
        ([], "inconclusive", "no_data"),
        ([*rows(0, 120), *["{broken"] * 20], "inconclusive", "too_many_bad_lines"),
        ([*rows(60, 60), *["{broken"] * 20], "inconclusive", "too_many_bad_lines"),
        ([*rows(0, 120), "{broken"], "healthy", "quality_good"),
    ],
)
def test_a_window_is_judged_by_what_its_answers_are(
    tmp_path: Path, lines: Sequence[Any], summary: str, reason: str
) -> None:
    log = write_log(tmp_path / "log", lines)
    found = scored(settings(tmp_path, log), tmp_path / "out")
    assert (found.verdict.summary, found.verdict.reasons[0].reason) == (Summary(summary), reason)
    assert (tmp_path / "out/report.html").exists()


def test_own_probes_are_never_scored(tmp_path: Path) -> None:
    probes = [{**record(n, DEAD), "probe": True} for n in range(100)]
    log = write_log(tmp_path / "log", [*probes, *rows(0, 120)])
    found = scored(settings(tmp_path, log), tmp_path / "out")
    assert found.counts.entries == 220
    assert found.whole.low == 0, found.counts


def test_partitions_together_find_what_one_finds(tmp_path: Path) -> None:
    lines = rows(24, 96)
    for number in range(12):
        write_log(tmp_path / "log", lines[10 * number : 10 * number + 10], f"{number}.jsonl")
    known = settings(tmp_path, tmp_path / "log")
    one, three = scored(known, tmp_path / "one"), scored(known, tmp_path / "three", count=3)
    assert three.partitions == 3
    assert three.whole == one.whole
    assert three.reasons == one.reasons
    assert three.verdict.summary is one.verdict.summary


def test_a_partition_that_was_scored_is_not_scored_again(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", rows(0, 120))
    known = settings(tmp_path, log)
    first = scored(known, tmp_path / "out")
    write_log(log, rows(120, 0))  # what arrives later belongs to another window
    assert scored(known, tmp_path / "out") == first


def test_a_missing_partition_is_a_broken_checker_and_no_verdict(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", rows(60, 60))
    known = settings(tmp_path, log)
    scoring.plan_window(known, "chat", now_window(), Depth.QUICK, tmp_path / "out", count=2)
    scoring.score_partition(known, tmp_path / "out", 0)
    with pytest.raises(OutsideFailure, match="partition 2 of 2 was not scored"):
        scoring.merge_window(known, tmp_path / "out")
    assert not (tmp_path / "out/score.json").exists()


def test_a_partition_that_breaks_half_way_leaves_nothing_that_looks_done(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", rows(0, 120))
    known = settings(tmp_path, log)
    scoring.plan_window(known, "chat", now_window(), Depth.QUICK, tmp_path / "out")

    def broken(stage: str, done: int, total: int) -> None:
        if stage == "gates" and done >= 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scoring.score_partition(known, tmp_path / "out", 0, progress=broken)
    assert not list((tmp_path / "out").glob("part-*"))
    assert not list((tmp_path / "out").glob("rows-*.parquet"))
    assert scored(known, tmp_path / "out").verdict.summary is Summary.HEALTHY


def test_a_folder_of_another_pass_is_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", rows(0, 60))
    known = settings(tmp_path, log)
    scored(known, tmp_path / "out")
    with pytest.raises(DigestMismatch, match="holds a quick pass of 'chat'"):
        scoring.plan_window(known, "chat", now_window(), Depth.DEEP, tmp_path / "out")


@pytest.mark.parametrize("text", ["{", "[]", '{"service": "chat"}'])
def test_a_plan_that_was_altered_is_bad_input(tmp_path: Path, text: str) -> None:
    known = settings(tmp_path, tmp_path)
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(BadInput, match=r"plan\.json"):
        scoring.score_partition(known, tmp_path, 0)


def test_a_service_without_a_log_is_bad_input(tmp_path: Path) -> None:
    known = settings(tmp_path, tmp_path)
    chat = known.services["chat"]
    bare = chat.model_copy(update={"logs": chat.logs.model_copy(update={"source": None})})
    with pytest.raises(BadInput, match="no log to score"):
        scoring.plan_window(
            known.model_copy(update={"services": {"chat": bare}}),
            "chat",
            now_window(),
            Depth.QUICK,
            tmp_path / "out",
        )


def test_rows_are_kept_masked_and_copied_where_the_configuration_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [*rows(0, 60), record(5000, "Write to jo@example.org. " + healthy(1))]
    known = settings(
        tmp_path, write_log(tmp_path / "log", lines), results_uri=str(tmp_path / "kept")
    )
    found = scored(known, tmp_path / "out")
    monkeypatch.setattr(
        "quality_lib.adapters.mlflow.scores.MlflowScores.publish",
        lambda *_, **given: type("P", (), {"mlflow_run_id": "", "run_url": "", "report_url": ""}),
    )
    for _ in range(2):
        where = scoring.publish(known, tmp_path / "out")["rows"]
    assert where == f"{tmp_path}/kept/chat/quick/{found.score_id}"
    (file,) = Path(where).iterdir()
    table = pq.read_table(file).to_pylist()
    assert len(table) == 61
    assert not any("jo@example.org" in str(row) for row in table)
    assert any("[email]" in row["text"] for row in table)
    assert {row["weight"] for row in table} == {1.0}


MOMENT = datetime(2026, 3, 1, 12, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("complete_to", "start", "end"),
    [
        (None, "11:50", "12:00"),  # the first time: one length
        ("11:50", "11:50", "12:00"),
        ("11:30", "11:30", "12:00"),  # windows without a verdict are read again together
        ("09:00", "11:00", "12:00"),  # but not for ever
        ("12:00", None, None),
    ],
)
def test_the_window_that_is_due(
    tmp_path: Path, complete_to: str | None, start: str | None, end: str | None
) -> None:
    service = settings(tmp_path, tmp_path).service("chat")
    mark = None
    if complete_to:
        mark = Watermark(datetime.fromisoformat(f"2026-03-01T{complete_to}:00+00:00"))
    window = scoring.due_window(service, Depth.QUICK, mark, MOMENT)
    found = (f"{window.start:%H:%M}", f"{window.end:%H:%M}") if window else (None, None)
    assert found == (start, end)


def test_deep_passes_can_be_off(tmp_path: Path) -> None:
    service = settings(tmp_path, tmp_path, deep_every_minutes=0).service("chat")
    assert scoring.due_window(service, Depth.DEEP, None, MOMENT) is None


@pytest.mark.parametrize(
    ("lines", "advances", "is_thin"),
    [
        (rows(0, 120), True, False),
        (rows(60, 60), True, False),  # bad quality is a verdict
        (rows(0, 20), False, True),
        ([], False, True),
        ([*rows(0, 120), *["{broken"] * 20], False, False),
    ],
)
def test_the_watermark_moves_with_a_verdict_only(
    tmp_path: Path, lines: Sequence[Any], advances: bool, is_thin: bool
) -> None:
    known = settings(tmp_path, write_log(tmp_path / "log", lines))
    found = scored(known, tmp_path / "out")
    mark = scoring.next_watermark(known, tmp_path / "out", found)
    assert (mark is not None) is advances
    assert scoring.is_thin(found) is is_thin
    if mark is not None:
        assert mark.complete_to.isoformat() == found.end


def test_a_quiet_service_moves_on_after_the_longest_window(tmp_path: Path) -> None:
    known = settings(
        tmp_path, write_log(tmp_path / "log", rows(0, 20)), every_minutes=5, longest_windows=2
    )
    found = scored(known, tmp_path / "out")  # ten minutes long
    assert found.verdict.summary is Summary.INCONCLUSIVE
    assert scoring.next_watermark(known, tmp_path / "out", found) is not None


def test_the_newest_settled_stretch(tmp_path: Path) -> None:
    service = settings(tmp_path, tmp_path).service("chat")
    window = scoring.last_window(service, timedelta(minutes=10), MOMENT)
    assert (window.start, window.end) == (MOMENT - timedelta(minutes=10), MOMENT)


def choices(number: int, count: int, text: str) -> list[dict[str, Any]]:
    """One request with several choices, as the guarded server records it."""
    return [
        {**record(number, text), "id": f"many-{number}-{c}", "request_id": f"many-{number}"}
        | {"started_at": "2100-01-01T00:00:00+00:00"}
        for c in range(count)
    ]


def test_one_request_with_many_choices_is_one_request(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", [*rows(0, 300), *choices(7, 64, DEAD)])
    found = scored(settings(tmp_path, log), tmp_path / "out")
    assert found.verdict.summary is Summary.HEALTHY
    assert (found.whole.judged, found.whole.low) == (301, 1)
    assert found.whole.rate is not None
    assert found.whole.rate.share == pytest.approx(1 / 301)


def test_one_request_with_many_choices_is_no_sample(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", choices(7, 64, healthy(1)))
    found = scored(settings(tmp_path, log), tmp_path / "out")
    assert found.verdict.reasons[0].reason == "too_few_rows"
    assert found.whole.judged == 1


STREAM = {
    "gate": "stream",
    "level": 3,
    "outcome": "FAILED",
    "reason": "stream_loop",
    "sentence": ".",
}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"gates": [STREAM]}, "stream_loop"),
        ({"finish_reason": "quality_stop"}, "ending_quality_stop"),
        ({"finish_reason": "repetition"}, "ending_repetition"),
    ],
)
def test_what_level_3_has_found_is_low_quality_though_the_rest_reads_well(
    tmp_path: Path, bad: dict[str, Any], reason: str
) -> None:
    lines = rows(0, 120)
    for line in lines[:60]:
        line["gates"] = bad.get("gates", line["gates"])
        line["response"]["finish_reason"] = bad.get("finish_reason", "stop")
    found = scored(settings(tmp_path, write_log(tmp_path / "log", lines)), tmp_path / "out")
    assert found.whole.low == 60
    assert found.verdict.summary is Summary.FAILED
    assert found.reasons[0].code == reason


@pytest.mark.parametrize(("pause", "is_told"), [(timedelta(0), False), (timedelta(hours=3), True)])
def test_a_stretch_that_no_window_covers_is_told_and_counted(
    tmp_path: Path, pause: timedelta, is_told: bool
) -> None:
    known = settings(tmp_path, write_log(tmp_path / "log", rows(0, 120)))
    window = now_window()
    mark = Watermark(window.start - pause)
    plan = scoring.plan_window(
        known, "chat", window, Depth.QUICK, tmp_path / "out", count=2, watermark=mark
    )
    for index in range(len(plan.parts)):
        scoring.score_partition(known, tmp_path / "out", index)
    found = scoring.merge_window(known, tmp_path / "out")
    assert found.counts.skipped_s == pause.total_seconds()
    assert any("never scored" in note for note in found.notes) is is_told


def test_a_service_without_a_tokenizer_here_is_scored_and_told(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", rows(0, 60))
    found = scored(settings(tmp_path, log), tmp_path / "out")
    assert found.verdict.summary is Summary.HEALTHY
    assert any("Prompt tokens were not counted again" in note for note in found.notes)


def with_scope(known: Settings) -> Settings:
    chat = known.services["chat"]
    limits = dataclasses.replace(chat.gates.input, scope_examples=("Tell me about a river.",))
    gates = chat.gates.model_copy(update={"input": limits})
    return known.model_copy(update={"services": {"chat": chat.model_copy(update={"gates": gates})}})


@pytest.mark.parametrize("depth", Depth)
def test_the_scope_of_prompts_is_judged_in_the_deep_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: Depth
) -> None:
    monkeypatch.setattr(
        scoring, "CachedSimilarity", lambda _: lambda pairs: tuple(-1.0 for _ in pairs)
    )
    log = write_log(tmp_path / "log", rows(0, 60))
    found = scored(with_scope(settings(tmp_path, log)), tmp_path / "out", depth=depth)
    is_deep = depth is Depth.DEEP
    assert ("input_out_of_scope" in {r.code for r in found.reasons}) is is_deep
    assert any("scope_examples" in note for note in found.notes) is not is_deep
