"""What else a server works on is read off its metrics, seldom, and a server that does not tell costs one look."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx
import pytest

from quality_lib.adapters.vllm.running_requests import EVERY_S, RunningRequests, running_of

PAGE = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="chat"}} {}
vllm:num_requests_waiting{{engine="0",model_name="chat"}} 99.0
"""


@pytest.mark.parametrize(
    ("page", "running"),
    [
        (PAGE.format("3.0"), 3),
        (PAGE.format("3.0") + 'vllm:num_requests_running{engine="1"} 4.0\n', 7),
        ("vllm:num_requests_running 2\n", 2),
        ("vllm:num_requests_running_total 2\n", None),
        ("# vllm:num_requests_running 2\n", None),
        (PAGE.format("many"), None),
        (PAGE.format("NaN"), None),
        (PAGE.format("+Inf"), None),
        ("", None),
        ("<html>", None),
    ],
)
def test_a_page_of_metrics(page: str, running: int | None) -> None:
    assert running_of(page) == running


class Server:
    """Answers one page after the other; counts how often it was asked."""

    def __init__(self, answers: Sequence[httpx.Response | httpx.TransportError]) -> None:
        self.answers, self.asked, self.now = list(answers), 0, 0.0

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        found = self.answers[min(self.asked, len(self.answers)) - 1]
        if isinstance(found, httpx.TransportError):
            raise found
        return found

    def look(self, running: RunningRequests, times: int, seconds: float) -> int | None:
        async def work() -> int | None:
            transport = httpx.MockTransport(self.answer)
            async with httpx.AsyncClient(transport=transport, base_url="http://vllm") as http:
                for _ in range(times):
                    await running.look(http)
                    self.now += seconds
                return running.take()

        return asyncio.run(work())


def page(running: int) -> httpx.Response:
    return httpx.Response(200, text=PAGE.format(float(running)))


def test_the_most_is_remembered_and_told_once() -> None:
    server = Server([page(1), page(5), page(2)])
    running = RunningRequests(lambda: server.now)
    assert server.look(running, 3, EVERY_S) == 5
    assert running.take() is None
    assert server.look(running, 1, 0.0) == 2, "a new check looks at once"


def test_it_is_asked_seldom() -> None:
    server = Server([page(1)])
    assert server.look(RunningRequests(lambda: server.now), 100, EVERY_S / 10) == 1
    assert server.asked <= 11


@pytest.mark.parametrize(
    "answer", [httpx.Response(404), httpx.Response(200, text="nothing here"), httpx.Response(500)]
)
def test_a_server_that_does_not_tell_is_asked_once(answer: httpx.Response) -> None:
    server = Server([answer])
    assert server.look(RunningRequests(lambda: server.now), 10, EVERY_S) is None
    assert server.asked == 1


def test_a_look_that_is_lost_harms_nothing() -> None:
    server = Server([httpx.ReadTimeout("slow"), page(4)])
    assert server.look(RunningRequests(lambda: server.now), 2, EVERY_S) == 4
