# ruff: noqa: RUF029  applications are asynchronous by their interface
"""Whatever comes, from either side: no error of ours, and in observe mode not one byte changed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quality_lib.gates.bounds import LearnedBounds
from quality_lib.serving.detail_share import DetailShare
from quality_lib.serving.engine_features import EngineFeatures
from quality_lib.serving.guard import Guard
from quality_lib.serving.guard_parts import GuardParts
from quality_lib.serving.guard_setup import GuardSetup, make_parts
from quality_lib.serving.server_tokenizer import ServerTokenizer
from quality_lib.settings import GateSettings
from tests.serving.guarded import CHAT, COMPLETIONS, Counters, Records

RUNS = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
ODD = JSON | st.sampled_from([
    "",
    " ",
    "hi",
    0,
    1,
    -1,
    2**70,
    1e400,
    [],
    {},
    True,
    [1, 2],
    ["a", 1],
])
MESSAGES = st.lists(
    st.fixed_dictionaries({}, optional={"role": ODD, "content": ODD, "tool_calls": ODD}), max_size=3
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "messages": MESSAGES | ODD,
        **dict.fromkeys(
            (
                *("prompt", "model", "stream", "stream_options", "n", "temperature", "top_p"),
                *("logprobs", "top_logprobs", "return_token_ids", "echo", "max_tokens", "stop"),
                *("tools", "response_format", "request_id", "use_beam_search", "seed", "top_k"),
                *("repetition_penalty", "frequency_penalty", "vllm_xargs", "logit_bias", "user"),
            ),
            ODD,
        ),
    },
)
BODIES = (
    FIELDS.map(lambda v: json.dumps(v).encode())
    | JSON.map(lambda v: json.dumps(v).encode())
    | st.binary(max_size=40)
)

CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "index": ODD,
        "delta": st.fixed_dictionaries({}, optional={"content": ODD, "tool_calls": ODD}) | ODD,
        "message": st.fixed_dictionaries({}, optional={"content": ODD}) | ODD,
        "text": ODD,
        "finish_reason": ODD,
        "logprobs": ODD,
        "token_ids": ODD,
    },
)
ANSWER = st.fixed_dictionaries(
    {}, optional={"choices": st.lists(CHOICE, max_size=3) | ODD, "usage": ODD, "error": ODD}
).map(lambda v: json.dumps(v).encode())
EVENT = st.builds(
    lambda prefix, data, end: prefix + data + end,
    st.sampled_from([b"data: ", b"data:", b": ", b"event: ", b"", b"data: [DONE]"]),
    ANSWER | st.binary(max_size=12),
    st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r", b"\n", b"\ndata: more\n\n", b""]),
)
STREAM = st.lists(EVENT, max_size=6).map(b"".join)
KINDS = st.sampled_from([
    *("text/event-stream", "text/event-stream; charset=utf-8", "application/json", "text/plain"),
    "",
])
STATUS = st.sampled_from([200, 200, 200, 201, 400, 404, 422, 500, 501])


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


def parts(reaction: str, stream: str = "observe", mode: str = "observe") -> GuardParts:
    """The real gates, judged at once, recorded in memory."""
    chosen = GateSettings.model_validate({
        "reaction": reaction,
        "stream": {"reaction": stream},
        "parameters": {"mode": mode},
        "log": {"detail_share": 1.0},
    })
    setup = GuardSetup("chat", "", chosen, LearnedBounds(), {})
    features = EngineFeatures(repetition_detection=True)
    made = make_parts(setup, ServerTokenizer(), features, Counters())
    assert made.pool is not None
    made.pool.close()
    return replace(made, pool=None, failures=None)


OBSERVING = parts("observe")
ENFORCING = parts("enforce", "stop", "clamp")


def exchange(
    guard_parts: GuardParts, path: str, body: bytes, answer: list[bytes], kind: str, status: int
) -> tuple[int | None, bytes, list[bytes]]:
    """Return status and body that the client gets, and the bodies that the server got."""
    got: list[bytes] = []
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        text = b""
        while True:
            message = await receive()
            text += message.get("body", b"")
            if not message.get("more_body"):
                break
        got.append(text)
        headers = [(b"content-type", kind.encode())] if kind else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for piece in answer:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def run() -> None:
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        await Guard(app, guard_parts)(scope, receive, send)

    asyncio.run(run())
    starts = [m["status"] for m in sent if m["type"] == "http.response.start"]
    assert len(starts) == 1
    assert sent[0]["type"] == "http.response.start"
    ends = [not m.get("more_body", False) for m in sent[1:]]
    assert ends.count(True) == 1
    assert ends[-1]
    return starts[0], b"".join(m["body"] for m in sent[1:]), got


@RUNS
@given(
    st.sampled_from([CHAT, COMPLETIONS]), BODIES, STREAM | ANSWER,
    st.lists(st.integers(0, 500), max_size=5), KINDS, STATUS,
)  # fmt: skip
def test_observing_changes_no_byte(
    path: str, body: bytes, answer: bytes, cuts: list[int], kind: str, status: int
) -> None:
    counters, records = Counters(), Records()
    watched = replace(OBSERVING, counters=counters, sink=records)
    got_status, got, bodies = exchange(watched, path, body, cut(answer, cuts), kind, status)
    assert (got_status, got) == (status, answer)
    assert bodies == [body]
    assert not [s for s in counters.skipped if s[0] in {"answer", "record", "input", "detail"}]
    for record in records.kept:
        json.dumps(record)


@RUNS
@given(
    st.sampled_from([CHAT, COMPLETIONS]), BODIES, STREAM | ANSWER,
    st.lists(st.integers(0, 500), max_size=5), KINDS, STATUS,
)  # fmt: skip
def test_enforcing_makes_no_error_of_its_own(
    path: str, body: bytes, answer: bytes, cuts: list[int], kind: str, status: int
) -> None:
    counters, records = Counters(), Records()
    enforcing = replace(ENFORCING, counters=counters, sink=records, detail=DetailShare(1.0))
    got_status, got, bodies = exchange(enforcing, path, body, cut(answer, cuts), kind, status)
    assert got_status in {status, 400}
    if not bodies:
        assert set(json.loads(got)) == {"error"}
    elif kind not in {"application/json"} and not kind.startswith("text/event"):
        assert got == answer
    for sent in bodies:
        assert sent == body or isinstance(json.loads(sent), dict)
    crashed = [s for s in counters.skipped if s[1] == "gate_crashed" and s[0] != "scope"]
    assert not crashed
    for record in records.kept:
        json.dumps(record)


TOKENS = st.lists(st.text(max_size=4), min_size=1, max_size=8)


@RUNS
@given(st.booleans(), TOKENS, st.lists(st.integers(0, 3000), max_size=8), st.integers(1, 3))
def test_extras_are_taken_out_wherever_the_stream_is_cut(
    is_chat: bool, tokens: list[str], cuts: list[int], n: int
) -> None:
    """A server that sends what was asked, once with and once without the guard's additions."""
    from tests.serving.stand_in_upstream import Answering, StandIn

    path = CHAT if is_chat else COMPLETIONS
    asked: dict[str, Any] = {"stream": True, "n": n}
    asked |= {"messages": [{"role": "user", "content": "a"}]} if is_chat else {"prompt": "a"}
    up = StandIn(words=tokens)
    extra = {"logprobs": True if is_chat else 0, "return_token_ids": True}
    detailed = b"".join(Answering(up, {**asked, **extra}, is_chat, "r").chunks())
    plain = b"".join(Answering(up, asked, is_chat, "r").chunks())
    watched = replace(OBSERVING, counters=Counters(), sink=Records(), detail=DetailShare(1.0))
    body = json.dumps(asked).encode()
    _, got, bodies = exchange(watched, path, body, cut(detailed, cuts), "text/event-stream", 200)
    assert json.loads(bodies[0]) == {**asked, **extra}
    assert got == plain
