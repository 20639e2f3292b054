"""What the client makes of answers, refusals and broken lines; the real server is in contracts/."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from quality_lib.adapters.vllm.client import VllmClient
from quality_lib.adapters.vllm.http import ATTEMPTS
from quality_lib.errors import OutsideFailure
from quality_lib.golden.answer import Answer, Channel, Fault, Probe
from quality_lib.golden.case import GoldenCase, Params

CASE = GoldenCase(
    id="c", messages=({"role": "user", "content": "Hi"},), params=Params(0.7, seed=5, max_tokens=9)
)
DECODE = Probe("c", Channel.SEEDED, 1)
REFERENCE = Answer(DECODE, text="a b", prompt_token_ids=(7, 8), token_ids=(1, 2))
GOOD: dict[str, Any] = {
    "prompt_token_ids": [7, 8],
    "choices": [
        {
            "message": {"content": "a b", "tool_calls": []},
            "finish_reason": "stop",
            "token_ids": [1, 2],
            "logprobs": {"content": [{"logprob": -0.1}, {"logprob": -0.2}]},
        }
    ],
}
Handler = Callable[[httpx.Request], httpx.Response]


async def no_sleep(_: float) -> None:
    """Do not wait between tries."""


def ask(handler: Handler, probe: Probe = DECODE) -> Answer:
    def without_metrics(request: httpx.Request) -> httpx.Response:
        return httpx.Response(404) if request.url.path == "/metrics" else handler(request)

    async def work() -> Answer:
        transport = httpx.MockTransport(without_metrics)
        async with VllmClient("http://x/", "m", transport=transport, sleep=no_sleep) as client:
            if probe.channel in {Channel.RAW_SCORED, Channel.CHAT_SCORED}:
                return await client.score(CASE, probe, REFERENCE)
            return await client.decode(CASE, probe, "salt")

    return asyncio.run(work())


def test_a_decoded_answer_carries_tokens_and_scores() -> None:
    sent: list[dict[str, Any]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        assert request.headers["x-quality-probe"] == "1"
        return httpx.Response(200, json=GOOD)

    answer = ask(handler)
    assert (answer.text, answer.token_ids, answer.logprobs) == ("a b", (1, 2), (-0.1, -0.2))
    assert answer.prompt_token_ids == (7, 8)
    assert sent[0]["seed"] == 5
    assert sent[0]["cache_salt"] == "salt"
    assert sent[0]["repetition_penalty"] == 1.0, "a default of the server must not look like drift"


@pytest.mark.parametrize(
    ("response", "fault", "tries"),
    [
        (httpx.Response(500, text="CUDA error"), Fault.REFUSED, 1),
        (httpx.Response(400, text="too long"), Fault.REFUSED, 1),
        (httpx.Response(200, text="<html>"), Fault.REFUSED, 1),
        (httpx.Response(200, json={"choices": []}), Fault.REFUSED, 1),
        (httpx.Response(200, json=None), Fault.REFUSED, 1),
        (httpx.Response(200, json={"choices": [{"message": None}]}), Fault.REFUSED, 1),
        (httpx.Response(503, text="overloaded"), Fault.TRANSPORT, ATTEMPTS),
        (httpx.Response(502, text="bad gateway"), Fault.TRANSPORT, ATTEMPTS),
    ],
)
def test_the_servers_own_words_count_and_a_proxys_are_tried_again(
    response: httpx.Response, fault: Fault, tries: int
) -> None:
    calls = 0

    def handler(request: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        return response

    answer = ask(handler)
    assert (answer.fault, calls) == (fault, tries)
    assert answer.error


def test_a_broken_connection_is_tried_again_and_then_an_answer_counts() -> None:
    calls = 0

    def handler(request: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        if calls < ATTEMPTS:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json=GOOD)

    assert ask(handler).is_judgeable
    assert calls == ATTEMPTS


@pytest.mark.parametrize(
    "error", [httpx.ConnectError, httpx.ReadTimeout, httpx.RemoteProtocolError, httpx.DecodingError]
)
def test_what_never_arrives_is_lost_not_bad(error: type[httpx.RequestError]) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise error("gone")

    assert ask(handler).fault is Fault.TRANSPORT


def test_raw_scoring_reads_the_answers_tokens_only() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert json.loads(request.content)["prompt"] == [7, 8, 1, 2]
        entries = [None, *({str(t): {"logprob": -float(t)}} for t in (8, 1, 2))]
        return httpx.Response(200, json={"choices": [{"prompt_logprobs": entries}]})

    answer = ask(handler, Probe("c", Channel.RAW_SCORED, 1))
    assert (answer.token_ids, answer.logprobs) == ((1, 2), (-1.0, -2.0))


def test_chat_scoring_reports_the_tokens_the_template_made() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        assert body["messages"][-1] == {"role": "assistant", "content": "a b"}
        assert body["continue_final_message"]
        ids = [7, 8, 1, 99]
        entries = [None, *({str(t): {"logprob": -0.5}} for t in ids[1:])]
        return httpx.Response(200, json={"prompt_token_ids": ids, "prompt_logprobs": entries})

    answer = ask(handler, Probe("c", Channel.CHAT_SCORED, 1))
    assert answer.token_ids == (1, 99)


def test_a_score_that_is_not_there_stays_none() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        entries = [None, None, {"1": {"logprob": None}}, {"5": {"logprob": -1.0}}]
        return httpx.Response(200, json={"choices": [{"prompt_logprobs": entries}]})

    assert ask(handler, Probe("c", Channel.RAW_SCORED, 1)).logprobs == (None, None)


def test_fewer_scores_than_tokens_is_no_answer() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"choices": [{"prompt_logprobs": [None]}]})

    answer = ask(handler, Probe("c", Channel.RAW_SCORED, 1))
    assert answer.fault is Fault.REFUSED


def test_an_unreachable_server_is_told_with_its_address() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async def work() -> None:
        transport = httpx.MockTransport(handler)
        async with VllmClient("http://x", "m", transport=transport, sleep=no_sleep) as client:
            await client.contract()

    with pytest.raises(OutsideFailure, match=r"http://x does not answer /v1/models"):
        asyncio.run(work())


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=json.dumps(GOOD).replace('"a b"', '"a \\ud83d"'))

    assert ask(handler).text == "a ?"


@pytest.mark.parametrize("path", ["/tokenize", "/v1/chat/completions"])
def test_a_busy_proxy_is_no_fact_of_the_interface(path: str) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        if request.url.path == path:
            return httpx.Response(503, text="busy")
        return httpx.Response(200, json={"data": [{"id": "m"}], "tokens": [1]})

    async def work() -> None:
        transport = httpx.MockTransport(handler)
        async with VllmClient("http://x", "m", transport=transport, sleep=no_sleep) as client:
            await client.contract()

    with pytest.raises(OutsideFailure, match="503"):
        asyncio.run(work())
