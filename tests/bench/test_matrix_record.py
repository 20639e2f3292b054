"""The recorder against a small stand-in server: what it asks, keeps, mends, refuses and resumes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.faults.catalogue import Given, short_form
from bench.faults.controls import Manner
from bench.faults.engine_changes import Flags
from bench.faults.fault import Fault
from bench.faults.folder_changes import Config
from bench.faults.remote import NotMended
from bench.faults.request_change import Dropped, Parameters
from bench.matrix.parquet_files import read_checks, read_file, write_checks
from bench.matrix.plan import Unit
from bench.matrix.probes import ProbeSet
from bench.matrix.progress import Progress
from bench.matrix.record import Place, Serve, altered_model, record, record_units
from bench.matrix.recording import FIRST_TOKEN, SAMPLED, Check, Track
from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.files.cases import load_cases
from tests.bench.recordings import made
from tests.bench.stand_in_vllm import StandIn, served

FAULTS = {
    f.name: f for f in short_form(Given("{% if loop.first %}{% endif %}<|im_start|>assistant\n"))
}
PROBES = ProbeSet.of(load_cases("builtin:core"), 3)


@pytest.fixture
def stand_in() -> StandIn:
    return StandIn()


@pytest.fixture
def endpoint(stand_in: StandIn) -> Generator[str]:
    with served(stand_in) as address:
        yield address


@pytest.fixture
def place(tmp_path: Path) -> Place:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"theta": 1}')
    return Place(model, tmp_path / "work", PROBES, time.monotonic() + 3600)


def unit(fault: Fault | None = None, track: Track = Track.DETERMINISTIC, **changed: object) -> Unit:
    given = {"manner": Manner(), "checks": 1, "block": 0, "start": 2, **changed}
    return Unit(track=track, fault=fault, seed=1, **given)  # type: ignore[arg-type]


def _recorded(place: Place, endpoint: str, *units: Unit) -> list[list[Check]]:
    instance = Instance("i1", endpoint, 0, Path("log"), place.model, "chat", "now")
    told = Progress(len(units), len(units))
    asyncio.run(record_units(place, instance, units, told, longest_sleep_s=0.0))
    return [read_file(place.file(one)) for one in units]


def test_a_healthy_check_holds_every_channel_and_equals_the_stored_answers(
    place: Place, endpoint: str
) -> None:
    ((check, again),) = _recorded(place, endpoint, unit(checks=2))
    count = {row.channel: 0 for row in check.rows}
    for row in check.rows:
        count[row.channel] += 1
        assert row.problem is None
    assert count == {
        FIRST_TOKEN: 1, "greedy": 3, "seeded": 2, SAMPLED: 4, "long_context": 1, "chat_scored": 3, "raw_scored": 4,
    }  # fmt: skip
    for channel in ("greedy", "chat_scored", "raw_scored", "seeded"):
        assert [r.logprobs for r in check.of(channel)] == [r.logprobs for r in again.of(channel)]
        assert all(
            len(r.logprobs) == len(r.token_ids) == 24
            for r in check.of(channel)
            if r.case_id != PROBES.long.id
        )
    assert [r.token_ids for r in check.of(SAMPLED)] != [r.token_ids for r in again.of(SAMPLED)]
    assert all(len(r.replay_ranks) == 24 for r in check.of(SAMPLED))
    assert all(r.argmax_ids == r.token_ids and min(r.gaps) > 0.09 for r in check.of("raw_scored"))


def test_the_end_token_of_a_stored_answer_is_not_scored(
    place: Place, endpoint: str, stand_in: StandIn
) -> None:
    stand_in.finish = "stop"
    ((check,),) = _recorded(place, endpoint, unit())
    decoded = {row.case_id: row.token_ids for row in check.of("greedy", "long_context")}
    assert {r.case_id: r.token_ids for r in check.of("raw_scored")} == {
        case: ids[:-1] for case, ids in decoded.items()
    }


def test_a_harmed_server_is_recorded_harmed_and_left_healthy(
    place: Place, endpoint: str, stand_in: StandIn
) -> None:
    (healthy,), (harmed,), (after,) = _recorded(
        place, endpoint, unit(), unit(FAULTS["int8"]), unit(start=4)
    )

    def told(check: Check) -> list[object]:
        return [row.logprobs for row in check.of("raw_scored")]

    assert told(healthy) == told(after)
    assert told(harmed) != told(healthy)
    assert (harmed.head.fault, harmed.head.number, harmed.head.kind) == ("int8", 5, "int8 weights")
    assert stand_in.shift == 0.0
    # What the healthy model thinks is asked after the undo.
    replayed = [row.replay_logprobs for row in harmed.of(SAMPLED)]
    assert all(lp is not None and lp > -1.5 for lps in replayed for lp in lps)


def test_an_undo_that_does_not_work_stops_everything_and_keeps_nothing(
    place: Place, endpoint: str, stand_in: StandIn
) -> None:
    stand_in.heals = False
    one = unit(FAULTS["int8"])
    with pytest.raises(NotMended, match=r"model\.norm\.weight"):
        _recorded(place, endpoint, one)
    assert not place.file(one).exists()


def test_noise_is_there_for_the_noisy_track_alone(
    place: Place, endpoint: str, stand_in: StandIn
) -> None:
    _recorded(
        place, endpoint, unit(), unit(track=Track.NOISY, block=1), unit(FAULTS["int8"], Track.NOISY, block=1)
    )  # fmt: skip
    assert stand_in.calls == ["+jitter", "-jitter", "+jitter", "+weights", "-weights", "-jitter"]


def test_a_proxy_fault_changes_what_is_sent_and_not_what_judges(
    place: Place, endpoint: str, stand_in: StandIn
) -> None:
    _recorded(place, endpoint, unit(Fault(10, "hot", "k", Parameters({"temperature": 0.7}))))
    told = [body["temperature"] for _, body in stand_in.seen if "temperature" in body]
    assert told.count(0.7) == 6  # two seeded and four sampled answers
    assert 1.0 not in told[told.index(0.7) :]


def test_a_dropped_request_is_a_lost_row_and_no_more(place: Place, endpoint: str) -> None:
    ((check,),) = _recorded(place, endpoint, unit(Fault(0, "one-dropped", "k", Dropped(1))))
    lost = [row for row in check.rows if row.problem]
    assert len(lost) == 1
    assert str(lost[0].problem).startswith("transport")


def test_another_load_order_and_cache_give_the_same_rows(place: Place, endpoint: str) -> None:
    (plain,), (other,) = _recorded(
        place, endpoint, unit(), unit(start=4, manner=Manner(8, "warm", 5))
    )
    keys = [row.key for row in plain.rows]
    assert [row.key for row in other.rows] == keys
    assert (other.head.load, other.head.cache) == (8, "warm")
    assert [r.logprobs for r in plain.of("greedy")] == [r.logprobs for r in other.of("greedy")]


def test_without_draws_no_request_has_a_seed(
    place: Place, endpoint: str, stand_in: StandIn
) -> None:
    fault = Fault(0, "chunked", "k", Flags(()))
    ((check,),) = _recorded(place, endpoint, unit(fault, manner=Manner(draws=False)))
    assert not check.of("seeded", SAMPLED)
    assert not any("seed" in body for _, body in stand_in.seen)


def test_a_fault_that_ends_the_server_is_kept_and_the_rest_waits(
    place: Place, endpoint: str, stand_in: StandIn
) -> None:
    stand_in.dies_of_harm = True
    deadly, later = unit(FAULTS["int8"]), unit(start=4)
    healthy = unit()
    instance = Instance("i1", endpoint, 0, Path("log"), place.model, "chat", "now")
    units = (healthy, deadly, later)
    asyncio.run(record_units(place, instance, units, Progress(3, 3), longest_sleep_s=0.0))
    assert place.open(units) == [later]
    (check,) = read_file(place.file(deadly))
    assert {str(row.problem)[:9] for row in check.rows} == {"transport"}


def test_a_server_with_nan_in_its_cache_is_used_no_more(
    place: Place, endpoint: str, stand_in: StandIn
) -> None:
    """It computes NaN when its weights are whole again, and later faults would be blamed for it."""
    stand_in.has_nan = True
    harmful, later = unit(FAULTS["int8"]), unit(FAULTS["int4"])
    instance = Instance("i1", endpoint, 0, Path("log"), place.model, "chat", "now")
    units = (harmful, later)
    asyncio.run(record_units(place, instance, units, Progress(2, 2), longest_sleep_s=0.0))
    assert place.open(units) == [later]
    (check,) = read_file(place.file(harmful))
    refused = [row for row in check.rows if row.problem]
    assert {row.channel for row in refused} == {"chat_scored", "raw_scored"}
    assert all("not JSON compliant" in str(row.problem) for row in refused)


def _fake_serve(served_units: list[Sequence[str]], at_most: int = 100):  # type: ignore[no-untyped-def]
    def serve(
        place: Place, model: Path, flags: Sequence[str], units: Sequence[Unit], progress: Progress
    ) -> None:
        served_units.append([one.key for one in units[:at_most]])
        for one in units[:at_most]:
            write_checks(place.file(one), [made(one.key, one.start)])

    return serve  # fmt: skip


def test_recording_goes_on_where_it_stopped(place: Place) -> None:
    shared = [unit(), unit(FAULTS["int8"]), unit(start=4)]
    write_checks(place.file(shared[0]), [made("earlier", 2)])
    told: list[Sequence[str]] = []
    assert record(place, shared, [], _fake_serve(told))
    assert told == [[shared[1].key], [shared[2].key]]
    assert record(place, shared, [], _fake_serve(told))
    assert len(told) == 2
    assert read_checks(place.recordings)[0].head.check_id == "earlier"


def test_a_server_that_ends_early_is_started_again(place: Place) -> None:
    shared = [unit(), unit(FAULTS["int8"]), unit(FAULTS["int4"])]
    told: list[Sequence[str]] = []
    assert record(place, shared, [], _fake_serve(told, at_most=1))
    assert [len(one) for one in told] == [1, 1, 1]


def test_an_undo_that_was_not_exact_is_tried_once_more(place: Place) -> None:
    """Seen once in some hundred undos of a packed layer: the memory of the server is not to be trusted then."""
    shared = [unit(), unit(FAULTS["int8"])]
    tries: list[int] = []

    def serve(failures: int) -> Serve:
        def once(place: Place, model: Path, flags: Any, units: Sequence[Unit], _: Any) -> None:
            tries.append(len(units))
            if len(tries) <= failures:
                raise NotMended("the undo was not exact")
            for one in units:
                write_checks(place.file(one), [made(one.key, one.start)])

        return once

    assert record(place, shared, [], serve(1))
    assert tries == [2, 2]
    place.file(shared[1]).unlink()
    tries.clear()
    with pytest.raises(NotMended):
        record(place, shared, [], serve(2))


def test_time_that_has_run_out_is_told(place: Place) -> None:
    late = Place(place.model, place.work, PROBES, time.monotonic() - 1)
    assert not record(late, [unit()], [], _fake_serve([]))
    assert not record(late, [], [unit(Fault(9, "f", "k", Flags(())))], _fake_serve([]))


def test_an_altered_server_gets_its_own_folder_and_flags(place: Place) -> None:
    with altered_model(place.model, place.work, Fault(9, "rope", "k", Config({"theta": 2}))) as (
        folder,
        flags,
    ):
        assert (folder / "config.json").read_text() != (place.model / "config.json").read_text()
        assert flags == ()
    assert not folder.exists()
    with altered_model(place.model, place.work, Fault(15, "short", "k", Flags(("--x", "1")))) as (
        folder,
        flags,
    ):
        assert (folder / "config.json").read_text() == (place.model / "config.json").read_text()
        assert flags == ("--x", "1")
