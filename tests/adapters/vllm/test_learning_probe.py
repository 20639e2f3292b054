"""The pass that learns: what is asked, what is taken from the answers, what is done when they fail."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from quality_lib.adapters.vllm.learning_probe import TOKENS, ask_for_learning
from quality_lib.errors import OutsideFailure
from quality_lib.gates.learn import HealthyAnswer
from quality_lib.golden.case import GoldenCase
from quality_lib.serving.entropy_header import encode

CASES = [GoldenCase(f"cäse-{i}", ({"role": "user", "content": f"q{i}"},)) for i in range(20)]


class Server:
    """Answers like vLLM; ``fails`` of the requests do not."""

    def __init__(self, *, tells: bool = True, fails: int = 0, body: Any = None) -> None:
        self.tells = tells
        self.fails = fails
        self.body = body
        self.asked: list[tuple[httpx.Request, dict[str, Any]]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request, json.loads(request.content)))
        if len(self.asked) <= self.fails:
            return httpx.Response(500, text="no")
        content = [{"logprob": -0.5}] * 3
        good = {"choices": [{"finish_reason": "length", "logprobs": {"content": content}}]}
        body = good if self.body is None else self.body
        headers = {"x-quality-entropies": encode([0.5, 1.0, 2.0]).decode()} if self.tells else {}
        return httpx.Response(200, json=body, headers=headers)


def ask(server: Server) -> tuple[HealthyAnswer, ...]:
    return ask_for_learning(
        "http://x/",
        "chat",
        CASES,
        concurrency=3,
        timeout_s=5,
        api_key="k",
        transport=httpx.MockTransport(server),
    )


def test_every_case_is_asked_once_hot_and_long() -> None:
    server = Server()
    answers = ask(server)
    assert answers[3] == HealthyAnswer(
        "cäse-3", is_cut=True, logprobs=[-0.5] * 3, entropies=(0.5, 1.0, 2.0)
    )
    assert [a.prompt for a in answers] == [c.id for c in CASES]
    request, body = server.asked[0]
    assert request.headers["authorization"] == "Bearer k"
    assert request.headers["x-quality-probe"] == "1"
    assert request.headers["x-quality-id"] == body["vllm_xargs"]["quality_id"]
    assert body["vllm_xargs"]["quality_correct"] == "off"
    assert (body["temperature"], body["max_tokens"], body["logprobs"]) == (1.0, TOKENS, True)
    assert len({b["vllm_xargs"]["quality_id"] for _, b in server.asked}) == len(CASES)


def test_a_server_that_tells_no_entropies_teaches_the_rest() -> None:
    assert all(not a.entropies and a.logprobs for a in ask(Server(tells=False)))


def test_a_few_failures_are_left_out_and_many_are_an_outside_failure() -> None:
    assert len(ask(Server(fails=2))) == 18
    with pytest.raises(OutsideFailure, match="3 of 20 requests failed"):
        ask(Server(fails=3))


@pytest.mark.parametrize("body", [[], {"choices": []}, {"choices": [{"logprobs": None}]}, "x"])
def test_an_answer_that_is_none_counts_as_failed(body: Any) -> None:
    with pytest.raises(OutsideFailure, match="20 of 20"):
        ask(Server(body=body))
