"""What the replay client asks and what it makes of answers, refusals and a dead reference."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest

from quality_lib.adapters.vllm.replay_client import ReplayClient, replay_all
from quality_lib.errors import OutsideFailure
from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.scoring.replay import Replayed, Skip

Handler = Callable[[httpx.Request], httpx.Response]
ANSWER = Answer("ab", token_ids=(7, 8), logprobs=(-0.1, -0.2))
RECORDED = Exchange(id="r", prompt_token_ids=(1, 2), answer=ANSWER, prompt="hi")
CHAT = Exchange(
    id="c",
    messages=({"role": "user", "content": "hi"},),
    tools=({"type": "function", "function": {"name": "f"}},),
    prompt_tokens=2,
    answer=ANSWER,
)


async def no_sleep(_: float) -> None:
    """Do not wait between tries."""


def entry(token: int, logprob: float, **others: float) -> dict[str, Any]:
    own = {str(token): {"logprob": logprob, "rank": 1, "decoded_token": f"<{token}>"}}
    return own | {name: {"logprob": value} for name, value in others.items()}


SCORED = [None, entry(2, -3.0), entry(7, -0.2, **{"9": -0.05}), entry(8, -25.0, **{"9": -0.01})]


def ask(handler: Handler, *exchanges: Exchange) -> Sequence[Replayed | Skip]:
    async def work() -> Sequence[Replayed | Skip]:
        transport = httpx.MockTransport(handler)
        async with ReplayClient("http://x", "m", transport=transport, sleep=no_sleep) as client:
            return await replay_all(client, exchanges)

    return asyncio.run(work())


def completion(scored: Any = SCORED) -> httpx.Response:
    return httpx.Response(200, json={"choices": [{"prompt_logprobs": scored}]})


def test_recorded_prompt_tokens_are_scored_as_they_are() -> None:
    sent: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return completion()

    (found,) = ask(handler, RECORDED)
    assert found == Replayed((-0.2, -25.0), (-0.05, -0.01), ("<7>", "<8>"))
    (request,) = sent
    body = json.loads(request.content)
    assert (request.url.path, body["prompt"]) == ("/v1/completions", [1, 2, 7, 8])
    assert (body["prompt_logprobs"], body["max_tokens"]) == (1, 1)
    assert request.headers["x-quality-probe"] == "1"


def test_without_recorded_tokens_the_reference_writes_the_prompt_itself() -> None:
    asked: list[dict[str, Any]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/tokenize":
            asked.append(json.loads(request.content))
            return httpx.Response(200, json={"tokens": [1, 2]})
        return completion()

    (found,) = ask(handler, CHAT)
    assert isinstance(found, Replayed)
    assert asked == [
        {"model": "m", "messages": list(CHAT.messages or ()), "tools": list(CHAT.tools)}
    ]


@pytest.mark.parametrize(
    ("exchange", "tokens", "reason"),
    [
        (CHAT, [1, 2, 3], Skip.PROMPT_DIFFERS),
        (Exchange(prompt="hi", answer=ANSWER), [1, 2], Skip.PROMPT_DIFFERS),  # no count to compare
        (Exchange(answer=ANSWER), [], Skip.NO_PROMPT),
        (Exchange(prompt="hi", answer=Answer("text")), [], Skip.NO_TOKENS),
        (Exchange(prompt="hi"), [], Skip.NO_TOKENS),
        (Exchange(prompt="to [email]", prompt_tokens=2, answer=ANSWER), [1, 2], Skip.MASKED),
    ],
)
def test_what_cannot_be_replayed_is_left_out_with_its_reason(
    exchange: Exchange, tokens: list[int], reason: Skip
) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/tokenize"
        return httpx.Response(200, json={"tokens": tokens})

    assert ask(handler, exchange) == [reason]


def test_a_prompt_that_the_reference_refuses_is_left_out() -> None:
    too_long = httpx.Response(400, json={"error": {"message": "too long"}})
    assert ask(lambda _: too_long, RECORDED) == [Skip.REFUSED]


@pytest.mark.parametrize(
    ("status", "words"), [(404, "HTTP 404"), (401, "HTTP 401"), (500, "HTTP 500"), (503, "503")]
)
def test_a_reference_that_answers_nobody_is_an_outside_failure(status: int, words: str) -> None:
    with pytest.raises(OutsideFailure, match=words):
        ask(lambda _: httpx.Response(status, text="no"), RECORDED, CHAT)


def test_a_dead_reference_is_an_outside_failure() -> None:
    def handler(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(OutsideFailure, match="http://x does not answer: refused"):
        ask(handler, RECORDED)


@pytest.mark.parametrize("scored", [None, [], [None, entry(2, -1.0)], "text"])
def test_an_answer_of_another_shape_is_an_outside_failure(scored: Any) -> None:
    with pytest.raises(OutsideFailure, match="cannot be read"):
        ask(lambda _: completion(scored), RECORDED)


def test_a_token_that_the_reference_does_not_score_has_no_value() -> None:
    (found,) = ask(lambda _: completion([None, None, None, entry(8, -1.0)]), RECORDED)
    assert isinstance(found, Replayed)
    assert found.logprobs == (None, -1.0)
