# ruff: noqa: RUF029  applications are asynchronous by their interface
"""What a client and the server behind see of the guard."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from quality_lib.exchanges.own_records import own_records
from quality_lib.exchanges.row import Dropped
from quality_lib.exchanges.source import Source
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.gate import Gate, Level
from quality_lib.gates.level_stream import StreamMonitor
from quality_lib.gates.parameter_finding import Finding
from quality_lib.gates.parameters import Adjusted
from quality_lib.gates.stream_limits import StreamLimits
from quality_lib.records import Outcome
from quality_lib.serving.guard import Guard
from quality_lib.serving.guard_parts import GuardLimits, GuardParts
from quality_lib.serving.judge_pool import JudgePool
from tests.serving.guarded import (
    CHAT,
    COMPLETIONS,
    HELLO,
    Setup,
    ask,
    both,
    crashing_gate,
    gate,
)
from tests.serving.stand_in_upstream import StandIn, compact

FAILED, SUSPECT, PASSED = Outcome.FAILED, Outcome.SUSPECT, Outcome.PASSED
TEXT: dict[str, Any] = {"model": "m", "prompt": "The sea"}

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, HELLO),
    "chat of two choices": (CHAT, {**HELLO, "n": 2}),
    "chat with log-probabilities": (CHAT, {**HELLO, "logprobs": True}),
    "chat with token ids": (CHAT, {**HELLO, "return_token_ids": True}),
    "chat with null log-probabilities": (CHAT, {**HELLO, "logprobs": None}),
    "text": (COMPLETIONS, TEXT),
    "text of two prompts": (COMPLETIONS, {**TEXT, "prompt": ["a", "b"], "n": 2}),
    "text of token ids": (COMPLETIONS, {**TEXT, "prompt": [1, 2, 3]}),
    "text with log-probabilities": (COMPLETIONS, {**TEXT, "logprobs": 0}),
    "text with an echo": (COMPLETIONS, {**TEXT, "echo": True}),
    "text with beams": (COMPLETIONS, {**TEXT, "use_beam_search": True}),
}
STREAMS: dict[str, dict[str, Any]] = {
    "whole": {},
    "stream": {"stream": True},
    "usage": {"stream": True, "stream_options": {"include_usage": True}},
    "running usage": {
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    },
}


@pytest.mark.parametrize("stops", [False, True], ids=["observe", "stop"])
@pytest.mark.parametrize("detail", [0.0, 1.0], ids=["text", "detail"])
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_client_gets_the_same_bytes(name: str, stream: str, detail: float, stops: bool) -> None:
    path, body = REQUESTS[name]
    setup = Setup()
    monitor = QuietMonitor if stops else None
    parts = setup.parts(
        detail=detail, stops=stops, monitor=None if monitor is None else lambda _: monitor()
    )
    up = StandIn(held_back=frozenset({1, 3}))
    guarded, plain = both(up, parts, {**body, **STREAMS[stream]}, path=path)
    assert guarded.content == plain.content
    assert guarded.status_code == 200
    assert guarded.headers.get("content-length") == plain.headers.get("content-length")
    assert setup.counters.skipped == []
    texts = [record["response"]["text"] for record in setup.records.kept]
    shown = "The answer is forty-two."
    swallowed = "The is-two."
    assert texts
    assert set(texts) <= {shown, swallowed}


@pytest.mark.parametrize("name", REQUESTS)
def test_details_are_recorded_for_their_share(name: str) -> None:
    path, body = REQUESTS[name]
    setup = Setup()
    up = StandIn()
    ask(Guard(up, setup.parts(detail=1.0)), body, path=path)
    left_alone = name in {"text with an echo", "text with beams"}
    for record in setup.records.kept:
        response = record["response"]
        assert response.get("token_ids") == (None if left_alone else [0, 1, 2, 3, 4, 5])
        assert response.get("logprobs") == (None if left_alone else [-0.25] * 6)
    ask(Guard(up, Setup().parts(detail=0.0)), body, path=path)
    assert up.requests[1] == body


@pytest.mark.parametrize(
    "body",
    [
        {**HELLO, "top_logprobs": 3},
        {**HELLO, "logprobs": "yes"},
        {**HELLO, "logprob_token_ids": [1]},
        {**HELLO, "echo": True},
    ],
)
def test_what_the_server_may_refuse_is_left_alone(body: dict[str, Any]) -> None:
    up = StandIn()
    ask(Guard(up, Setup().parts(detail=1.0)), body)
    assert up.requests == [body]


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_is_refused_only_for_its_details_is_asked_again(stream: bool) -> None:
    setup = Setup()
    up = StandIn(refuses=frozenset({"return_token_ids"}))
    parts = setup.parts(detail=1.0)
    guard = Guard(up, parts)
    for number in range(5):
        answer = ask(guard, {**HELLO, "stream": stream})
        assert answer.status_code == 200
        # After three the guard no longer asks.
        assert len(up.bodies) == min(2 * (number + 1), 6 + max(0, number - 2))
    assert [r["status"] for r in setup.records.kept] == [200] * 5
    assert setup.counters.skipped == [("detail", "refused")] * 3
    told = [r.get("asked_again_without") for r in setup.records.kept]
    assert told == [["detail"]] * 3 + [None] * 2
    assert not any("nan_logits" in r for r in setup.records.kept)


@pytest.mark.parametrize(
    ("refuses", "without", "bodies"),
    [
        ("repetition_detection", ["detail", "stream"], 3),
        ("return_token_ids", ["detail"], 2),
    ],
)
def test_details_are_blamed_only_for_what_they_did(
    refuses: str, without: list[str], bodies: int
) -> None:
    setup = Setup()
    up = StandIn(refuses=frozenset({refuses}))
    parts = setup.parts(detail=1.0, stops=True, engine_fields={"repetition_detection": {"a": 1}})
    guard = Guard(up, parts)
    for _ in range(4):
        up.bodies.clear()
        assert ask(guard, HELLO).status_code == 200
    assert setup.records.kept[0]["asked_again_without"] == without
    assert setup.records.kept[0]["status"] == 200
    # Who was refused for something else still asks; who was refused for its details has given up.
    assert len(up.bodies) == (bodies if refuses == "repetition_detection" else 1)


NAN = "Out of range float values are not JSON compliant: nan"


class NanServer(StandIn):
    """Cannot write log-probabilities down, as vLLM 0.32 with NaN in its logits."""

    raises = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = await self._body(receive)
        self.bodies.append(body)
        asked = json.loads(body)
        if not asked.get("logprobs"):

            async def again() -> Any:
                return {"type": "http.request", "body": body}

            await super().__call__(scope, again, send)
        elif self.raises:
            raise ValueError(NAN)
        else:
            error = {"error": {"message": NAN, "type": "BadRequestError", "code": 400}}
            await self._send_json(send, 400, error)


@pytest.mark.parametrize("raises", [False, True], ids=["400", "raises"])
def test_a_server_with_nan_is_told_and_its_client_gets_an_answer(raises: bool) -> None:
    setup = Setup()
    up = NanServer()
    up.raises = raises
    answer = ask(Guard(up, setup.parts(detail=1.0, monitor=stream_monitor)), HELLO)
    assert answer.status_code == 200
    record = setup.record
    assert record["nan_logits"] is True
    assert record["response"]["nan_logits"] == 1
    assert [g["reason"] for g in record["gates"]] == ["stream_nan_logits"]
    assert setup.counters.skipped == [("detail", "refused")]
    assert setup.counters.failed == [(3, "stream", "stream_nan_logits", FAILED)]


def test_a_nan_in_what_the_client_asked_for_is_recorded_too() -> None:
    setup = Setup()
    answer = ask(Guard(NanServer(), setup.parts(detail=1.0)), {**HELLO, "logprobs": True})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, NAN)
    assert setup.record["nan_logits"] is True


def test_other_errors_of_the_application_get_out_though_something_was_added() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("theirs")

    setup = Setup()
    with pytest.raises(ValueError, match="theirs"):
        drive(Guard(app, setup.parts(detail=1.0)), HELLO)
    assert setup.record["raised"] == "ValueError"


def stream_monitor(exchange: Any) -> Any:
    return StreamMonitor(StreamLimits(), LearnedBounds(), frozenset(), exchange.asked)


def test_an_error_is_what_the_server_says_of_the_request_as_it_was() -> None:
    up = StandIn(refuses=frozenset({"messages"}))
    setup = Setup()
    guarded, plain = both(up, setup.parts(detail=1.0), HELLO)
    assert (guarded.status_code, guarded.content) == (400, plain.content)
    assert setup.record["error"] == {"type": "BadRequestError", "message": "no messages"}
    assert setup.record["response"] is None
    assert setup.record["status"] == 400


# --- what is not guarded -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", CHAT),
        ("HEAD", CHAT),
        ("OPTIONS", CHAT),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/chat/completions/batch"),
        ("POST", "/v1/chat/completions/"),
        ("GET", "/health"),
    ],
)
def test_other_requests_pass_untouched(method: str, path: str) -> None:
    seen = pass_through({"type": "http", "method": method, "path": path, "headers": []})
    assert seen


def test_websockets_pass_untouched() -> None:
    assert pass_through({"type": "websocket", "path": CHAT, "headers": []})


def pass_through(scope: dict[str, Any]) -> bool:
    """Tell whether the application gets the very objects that the guard got."""
    given: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        given.extend((scope, receive, send))

    async def receive() -> Any:
        raise AssertionError("nobody may read")

    async def send(message: Any) -> None:
        raise AssertionError("nobody may write")

    asyncio.run(Guard(app, GuardParts())(scope, receive, send))
    return given[0] is scope and given[1] is receive and given[2] is send


def test_the_path_is_found_below_a_root_path() -> None:
    setup = Setup()
    ask(Guard(StandIn(), setup.parts()), HELLO, path="/api" + CHAT, root_path="/api")
    assert len(setup.records.kept) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'"text"', b"null", b"\xff\xfe", b'{"a":' * 100_000, b"{} {}"],
    ids=["empty", "cut", "list", "text", "null", "binary", "deep", "two"],
)
def test_a_body_that_is_no_request_reaches_the_server_as_it_is(content: bytes) -> None:
    setup = Setup()
    up = StandIn(raw=[b"own answer"], raw_type="application/json", status=400)
    guarded, plain = both(up, setup.parts(detail=1.0), content=content)
    assert up.bodies == [content, content]
    assert (guarded.status_code, guarded.content) == (plain.status_code, plain.content)
    assert setup.records.kept == []


@pytest.mark.parametrize("enforces", [False, True])
def test_a_body_beyond_the_limit_is_counted_and_refused_where_gates_refuse(enforces: bool) -> None:
    setup = Setup()
    up = StandIn()
    parts = setup.parts(
        limits=GuardLimits(max_body_bytes=100),
        admitter=setup.admitter(enforces=enforces),
        detail=1.0,
    )
    body = {**HELLO, "user": "x" * 100}
    answer = ask(Guard(up, parts), body)
    assert answer.status_code == (400 if enforces else 200)
    assert up.requests == ([] if enforces else [body])
    if enforces:
        assert answer.json()["error"]["code"] == "request_too_long"
    assert setup.counters.skipped == [("input", "body_too_long")]
    record = setup.record
    assert record["status"] == answer.status_code
    assert record.get("refused") == ("request_too_long" if enforces else None)
    assert (record["request"], record["response"]) == ({"prompt": None, "params": {}}, None)
    # What reads the log leaves it out, instead of finding it broken.
    (row,) = own_records(Source(service="chat"))(json.loads(json.dumps(record)), "k", 1)
    assert isinstance(row, Dropped)


def test_a_body_of_just_the_limit_is_read() -> None:
    setup = Setup()
    size = len(json.dumps(HELLO, separators=(",", ":")))
    limits = GuardLimits(max_body_bytes=size)
    content = json.dumps(HELLO, separators=(",", ":")).encode()
    ask(Guard(StandIn(), setup.parts(limits=limits)), content=content)
    assert setup.record["request"]["messages"] == HELLO["messages"]
    assert setup.counters.skipped == []


def test_another_content_type_gets_the_servers_own_answer() -> None:
    setup = Setup()
    up = StandIn()
    ask(Guard(up, setup.parts()), HELLO, headers={"content-type": "text/plain"})
    assert setup.records.kept == []


@pytest.mark.parametrize(
    ("given", "is_guarded"),
    [("Bearer key", True), ("bearer key", True), ("Bearer other", False), ("", False)],
)
def test_without_the_servers_key_nothing_is_judged_or_recorded(
    given: str, is_guarded: bool
) -> None:
    setup = Setup()
    parts = setup.parts(
        env={"VLLM_API_KEY": "key"}, admitter=setup.admitter(gate(FAILED), enforces=True)
    )
    answer = ask(Guard(StandIn(), parts), HELLO, headers={"authorization": given})
    assert answer.status_code == (400 if is_guarded else 200)
    assert len(setup.records.kept) == int(is_guarded)


# --- levels 1 and 2 ------------------------------------------------------------------------------


def test_a_bad_request_is_refused_in_the_shape_of_openai() -> None:
    setup = Setup()
    admitter = setup.admitter(gate(FAILED, reason="input_blank"), enforces=True)
    up = StandIn()
    answer = ask(Guard(up, setup.parts(admitter=admitter)), HELLO, headers={"x-request-id": "q"})
    assert answer.status_code == 400
    assert answer.json() == {
        "error": {
            "message": "A sentence.",
            "type": "invalid_request_error",
            "param": None,
            "code": "input_blank",
        }
    }
    assert answer.headers["x-quality-verdict"] == "FAILED; input_blank"
    assert answer.headers["x-request-id"] == "q"
    assert up.bodies == []
    assert setup.counters.failed == [(1, "fake", "input_blank", FAILED)]
    assert setup.record["refused"] == "input_blank"
    assert setup.record["gates"][0]["reason"] == "input_blank"


@pytest.mark.parametrize("outcome", [FAILED, SUSPECT])
@pytest.mark.parametrize("size", [1, 40_000], ids=["short", "long"])
def test_observing_touches_nothing(outcome: Outcome, size: int) -> None:
    setup = Setup()
    parts = setup.parts(admitter=setup.admitter(gate(outcome)))
    body = {"messages": [{"role": "user", "content": "x" * size}]}
    up = StandIn()
    guarded, plain = both(up, parts, body)
    assert guarded.content == plain.content
    assert up.bodies[0] == up.bodies[1]
    assert setup.record["outcome"] == outcome.value
    assert setup.counters.failed == [(1, "fake", "fake_reason", outcome)]


def test_a_long_request_is_refused_too() -> None:
    setup = Setup()
    parts = setup.parts(admitter=setup.admitter(gate(FAILED), enforces=True))
    body = {"messages": [{"role": "user", "content": "x" * 40_000}]}
    assert ask(Guard(StandIn(), parts), body).status_code == 400


@pytest.mark.parametrize(("prompts", "status"), [(["a", "b"], 200), (["a", "bad"], 400)])
def test_every_prompt_of_a_list_is_judged(prompts: list[str], status: int) -> None:
    setup = Setup()
    admitter = setup.admitter(gate(FAILED, when="bad"), enforces=True)
    guard = Guard(StandIn(), setup.parts(admitter=admitter))
    assert ask(guard, {"prompt": prompts}, path=COMPLETIONS).status_code == status


def test_a_suspect_request_is_not_refused() -> None:
    setup = Setup()
    admitter = setup.admitter(gate(SUSPECT), enforces=True)
    answer = ask(Guard(StandIn(), setup.parts(admitter=admitter)), HELLO)
    assert answer.status_code == 200
    assert answer.headers["x-quality-verdict"] == "SUSPECT; fake_reason"


def finding(outcome: Outcome = SUSPECT) -> Finding:
    return Finding("temperature", 5, 1.2, "temperature_high", outcome, "Too hot.")


def adjuster(*findings: Finding) -> Any:
    return lambda exchange: Adjusted({**exchange.params, "temperature": 1.2}, findings)


@pytest.mark.parametrize(
    ("mode", "enforces", "status", "used"),
    [
        ("observe", True, 200, 5),
        ("clamp", False, 200, 5),
        ("clamp", True, 200, 1.2),
        ("reject", True, 400, None),
        ("reject", False, 200, 5),
    ],
)
def test_parameters_are_changed_or_refused_as_configured(
    mode: str, enforces: bool, status: int, used: Any
) -> None:
    setup = Setup()
    admitter = setup.admitter(
        gate(SUSPECT, level=Level.PARAMETERS),
        adjust=adjuster(finding()),
        mode=mode,
        enforces=enforces,
    )
    up = StandIn()
    body = {**HELLO, "temperature": 5, "n": 1, "seed": 2**63 - 1}
    answer = ask(Guard(up, setup.parts(admitter=admitter, detail=1.0)), body)
    assert answer.status_code == status
    if status == 400:
        assert answer.json()["error"]["param"] == "temperature"
        assert answer.json()["error"]["code"] == "temperature_high"
        assert up.requests == []
        return
    assert up.requests[0]["temperature"] == used
    assert up.requests[0]["messages"] == HELLO["messages"]
    assert up.requests[0]["seed"] == 2**63 - 1
    record = setup.record
    assert record["request"]["params"]["temperature"] == used
    if used == 1.2:
        assert record["asked_params"]["temperature"] == 5
        assert record["changes"] == [
            {"field": "temperature", "asked": 5, "used": 1.2, "reason": "temperature_high"}
        ]


def test_answers_belong_to_the_prompts_of_the_request_as_it_was_sent() -> None:
    setup = Setup()

    def clamp(exchange: Any) -> Adjusted:
        found = Finding("n", 3, 2, "n_high", SUSPECT, "Too many.")
        return Adjusted({**exchange.params, "n": 2}, (found,))

    watched: list[str] = []

    def monitor(exchange: Any) -> Any:
        watched.append(exchange.prompt)
        return QuietMonitor()

    admitter = setup.admitter(adjust=clamp, mode="clamp", enforces=True)
    guard = Guard(StandIn(), setup.parts(admitter=admitter, monitor=monitor))
    ask(guard, {"prompt": ["A", "B"], "n": 3}, path=COMPLETIONS)
    kept = setup.records.kept
    assert [r["request"]["prompt"] for r in kept] == ["A", "A", "B", "B"]
    assert watched == ["A", "A", "B", "B"]
    assert [r["asked_params"]["n"] for r in kept] == [3] * 4
    assert {r["request"]["params"]["n"] for r in kept} == {2}


def test_harmless_changes_are_no_reason_to_refuse() -> None:
    setup = Setup()
    admitter = setup.admitter(adjust=adjuster(finding(PASSED)), mode="reject", enforces=True)
    assert ask(Guard(StandIn(), setup.parts(admitter=admitter)), HELLO).status_code == 200


# --- ids and marks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"x-request-id": "mine"}, {}, "mine"),
        ({"X-Request-Id": "Mine-2"}, {"request_id": "other"}, "Mine-2"),
        ({}, {"request_id": "from-the-body"}, "from-the-body"),
        ({}, {"request_id": "of the body"}, None),
        ({}, {"request_id": ""}, None),
        ({}, {"request_id": 5}, None),
        ({"x-request-id": "with space"}, {}, None),
        ({"x-request-id": "x" * 300}, {}, None),
    ],
)
def test_one_id_goes_through_everything(
    headers: dict[str, str], body: dict[str, Any], expected: str | None
) -> None:
    setup = Setup()
    up = StandIn()
    answer = ask(Guard(up, setup.parts()), {**HELLO, **body}, headers=headers)
    told = answer.headers["x-request-id"]
    assert told == expected or (expected is None and len(told) == 32)
    assert setup.record["id"] == told
    # The client's own id reaches the server as it was, wherever it stands: vLLM answers under it.
    sent = next((v for k, v in headers.items() if k.lower() == "x-request-id"), None)
    in_body = isinstance(body.get("request_id"), str)
    assert up.headers[0].get("x-request-id") == (sent or (None if in_body else told))


def test_an_id_that_the_server_has_set_is_not_told_twice() -> None:
    up = StandIn(raw=[b"{}"], raw_type="application/json", raw_headers=[(b"X-Request-Id", b"q")])
    answer = ask(Guard(up, Setup().parts()), HELLO, headers={"x-request-id": "q"})
    assert answer.headers.get_list("x-request-id") == ["q"]


def test_own_probes_are_recorded_and_not_scored() -> None:
    setup = Setup()
    parts = setup.parts(
        detail=1.0,
        admitter=setup.admitter(gate(SUSPECT)),
        finished_gates=(gate(FAILED, level=Level.OUTPUT),),
        monitor=lambda _: BadMonitor(),
    )
    up = StandIn()
    ask(Guard(up, parts), {**HELLO, "stream": True}, headers={"x-quality-probe": "1"})
    assert up.requests == [{**HELLO, "stream": True}]
    assert setup.record["probe"] is True
    assert setup.counters.failed == []


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_finished_answer_is_judged_and_recorded(stream: bool) -> None:
    setup = Setup()
    output = gate(FAILED, level=Level.OUTPUT, when="forty-two", name="answers")
    parts = setup.parts(finished_gates=(output,))
    ask(Guard(StandIn(), parts), {**HELLO, "stream": stream, "temperature": 0.5})
    record = setup.record
    assert record["gates"] == [
        {
            "gate": "answers",
            "level": 4,
            "outcome": "FAILED",
            "reason": "fake_reason",
            "sentence": "A sentence.",
            "evidence": {},
        }
    ]
    assert record["outcome"] == "FAILED"
    assert record["service"] == "chat"
    assert record["usage"] == {"prompt_tokens": 7, "completion_tokens": 6}
    assert record["request"]["params"]["temperature"] == 0.5
    assert record["response"]["finish_reason"] == "stop"
    assert record["status"] == 200
    assert setup.counters.failed == [(4, "answers", "fake_reason", FAILED)]


def test_every_choice_is_an_exchange() -> None:
    setup = Setup()
    body = {"prompt": ["a", "b"], "n": 2}
    ask(Guard(StandIn(), setup.parts()), body, path=COMPLETIONS, headers={"x-request-id": "q"})
    kept = setup.records.kept
    assert [r["id"] for r in kept] == ["q-0", "q-1", "q-2", "q-3"]
    assert {r["request_id"] for r in kept} == {"q"}
    assert [r["request"]["prompt"] for r in kept] == ["a", "a", "b", "b"]


def test_an_echoed_prompt_is_no_part_of_the_answer() -> None:
    setup = Setup()
    up = StandIn(words=("The sea", " is", " wide."))
    ask(Guard(up, setup.parts()), {**TEXT, "echo": True}, path=COMPLETIONS)
    assert setup.record["response"]["text"] == " is wide."


def sse(*values: Any) -> list[bytes]:
    return [b"data: " + compact(v) + b"\n\n" for v in values] + [b"data: [DONE]\n\n"]


def delta(index: int = 0, finish: str | None = None, **said: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": said, "finish_reason": finish}]}


def test_tool_calls_and_reasoning_are_put_together_from_their_pieces() -> None:
    setup = Setup()
    call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a"'}}
    more = {"index": 0, "function": {"arguments": ": 1}"}}
    other = {"index": 1, "id": "c2", "function": {"name": "g", "arguments": "{}"}}
    up = StandIn(
        raw=sse(
            delta(role="assistant", content=""),
            delta(reasoning="Let me "),
            delta(reasoning_content="see."),
            delta(tool_calls=[call]),
            delta(tool_calls=[more, other]),
            delta(refusal="No."),
            delta(finish="tool_calls"),
        )
    )
    ask(Guard(up, setup.parts()), {**HELLO, "stream": True})
    response = setup.record["response"]
    assert response["reasoning"] == "Let me see."
    assert response["tool_calls"] == [
        {"id": "c1", "name": "f", "arguments": '{"a": 1}'},
        {"id": "c2", "name": "g", "arguments": "{}"},
    ]
    assert response["finish_reason"] == "tool_calls"
    assert setup.record["refusal"] == "No."


def test_a_null_answer_stays_null() -> None:
    setup = Setup()
    body = {"choices": [{"index": 0, "message": {"content": None}, "finish_reason": "stop"}]}
    up = StandIn(raw=[compact(body)], raw_type="application/json")
    ask(Guard(up, setup.parts()), HELLO)
    assert setup.record["response"]["text"] is None


def test_an_error_inside_a_stream_is_recorded() -> None:
    setup = Setup()
    broken = {"error": {"message": "engine died", "type": "InternalServerError", "code": 500}}
    up = StandIn(raw=sse(delta(content="Hel"), broken))
    parts = setup.parts(finished_gates=(gate(FAILED, level=Level.OUTPUT),))
    answer = ask(Guard(up, parts), {**HELLO, "stream": True})
    assert answer.content == b"".join(up.raw or ())
    assert setup.record["error"] == {"type": "InternalServerError", "message": "engine died"}
    assert setup.record["response"]["finish_reason"] is None
    assert setup.counters.failed == []
    assert setup.counters.skipped == [("output", "unfinished")]


@pytest.mark.parametrize(("status", "recorded"), [(500, 1), (429, 1), (401, 0), (403, 0), (404, 0)])
def test_failures_are_recorded_and_foreign_requests_are_not(status: int, recorded: int) -> None:
    setup = Setup()
    up = StandIn(raw=[b'{"error": {"message": "m"}}'], raw_type="application/json", status=status)
    answer = ask(Guard(up, setup.parts(detail=1.0)), HELLO)
    assert (answer.status_code, answer.json()["error"]) == (status, {"message": "m"})
    assert len(setup.records.kept) == recorded


def test_a_compressed_answer_passes_unjudged() -> None:
    setup = Setup()
    up = StandIn(
        raw=[b"\x1f\x8bnot really"],
        raw_type="application/json",
        raw_headers=[(b"content-encoding", b"x-own")],
    )
    answer = ask(Guard(up, setup.parts()), HELLO)
    assert answer.content == b"\x1f\x8bnot really"
    assert setup.counters.skipped == [("answer", "compressed")]


def test_what_must_be_taken_out_must_come_readable() -> None:
    up = StandIn()
    guard = Guard(up, Setup().parts(detail=1.0))
    ask(guard, HELLO, headers={"accept-encoding": "gzip"})
    ask(Guard(up, Setup().parts()), HELLO, headers={"accept-encoding": "gzip"})
    assert [h.get("accept-encoding") for h in up.headers] == [None, "gzip"]


def test_an_image_is_left_out_of_the_record() -> None:
    setup = Setup()
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9}}
    content = [{"type": "text", "text": "What is this?"}, picture]
    up = StandIn()
    ask(Guard(up, setup.parts()), {"messages": [{"role": "user", "content": content}]})
    assert up.requests[0]["messages"][0]["content"] == content
    assert setup.record["request"]["messages"][0]["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "omitted": True},
    ]


def test_a_very_long_answer_is_kept_at_both_ends_and_not_judged() -> None:
    from quality_lib.serving.choice_state import Caps

    setup = Setup()
    limits = GuardLimits(caps=Caps(characters=20, tokens=4))
    parts = setup.parts(
        limits=limits, detail=1.0, finished_gates=(gate(FAILED, level=Level.OUTPUT),)
    )
    up = StandIn(words=[f"<{i:03}>" for i in range(100)])
    guarded, plain = both(up, parts, {**HELLO, "stream": True})
    assert guarded.content == plain.content
    record = setup.record
    assert record["response"]["text"] == "<000><001><098><099>"
    assert record["dropped"] == {"characters": 480, "tokens": 96}
    assert "token_ids" not in record["response"]
    assert setup.counters.skipped == [("output", "answer_too_long")]


# --- level 3 -------------------------------------------------------------------------------------


class QuietMonitor:
    """Finds nothing."""

    suspicious_tokens = 0
    verdicts: tuple[Any, ...] = ()

    def feed(self, *piece: Any) -> Any:
        return None

    def finish(self, finish_reason: str | None = None) -> tuple[Any, ...]:
        return ()


class BadMonitor(QuietMonitor):
    """Fails as soon as it has seen the word."""

    suspicious_tokens = 3

    def __init__(self, word: str = "forty") -> None:
        self.word = word
        self.text = ""

    def feed(self, text: str, *numbers: Any) -> Any:
        from quality_lib.records import Verdict

        self.text += text
        if self.word in self.text and not self.verdicts:
            self.verdicts = (Verdict(FAILED, "stream_loop", "A loop."),)
            return self.verdicts[0]
        return None


def test_a_monitor_that_observes_touches_nothing() -> None:
    setup = Setup()
    parts = setup.parts(monitor=lambda _: BadMonitor())
    guarded, plain = both(StandIn(), parts, {**HELLO, "stream": True})
    assert guarded.content == plain.content
    assert setup.record["gates"][0]["reason"] == "stream_loop"
    assert setup.record["gates"][0]["level"] == 3
    assert setup.counters.suspicious == 3
    assert setup.counters.stopped == []


def test_a_whole_answer_is_shown_to_the_monitor_too() -> None:
    setup = Setup()
    ask(Guard(StandIn(), setup.parts(monitor=lambda _: BadMonitor())), HELLO)
    assert setup.record["gates"][0]["reason"] == "stream_loop"


def chunks_of(content: bytes) -> list[dict[str, Any]]:
    lines = [x.removeprefix("data: ") for x in content.decode().split("\n\n") if x]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@pytest.mark.parametrize("detail", [0.0, 1.0], ids=["text", "detail"])
@pytest.mark.parametrize("usage", [False, True], ids=["no usage", "usage"])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_bad_stream_is_stopped(path: str, usage: bool, detail: float) -> None:
    setup = Setup()
    up = StandIn(words=[" word"] * 20 + [" forty"] + [" more"] * 500, pause_s=0.001)
    parts = setup.parts(
        detail=detail,
        stops=True,
        monitor=lambda _: BadMonitor(),
        limits=GuardLimits(stop_chunks=4),
        finished_gates=(gate(FAILED, level=Level.OUTPUT),),
    )
    asked = HELLO if path == CHAT else TEXT
    body: dict[str, Any] = {**asked, "stream": True}
    if usage:
        body["stream_options"] = {"include_usage": True}
    answer = ask(Guard(up, parts), body, path=path)
    chunks = chunks_of(answer.content)
    last = chunks[-2 if usage else -1]
    assert last["choices"][0]["finish_reason"] == "quality_stop"
    assert set(last) == {"id", "object", "created", "choices", "model"}
    assert len(chunks) < 40
    if usage:
        assert chunks[-1]["choices"] == []
        tokens = chunks[-1]["usage"]["completion_tokens"]
        assert 20 < tokens < 30
        assert chunks[-1]["usage"]["total_tokens"] == 7 + tokens
    assert not any("usage" in chunk for chunk in chunks[:-1])
    assert up.cut_off_at is not None, "the engine goes on"
    record = setup.record
    assert record["response"]["finish_reason"] == "quality_stop"
    assert [g["reason"] for g in record["gates"]] == ["stream_loop"]
    assert "disconnected" not in record
    assert setup.counters.stopped == ["stream_loop"]
    assert setup.counters.skipped == []


def test_of_several_choices_only_the_bad_one_is_stopped() -> None:
    setup = Setup()
    monitors = iter([BadMonitor("forty"), BadMonitor("never")])
    up = StandIn(words=[" a", " forty", " b", " c", " d", " e"])
    parts = setup.parts(
        stops=True, monitor=lambda _: next(monitors), limits=GuardLimits(stop_chunks=1)
    )
    answer = ask(Guard(up, parts), {**HELLO, "n": 2, "stream": True})
    texts = {0: "", 1: ""}
    reasons = {}
    for chunk in chunks_of(answer.content):
        choice = chunk["choices"][0]
        texts[choice["index"]] += choice["delta"].get("content", "")
        reasons[choice["index"]] = choice["finish_reason"]
    assert texts == {0: " a forty", 1: " a forty b c d e"}
    assert reasons == {0: "quality_stop", 1: "stop"}
    assert [r["response"]["finish_reason"] for r in setup.records.kept] == ["quality_stop", "stop"]


def test_a_server_that_sees_a_lost_client_only_when_it_sends_is_stopped_too() -> None:
    """Starlette under ASGI 2.4 waits for no disconnect."""
    sent: list[Any] = []

    class ClientDisconnect(Exception):
        pass

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            for _ in range(1000):
                await send({
                    "type": "http.response.body",
                    "body": sse(delta(content=" forty"))[0],
                    "more_body": True,
                })
                sent.append(1)
        except OSError:
            raise ClientDisconnect from None

    setup = Setup()
    parts = setup.parts(
        stops=True, monitor=lambda _: BadMonitor(), limits=GuardLimits(stop_chunks=2)
    )
    received = drive(Guard(app, parts), {**HELLO, "stream": True}, spec_version="2.4")
    assert len(sent) == 2
    assert b"quality_stop" in received[-1]["body"]
    assert received[-1]["more_body"] is False


# --- clients that leave --------------------------------------------------------------------------


def drive(
    app: Any,
    body: Any,
    *,
    leaves_after: int | None = None,
    spec_version: str = "2.3",
    parts: Sequence[bytes] | None = None,
) -> list[dict[str, Any]]:
    """Send one request by hand; the client leaves after so many messages."""
    received: list[dict[str, Any]] = []

    async def run() -> None:
        gone = asyncio.Event()
        text = json.dumps(body).encode()
        pieces = list(parts) if parts is not None else [text]

        async def receive() -> Any:
            if pieces:
                piece = pieces.pop(0)
                return {"type": "http.request", "body": piece, "more_body": bool(pieces)}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if not gone.is_set():
                received.append(message)
            if leaves_after is not None and len(received) >= leaves_after:
                gone.set()

        scope = {
            "type": "http",
            "method": "POST",
            "path": CHAT,
            "headers": [(b"content-type", b"application/json")],
            "asgi": {"spec_version": spec_version},
        }
        await asyncio.wait_for(app(scope, receive, send), 20)

    asyncio.run(run())
    return received


@pytest.mark.parametrize("stops", [False, True], ids=["observe", "stop"])
@pytest.mark.parametrize("detail", [0.0, 1.0], ids=["text", "detail"])
def test_a_client_that_leaves_frees_the_engine_and_is_recorded(detail: float, stops: bool) -> None:
    setup = Setup()
    parts = setup.parts(
        detail=detail,
        stops=stops,
        monitor=lambda _: QuietMonitor(),
        finished_gates=(gate(FAILED, level=Level.OUTPUT),),
    )
    up = StandIn(words=[" word"] * 1000, pause_s=0.001)
    drive(Guard(up, parts), {**HELLO, "stream": True}, leaves_after=5)
    assert up.cut_off_at is not None
    assert up.cut_off_at < 50
    assert setup.record["disconnected"] is True
    assert setup.record["response"]["finish_reason"] is None
    assert setup.record["response"]["text"].startswith(" word word")
    assert setup.counters.failed == []


def test_a_body_that_comes_in_pieces_is_read_and_given_on() -> None:
    setup = Setup()
    up = StandIn()
    text = json.dumps(HELLO).encode()
    drive(Guard(up, setup.parts()), None, parts=[text[:10], b"", text[10:20], text[20:]])
    assert up.requests == [HELLO]
    assert len(setup.records.kept) == 1


def test_a_client_that_leaves_while_it_sends_reaches_the_server_so() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while not seen or seen[-1] != "http.disconnect":
            seen.append((await receive())["type"])

    async def run() -> None:
        messages = [{"type": "http.request", "body": b"{", "more_body": True}]

        async def receive() -> Any:
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None: ...

        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": headers}
        await Guard(app, Setup().parts())(scope, receive, send)

    asyncio.run(run())
    assert seen == ["http.request", "http.disconnect"]


# --- our own failures ----------------------------------------------------------------------------


@pytest.mark.parametrize("enforces", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_gates_that_crash_touch_nothing(stream: bool, enforces: bool) -> None:
    setup = Setup()
    parts = setup.parts(
        admitter=setup.admitter(
            crashing_gate(), crashing_gate(Level.PARAMETERS), enforces=enforces, mode="reject"
        ),
        finished_gates=(crashing_gate(Level.OUTPUT),),
    )
    guarded, plain = both(StandIn(), parts, {**HELLO, "stream": stream})
    assert guarded.content == plain.content
    assert setup.counters.skipped == [("crasher", "gate_crashed")] * 3
    assert {g["reason"] for g in setup.record["gates"]} == {"gate_crashed"}


class Crashing:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize("stops", [False, True])
def test_a_monitor_that_crashes_touches_nothing(stops: bool) -> None:
    setup = Setup()
    parts = setup.parts(monitor=lambda _: Crashing(), stops=stops)
    guarded, plain = both(StandIn(), parts, {**HELLO, "stream": True})
    assert guarded.content == plain.content
    assert setup.counters.skipped == [("stream", "gate_crashed")]
    assert len(setup.records.kept) == 1


@pytest.mark.parametrize("stops", [False, True])
def test_a_monitor_that_cannot_be_made_touches_nothing(stops: bool) -> None:
    def broken(exchange: Any) -> Any:
        raise RuntimeError

    setup = Setup()
    parts = setup.parts(monitor=broken, stops=stops)
    guarded, plain = both(StandIn(), parts, {**HELLO, "stream": True})
    assert guarded.content == plain.content
    assert len(setup.records.kept) == 1


@pytest.mark.parametrize("what", ["sink", "counters", "admitter", "detail", "spans", "failures"])
@pytest.mark.parametrize("stream", [False, True])
def test_no_part_that_breaks_becomes_an_error_of_the_server(what: str, stream: bool) -> None:
    parts: dict[str, Any] = {
        "admitter": Setup().admitter(gate(FAILED)),
        "finished_gates": (gate(FAILED, level=Level.OUTPUT),),
    }
    parts[what] = Crashing()
    guarded, plain = both(StandIn(), GuardParts(**parts), {**HELLO, "stream": stream})
    assert guarded.status_code == 200
    assert guarded.content == plain.content


def test_what_the_application_raises_gets_out_and_is_recorded() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise KeyError("theirs")

    setup = Setup()
    with pytest.raises(KeyError, match="theirs"):
        drive(Guard(app, setup.parts()), HELLO)
    assert setup.record["raised"] == "KeyError"
    assert setup.record["response"] is None


def test_gates_beyond_the_time_are_skipped_and_counted() -> None:
    now = [0.0]

    def slow(exchange: Any) -> Any:
        now[0] += 1.0
        return gate(PASSED).judge(exchange)

    setup = Setup()
    gates = (Gate("slow", Level.OUTPUT, slow, ()), gate(FAILED, level=Level.OUTPUT))
    parts = setup.parts(finished_gates=gates, clock=lambda: now[0])
    ask(Guard(StandIn(), parts), HELLO)
    assert setup.counters.skipped == [("fake", "gate_slow")]
    assert setup.record["gates"][0]["reason"] == "gate_slow"


def full_pool() -> JudgePool:
    pool = JudgePool(1, 0, 0, 10.0, lambda: 0.0)
    pool.close()
    return pool


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_queue_skips_the_judgement_and_keeps_the_record(stream: bool) -> None:
    setup = Setup()
    parts = setup.parts(pool=full_pool(), finished_gates=(gate(FAILED, level=Level.OUTPUT),))
    ask(Guard(StandIn(), parts), {**HELLO, "stream": stream})
    assert setup.record["response"]["text"] == "The answer is forty-two."
    assert setup.record["gates"] == []
    assert setup.counters.skipped == [("output", "queue_full")]
    assert setup.counters.lost == []


def test_behind_a_full_queue_levels_1_and_2_are_not_asked_on_the_event_loop() -> None:
    setup = Setup()
    # Long, and only observed: due afterwards, in a thread.
    body = {"messages": [{"role": "user", "content": "x" * 2000}]}
    parts = setup.parts(
        pool=full_pool(),
        limits=GuardLimits(inline_bytes=1000),
        admitter=setup.admitter(gate(FAILED)),
    )
    ask(Guard(StandIn(), parts), body)
    assert setup.record["gates"] == []
    assert setup.counters.failed == []
    assert setup.counters.skipped == [("input", "queue_full"), ("output", "queue_full")]


@pytest.mark.parametrize("what", ["prompt", "answer", "stream"])
def test_behind_a_full_queue_a_large_exchange_is_lost_and_counted(what: str) -> None:
    """Reading, masking and writing it on the event loop would hold up every other answer."""
    setup = Setup()
    read: list[bool] = []
    parts = setup.parts(
        pool=full_pool(), monitor=lambda _: QuietMonitor(), on_finished=lambda: read.append(True)
    )
    long = "word " * 20_000
    up = StandIn() if what == "prompt" else StandIn(words=[long])
    asked = {"messages": [{"role": "user", "content": long if what == "prompt" else "Hi"}]}
    answer = ask(Guard(up, parts), {**asked, "stream": what == "stream"})
    assert answer.status_code == 200
    assert (setup.records.kept, read) == ([], [])
    assert setup.counters.lost == [("queue_full", 1)]
    assert setup.counters.skipped == [("output", "queue_full")]


def test_an_exchange_is_judged_and_recorded_beside_the_event_loop() -> None:
    setup = Setup()
    threads: list[str] = []

    def judge(exchange: Any) -> Any:
        threads.append(threading.current_thread().name)
        return gate(PASSED).judge(exchange)

    pool = JudgePool(1, 10, 10**6, 10.0, lambda: 0.0)
    due = Gate("input", Level.INPUT, judge, ())
    parts = setup.parts(
        pool=pool,
        limits=GuardLimits(inline_bytes=1),
        admitter=setup.admitter(due),
        finished_gates=(Gate("output", Level.OUTPUT, judge, ()),),
    )
    ask(Guard(StandIn(), parts), HELLO)
    pool.close()
    assert threads == ["quality-judge"] * 2
    assert len(setup.records.kept) == 1


# --- long requests -------------------------------------------------------------------------------


def test_a_long_request_waits_a_bounded_time_and_hung_threads_hold_up_nobody() -> None:
    setup = Setup()
    held = threading.Event()
    asked: list[str] = []

    def judge(exchange: Any) -> Any:
        asked.append(threading.current_thread().name)
        assert held.wait(20)
        return gate(FAILED).judge(exchange)

    # The clock stands, so that no thread is replaced; 0 s are exceeded by what comes later.
    now = [0.0]
    pool = JudgePool(1, 10, 10**6, 1000.0, lambda: now[0])
    parts = setup.parts(
        limits=GuardLimits(inline_bytes=1, long_request_s=0.05),
        admitter=setup.admitter(Gate("slow", Level.INPUT, judge, ()), enforces=True),
        admission_pool=pool,
    )
    guard = Guard(StandIn(), parts)
    assert ask(guard, HELLO).status_code == 200
    now[0] = 1.0
    began = time.monotonic()
    waiting = replace(parts, limits=GuardLimits(inline_bytes=1, long_request_s=0.9))
    assert ask(Guard(StandIn(), waiting), HELLO).status_code == 200
    assert time.monotonic() - began < 0.8, "it waited for a thread that does not come back"
    held.set()
    pool.close()
    assert asked == ["quality-judge"]
    # The one that came too late is in no record, and so it is in no counter.
    assert setup.counters.failed == []
    assert [r["gates"] for r in setup.records.kept] == [[], []]
    assert setup.counters.skipped == [("input", "gate_slow")] * 2


def test_a_long_request_is_judged_in_a_thread() -> None:
    setup = Setup()
    pool = JudgePool(1, 10, 10**6, 10.0, lambda: 0.0)
    parts = setup.parts(
        limits=GuardLimits(inline_bytes=1),
        admitter=setup.admitter(gate(FAILED), enforces=True),
        admission_pool=pool,
    )
    assert ask(Guard(StandIn(), parts), HELLO).status_code == 400
    pool.close()
    assert setup.counters.failed == [(1, "fake", "fake_reason", FAILED)]
    assert setup.record["gates"][0]["reason"] == "fake_reason"


# --- start and end -------------------------------------------------------------------------------


def lifespan(guard: Guard) -> list[dict[str, Any]]:
    """Start and stop an application."""
    sent: list[dict[str, Any]] = []

    async def run() -> None:
        messages = [{"type": "lifespan.shutdown"}, {"type": "lifespan.startup"}]

        async def receive() -> Any:
            return messages.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        await guard({"type": "lifespan"}, receive, send)

    asyncio.run(run())
    return sent


async def lifespan_app(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


def test_the_parts_are_closed_when_the_server_ends() -> None:
    closed: list[bool] = []
    guard = Guard(lifespan_app, GuardParts(on_close=lambda: closed.append(True)))
    assert [m["type"] for m in lifespan(guard)] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    assert closed == [True]


def test_closing_holds_up_no_event_loop_and_is_over_when_the_server_is_told() -> None:
    loop_thread = threading.get_ident()
    events: list[str] = []

    def on_close() -> None:
        assert threading.get_ident() != loop_thread
        events.append("closed")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        events.append("told")

    lifespan(Guard(app, GuardParts(on_close=on_close)))
    assert events == ["closed", "told"]


def test_an_application_that_breaks_at_its_start_closes_too() -> None:
    closed: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise KeyError("theirs")

    with pytest.raises(KeyError):
        lifespan(Guard(app, GuardParts(on_close=lambda: closed.append(True))))
    assert closed == [True]


@pytest.mark.parametrize(
    ("text", "service", "says"),
    [
        (None, "chat", "no such configuration file"),
        (
            "services: {chat: {endpoint: http://x, model: m, weights: w, "
            "gates: {input: {scope_examples: [a]}}}}",
            "",
            "gates.input.scope_examples",
        ),
        ("services: {chat: {endpoint: http://x, model: m, weights: w, gates: {x: 1}}}", "", "x"),
        ("services: {chat: {endpoint: http://x, model: m, weights: w}}", "other", "no service"),
        (
            "services: {a: {endpoint: http://x, model: m, weights: w}, "
            "b: {endpoint: http://x, model: m, weights: w}}",
            "",
            "QUALITY_SERVICE is not set",
        ),
    ],
)
def test_a_broken_configuration_stops_the_server_while_it_starts(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, text: str | None, service: str, says: str
) -> None:
    file = tmp_path / "quality.yaml"
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("QUALITY_CONFIG", str(file))
    monkeypatch.setenv("QUALITY_SERVICE", service)
    (message,) = lifespan(Guard(lifespan_app))
    assert message["type"] == "lifespan.startup.failed"
    assert says in message["message"]
    assert str(file) in message["message"] or says == "no service"


def test_without_a_configuration_it_observes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUALITY_CONFIG", raising=False)
    monkeypatch.delenv("QUALITY_SERVICE", raising=False)
    up = StandIn()
    guard = Guard(up)
    body = {"messages": [{"role": "user", "content": "   "}], "temperature": 99}
    assert ask(guard, body).status_code == 200
    assert up.requests == [body]
    assert guard._parts is not None
    guard._parts.close()
