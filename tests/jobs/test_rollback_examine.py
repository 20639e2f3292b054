"""A few answers held against a baseline: bad, good, or nothing to say."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from quality_lib.adapters.vllm.header_transport import HeaderTransport
from quality_lib.adapters.vllm.server_health import is_healthy
from quality_lib.golden.answer import Answer, Fault, GoldenRun, Probe
from quality_lib.golden.baseline import Baseline, build_baseline
from quality_lib.golden.case import GoldenCase, Params
from quality_lib.golden.execute import execute
from quality_lib.golden.parse import golden_digest
from quality_lib.golden.plan import decode_channel
from quality_lib.jobs.rollback_examine import confirmed, core_cases, judge_core
from quality_lib.jobs.rollback_parts import Examination
from quality_lib.records import Tri
from tests.fakes_model import FakeModel, MemoryRecorder

CASES = tuple(
    GoldenCase(
        id=f"case-{number}",
        messages=({"role": "user", "content": f"question {number}"},),
        params=Params(max_tokens=8),
        tags=("core",) if number % 2 else (),
        critical=number == 5,
    )
    for number in range(12)
)
Change = Callable[[Answer], Answer]


def similarity(pairs: object) -> list[float]:
    return [0.1 for _ in pairs]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    runs = []
    for number in range(2):
        answers = asyncio.run(
            execute(CASES, FakeModel(), MemoryRecorder(), concurrency=4, cache_salt="s")
        )
        runs.append(
            GoldenRun(
                run_id=f"run-{number}",
                service="chat",
                started_at="2026-01-01T00:00:00+00:00",
                duration_s=1.0,
                golden_digest=golden_digest(CASES),
                model="chat",
                endpoint="http://127.0.0.1:1",
                concurrency=4,
                contract={},
                answers=answers,
                reference_run_id="run-0" if number else None,
            )
        )
    return build_baseline(CASES, runs, similarity, "2026-01-01T00:00:00+00:00", "test")


def asked(cases: tuple[GoldenCase, ...], change: Change) -> dict[str, Answer]:
    async def ask() -> list[Answer]:
        model = FakeModel(change)
        return [await model.decode(c, Probe(c.id, decode_channel(c), 1), "s") for c in cases]

    return {answer.probe.key: answer for answer in asyncio.run(ask())}


def other(*case_ids: str) -> Change:
    """Return a model that says something else to these cases."""
    return lambda a: replace(a, text="other") if a.probe.case_id in case_ids else a


def test_the_critical_ones_come_first_then_the_core(baseline: Baseline) -> None:
    chosen = core_cases(CASES, baseline, 4)
    assert [case.id for case in chosen] == ["case-5", "case-1", "case-3", "case-7"]
    assert {case.repeats for case in chosen} == {1}


@pytest.mark.parametrize(
    ("change", "state", "told"),
    [
        (lambda a: a, Tri.YES, "10 of 10 core cases equal"),
        (lambda a: replace(a, text="!" * 40), Tri.NO, "critical cases fail|below 0.8"),
        (lambda a: replace(a, text="other"), Tri.NO, "below 0.8"),
        (lambda a: replace(a, fault=Fault.REFUSED, text="", error="500"), Tri.NO, "refused"),
        (lambda a: replace(a, fault=Fault.TRANSPORT, text=""), Tri.UNKNOWN, "10 requests got lost"),
        (other("case-1"), Tri.YES, "9 of 10.*, 1 lower than ever in health"),
        (other("case-1", "case-3", "case-7"), Tri.YES, "7 of 10.*0.730, 3 lower"),
        (other(*(f"case-{n}" for n in (0, 1, 2, 3, 4))), Tri.NO, "5 of 10.*below 0.8"),
    ],
    ids=["healthy", "garbage", "other texts", "refused", "lost", "near-tie", "three", "half"],
)
def test_the_judgement(baseline: Baseline, change: Change, state: Tri, told: str) -> None:
    chosen = core_cases(CASES, baseline, 10)
    found = judge_core(chosen, asked(chosen, change), baseline, similarity, 0.8)
    assert found.state is state, found.headline
    assert re.search(told, found.headline)


@pytest.mark.parametrize(("others", "state"), [(1, Tri.YES), (2, Tri.YES), (3, Tri.NO)])
def test_of_three_answers_one_that_parts_from_health_says_nothing(
    baseline: Baseline, others: int, state: Tri
) -> None:
    """The few cases of a move: one near-tie under traffic took a healthy target back."""
    chosen = core_cases(CASES, baseline, 3)
    change = other(*[case.id for case in reversed(chosen)][:others])
    found = judge_core(chosen, asked(chosen, change), baseline, similarity, 0.8)
    assert found.state is state, found.headline


def test_what_health_says_in_one_way_alone_is_asked_before_what_wavers(baseline: Baseline) -> None:
    known = baseline.cases["case-1"]
    wavers = tuple(replace(o, exact=0.5) for o in known.observations)
    unsteady = {**baseline.cases, "case-1": replace(known, observations=wavers)}
    chosen = core_cases(CASES, replace(baseline, cases=unsteady), 4)
    assert [case.id for case in chosen] == ["case-5", "case-3", "case-7", "case-9"]


GOOD, BAD, BLIND = (Examination(state, str(state)) for state in (Tri.YES, Tri.NO, Tri.UNKNOWN))


@pytest.mark.parametrize(
    ("looks", "state", "told"),
    [
        ([GOOD], Tri.YES, "yes"),
        ([BLIND], Tri.UNKNOWN, "unknown"),
        ([BAD, GOOD], Tri.YES, "yes; a look before it: no"),
        ([BAD, BAD], Tri.NO, "no; a look before it: no"),
        ([BAD, BLIND], Tri.UNKNOWN, "unknown; a look before it: no"),
    ],
)
def test_a_bad_look_is_taken_again(looks: list[Examination], state: Tri, told: str) -> None:
    left = list(looks)
    found = confirmed(lambda: left.pop(0))
    assert (found.state, found.headline, left) == (state, told, [])


def test_equal_answers_never_load_the_embedding_model(baseline: Baseline) -> None:
    """Loading it takes longer than a step's few answers, and every step of a rollback asks some."""

    def broken(pairs: object) -> list[float]:
        raise AssertionError(f"nothing had to be rated, but {pairs} were")

    chosen = core_cases(CASES, baseline, 10)
    two = {
        case_id: replace(case, texts=("another healthy text", *case.texts))
        for case_id, case in baseline.cases.items()
    }
    answers = asked(chosen, lambda a: a)
    found = judge_core(chosen, answers, replace(baseline, cases=two), broken, 0.8)
    assert found.state is Tri.YES
    assert found.detail["mean_similarity"] == 1.0


def test_headers_go_with_every_request(small_server_address: str) -> None:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=HeaderTransport({"X-Quality-Instance": "a"})) as c:
            return await c.get(f"http://{small_server_address}/")

    assert asyncio.run(ask()).text == "a"


def test_health(small_server_address: str) -> None:
    assert is_healthy(small_server_address)
    assert not is_healthy("127.0.0.1:9")


@pytest.fixture
def small_server_address() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.headers.get("X-Quality-Instance", "").encode())

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
