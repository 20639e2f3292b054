"""The small parts of the guard, each alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from quality_lib.exchanges.masking import mask_text
from quality_lib.gates.gate import GateVerdict, Level
from quality_lib.records import Outcome, Verdict
from quality_lib.serving import guard_setup
from quality_lib.serving.asked import Asked
from quality_lib.serving.choice_state import Caps
from quality_lib.serving.detail_share import FORGET_AFTER_S, GIVE_UP_AFTER, DetailShare
from quality_lib.serving.engine_features import EngineFeatures
from quality_lib.serving.entropy_buckets import ENTROPY_BUCKETS
from quality_lib.serving.entropy_feed import EntropyFeed
from quality_lib.serving.entropy_layout import EntropyCounts
from quality_lib.serving.failure_log import FailureLog
from quality_lib.serving.guard_setup import make_parts, read_setup
from quality_lib.serving.judge_pool import MAX_REPLACED, JudgePool
from quality_lib.serving.request_body import object_of, with_fields
from quality_lib.serving.response_state import ResponseState
from quality_lib.serving.server_tokenizer import ServerTokenizer, server_tokenizer
from quality_lib.serving.spans import NoSpans, OtelSpans, configured_spans
from quality_lib.serving.strip import Extras, strip_body, strip_chunk
from quality_lib.serving.text_window import TextWindow
from tests.serving.guarded import Counters

FAILED = GateVerdict("loop", Level.OUTPUT, Verdict(Outcome.FAILED, "loop", "It loops: a@b.com"))
PASSED = GateVerdict("echo", Level.OUTPUT, Verdict(Outcome.PASSED, "echo_ok", "Fine."))

# --- request bodies ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"a":1}', b'{"a":1,"n": 2}'),
        (b' {"a": 1.10 } \n', b' {"a": 1.10 ,"n": 2}'),
        (b"{}", b'{"n": 2}'),
        (b'{"n": 9, "big": 12345678901234567890}', b'{"n": 9, "big": 12345678901234567890,"n": 2}'),
        ('{"a":"é"}'.encode("utf-16"), b'{"a": "\\u00e9", "n": 2}'),
    ],
)
def test_fields_are_put_at_the_end_of_the_text_as_it_is(body: bytes, expected: bytes) -> None:
    value = object_of(body)
    assert value is not None
    result = with_fields(body, {"n": 2}, value)
    assert result == expected
    assert json.loads(result) == {**value, "n": 2}


@given(st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=4))
def test_set_fields_count_whatever_was_there(value: dict[str, Any]) -> None:
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    result = with_fields(body, {"logprobs": True}, value)
    assert json.loads(result) == {**value, "logprobs": True}


# --- strip ---------------------------------------------------------------------------------------

EXTRAS = Extras(
    frozenset({"logprobs", "token_ids"}), frozenset({"prompt_token_ids"}), silent_chunks=True
)


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (
            b'{"id":"a","choices":[{"index":0,"delta":{"content":"\\u00e9\\/"},"logprobs":{"content"'
            b':[]},"finish_reason":null,"token_ids":[1]}],"prompt_token_ids":[1,2],"x":1.50}',
            b'{"id":"a","choices":[{"index":0,"delta":{"content":"\\u00e9\\/"},"logprobs":null,'
            b'"finish_reason":null,"token_ids":null}],"prompt_token_ids":null,"x":1.50}',
        ),
        (b'{"choices":[{"delta":{},"finish_reason":null,"token_ids":[1]}]}', None),
        (b'{"choices":[{"delta":{},"token_ids":[1]}]}', None),
        (
            b'{"choices":[{"delta":{},"finish_reason":"stop","token_ids":[1]}]}',
            b'{"choices":[{"delta":{},"finish_reason":"stop","token_ids":null}]}',
        ),
        (
            b'{"choices":[{"delta":{"content":""},"token_ids":[1]}]}',
            b'{"choices":[{"delta":{"content":""},"token_ids":null}]}',
        ),
        (b'{"choices":[],"usage":{"a":1}}', b'{"choices":[],"usage":{"a":1}}'),
        (b'{"error":{"token_ids":[1]}}', b'{"error":{"token_ids":[1]}}'),
        (
            b'{"choices":[{"text":"\\"token_ids\\":[1]","token_ids":[1]}]}',
            b'{"choices":[{"text":"\\"token_ids\\":[1]","token_ids":null}]}',
        ),
    ],
)
def test_only_the_extras_go(chunk: bytes, expected: bytes | None) -> None:
    assert strip_chunk(chunk, EXTRAS) == expected


def test_a_running_usage_goes_and_the_last_one_stays() -> None:
    extras = Extras(chunk_usage=True)
    running = b'{"id":"a","choices":[{"index":0}],"model":"m","usage":{"a":1}}'
    assert strip_chunk(running, extras) == b'{"id":"a","choices":[{"index":0}],"model":"m"}'
    last = b'{"id":"a","choices":[],"usage":{"a":1}}'
    assert strip_chunk(last, extras) == last


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"choices":1}', b'{"choices":[1]}'])
def test_what_is_no_answer_is_told(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        strip_body(body, EXTRAS)


# --- windows and states --------------------------------------------------------------------------


@given(st.integers(2, 12), st.lists(st.text(max_size=7), max_size=12))
def test_a_window_keeps_the_two_ends(limit: int, pieces: list[str]) -> None:
    window = TextWindow(limit)
    for piece in pieces:
        window.add(piece)
        assert window.kept <= 2 * limit
    whole = "".join(pieces)
    assert window.length == len(whole)
    if len(whole) <= limit:
        assert (window.text, window.dropped) == (whole, 0)
    elif window.dropped:
        half = limit // 2
        assert window.text == whole[:half] + whole[-half:]
        assert window.dropped == len(whole) - 2 * half


def test_memory_of_a_stream_is_bounded() -> None:
    state = ResponseState(Caps(characters=1000, tokens=100))
    for i in range(20_000):
        choice = {"index": 0, "delta": {"content": "word "}, "token_ids": [i]}
        state.take(json.dumps({"choices": [choice]}).encode())
    choice_state = state.choices[0]
    assert choice_state.kept_characters <= 2000
    assert choice_state.kept_tokens == 100
    assert choice_state.dropped_tokens == 19_900
    assert choice_state.dropped_characters == 99_000
    for i in range(5000):
        state.take(b'{"choices":[{"index":%d,"text":"a"}]}' % i)
    assert len(state.choices) == 1024
    assert state.unkept_choices == 5000 - 1024


def test_a_number_that_is_none_counts_as_nan() -> None:
    state = ResponseState(Caps())
    state.take(b'{"choices":[{"index":0,"text":"a","logprobs":{"token_logprobs":[-1.0,null]}}]}')
    answer = state.choices[0].answer()
    assert answer.logprobs == (-1.0, -9999.0)
    assert answer.nan_logits == 1


def test_an_echoed_prompt_has_a_first_token_without_a_number() -> None:
    state = ResponseState(Caps(), echoes=True)
    state.take(b'{"choices":[{"index":0,"text":"a","logprobs":{"token_logprobs":[null,-1.0]}}]}')
    answer = state.choices[0].answer()
    assert (answer.logprobs, answer.nan_logits) == (None, None)


@pytest.mark.parametrize(
    ("body", "choices", "prompts"),
    [
        ({"prompt": "a"}, 1, ["a"]),
        ({"prompt": ["a", "b"], "n": 2}, 4, ["a", "a", "b", "b"]),
        ({"prompt": [1, 2]}, 1, [None]),
        ({"prompt": [[1], [2]]}, 2, [None, None]),
        ({"prompt": []}, 1, []),
        ({}, 1, [None]),
        ({"prompt": "a", "n": "many"}, 1, ["a"]),
        ({"prompt": "a", "n": -1}, 1, ["a"]),
    ],
)
def test_which_prompt_a_choice_answers(
    body: dict[str, Any], choices: int, prompts: list[str | None]
) -> None:
    asked = Asked("/v1/completions", body)
    assert asked.choices == choices
    assert [asked.exchange(i).prompt for i in range(len(prompts))] == prompts


# --- the pool ------------------------------------------------------------------------------------


def holding(busy: threading.Event, held: threading.Event) -> Callable[[], None]:
    """A job that says when it runs and waits for its end."""

    def work() -> None:
        busy.set()
        held.wait(20)

    return work


def crash() -> None:
    raise ZeroDivisionError


def test_the_pool_runs_all_jobs_and_survives_a_crash() -> None:
    done: list[int] = []
    pool = JudgePool(2, 100, 10**6, 10.0, lambda: 0.0)
    assert pool.submit(crash)
    assert all(pool.submit(partial(done.append, i)) for i in range(20))
    pool.close()
    assert sorted(done) == list(range(20))
    assert pool.crashed == 1
    assert not pool.submit(lambda: None)


def test_the_pool_refuses_what_exceeds_its_bounds() -> None:
    held = threading.Event()
    pool = JudgePool(1, 2, 100, 10.0, lambda: 0.0)
    busy = threading.Event()
    pool.submit(holding(busy, held))
    assert busy.wait(10)
    assert pool.submit(lambda: None, 500), "one job is taken however large"
    assert not pool.submit(lambda: None, 1), "by bytes"
    held.set()
    pool.close()
    held.clear()
    pool = JudgePool(1, 2, 100, 10.0, lambda: 0.0)
    busy.clear()
    pool.submit(holding(busy, held))
    assert busy.wait(10)
    assert [pool.submit(lambda: None) for _ in range(3)] == [True, True, False]
    held.set()
    pool.close()


def test_a_thread_that_hangs_is_replaced_a_few_times() -> None:
    now = [0.0]
    hung: list[int] = []
    held = threading.Event()
    pool = JudgePool(1, 100, 10**6, 5.0, lambda: now[0], lambda: hung.append(1))
    for number in range(MAX_REPLACED + 1):
        busy = threading.Event()
        pool.submit(holding(busy, held))
        if number <= MAX_REPLACED:
            assert busy.wait(10), number
        now[0] += 10.0
        pool.submit(lambda: None)
    assert len(hung) == MAX_REPLACED
    held.set()


def test_a_pool_is_stuck_when_no_thread_comes_back() -> None:
    now = [0.0]
    held = threading.Event()
    pool = JudgePool(2, 100, 10**6, 5.0, lambda: now[0])
    for number in range(2):
        assert not pool.is_stuck(1.0)
        busy = threading.Event()
        pool.submit(holding(busy, held))
        assert busy.wait(10)
        now[0] += 0.4
        assert not pool.is_stuck(1.0), number
    now[0] = 2.0
    assert pool.is_stuck(1.0)
    now[0] = 6.0
    assert not pool.is_stuck(1.0), "the hung ones were replaced"
    held.set()
    pool.close()


@pytest.mark.parametrize("judges", ["pool", "admission_pool"])
def test_a_hung_thread_of_the_configured_pools_is_counted(
    judges: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_setup, "HUNG_AFTER_S", 0.0)
    counters = Counters()
    parts = make_parts(read_setup({}), ServerTokenizer(), EngineFeatures(), counters)
    pool = getattr(parts, judges)
    held, busy = threading.Event(), threading.Event()
    pool.submit(holding(busy, held))
    assert busy.wait(10)
    pool.submit(lambda: None)
    held.set()
    parts.close()
    assert (("output" if judges == "pool" else "input"), "gate_hung") in counters.skipped


# --- logs, spans, entropies ----------------------------------------------------------------------


class Lines:
    """A logger that keeps its lines."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.kept.append(fields)


def test_failures_are_logged_masked_and_at_a_bounded_rate() -> None:
    now, lines = [0.0], Lines()
    log = FailureLog(lambda: now[0], lambda t: t.replace("a@b.com", "[EMAIL]"), 2.0, lines)
    for _ in range(5):
        log.failed("r", [FAILED, PASSED], "so " * 100 + "a@b.com")
    assert len(lines.kept) == 2
    line = lines.kept[0]
    assert (line["request_id"], line["check"], line["reason"]) == ("r", "loop", "loop")
    assert line["sentence"] == "It loops: [EMAIL]"
    assert line["snippet"].endswith("so [EMAIL]")
    assert len(line["snippet"]) <= 120
    now[0] = 1.0
    log.failed("r", [FAILED])
    assert lines.kept[2]["unwritten"] == 3


@pytest.mark.parametrize("shift", range(120))
def test_no_half_of_a_secret_is_logged(shift: int) -> None:
    """Wherever the snippet begins: masks know whole values only."""
    key = "sk-proj-" + "Ab3dEf6hIj9lMn2pQr5t" * 4
    lines = Lines()
    log = FailureLog(lambda: 0.0, lambda t: mask_text(t).text, 2.0, lines)
    log.failed("r", [FAILED], f"the key is {key} " + "." * shift)
    snippet = lines.kept[0]["snippet"]
    assert "Mn2pQr5t" not in snippet
    assert len(snippet) <= 120


def test_of_a_very_long_text_only_the_end_is_masked_and_no_cut_secret_is_shown() -> None:
    masked: list[int] = []

    def mask(text: str) -> str:
        masked.append(len(text))
        # The worst of masks: all but the first and the last word goes.
        words = text.split()
        return " ".join((words[0], words[-1]))

    lines = Lines()
    text = "SECRET" * 400_000 + " word" * 3000 + " end"
    FailureLog(lambda: 0.0, mask, 2.0, lines).failed("r", [FAILED], text)
    assert lines.kept[0]["snippet"] == "word end"
    assert max(masked) <= 16_384


def test_without_a_mask_no_text_is_logged() -> None:
    lines = Lines()
    FailureLog(lambda: 0.0, None, 2.0, lines).failed("r", [FAILED], "secret")
    assert lines.kept[0]["snippet"] is None
    assert lines.kept[0]["sentence"] is None


def test_spans_join_the_trace_of_the_caller() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    headers = [(b"Traceparent", f"00-{trace}-{parent}-01".encode())]
    spans = OtelSpans(provider.get_tracer("t"))
    spans.record("quality.output", headers, 5, 9, "r-1", [FAILED, PASSED])
    provider.shutdown()
    (span,) = exporter.get_finished_spans()
    assert span.context is not None
    assert span.parent is not None
    assert format(span.context.trace_id, "032x") == trace
    assert format(span.parent.span_id, "016x") == parent
    assert (span.start_time, span.end_time) == (5, 9)
    assert span.attributes == {
        "quality.request_id": "r-1",
        "quality.outcome": "FAILED",
        "quality.reasons": ("loop",),
    }
    assert [event.name for event in span.events] == ["loop"]


def test_without_a_provider_there_are_no_spans() -> None:
    assert isinstance(configured_spans(), NoSpans)


class Fed:
    """Keeps what the feed adds."""

    def __init__(self) -> None:
        self.buckets: list[list[float]] = []
        self.nan = 0
        self.corrected = 0

    def entropies(self, bucket_counts: Any, total_nats: float = 0.0) -> None:
        self.buckets.append([*bucket_counts, total_nats])

    def nan_logits(self, steps: int) -> None:
        self.nan += steps

    def corrected_steps(self, count: int) -> None:
        self.corrected += count


def counts(first: int, total: float, nan: int = 0, corrected: int = 0) -> EntropyCounts:
    buckets = (first, *([0] * len(ENTROPY_BUCKETS)))
    return EntropyCounts(first, first, nan, corrected, total, buckets)


def test_the_feed_adds_what_is_new_once_a_second() -> None:
    now, fed = [0.0], Fed()
    told: list[EntropyCounts | None] = [None, counts(3, 1.5, 1, 2), counts(4, 2.0, 1, 2)]
    feed = EntropyFeed(lambda: told[min(int(now[0]), 2)], fed, lambda: now[0])
    for second in (0.0, 0.5, 1.0, 1.5, 2.1, 3.2):
        now[0] = second
        feed.pump()
    assert [(b[0], b[-1]) for b in fed.buckets] == [(3, 1.5), (1, 0.5)]
    assert (fed.nan, fed.corrected) == (1, 2)


def test_of_several_processes_one_feeds_and_the_next_goes_on() -> None:
    now, first, second = [0.0], Fed(), Fed()
    told = [counts(0, 0.0)]
    turn = [1]
    feeds = [
        EntropyFeed(lambda: told[0], first, lambda: now[0], lambda: turn[0] == 1),
        EntropyFeed(lambda: told[0], second, lambda: now[0], lambda: turn[0] == 2),
    ]
    for second_, (holder, steps) in enumerate([(1, 3), (1, 5), (2, 9), (2, 9)]):
        now[0], turn[0], told[0] = 2.0 * second_, holder, counts(steps, 1.0 * steps, steps, steps)
        for feed in feeds:
            feed.pump()
    assert [b[0] for b in first.buckets] == [3, 2]
    assert [b[0] for b in second.buckets] == [4]
    assert (first.nan + second.nan, first.corrected + second.corrected) == (9, 9)


# --- details and tokenizer -----------------------------------------------------------------------


def test_a_share_is_chosen_by_the_id() -> None:
    share = DetailShare(0.25)
    chosen = [share.wants(f"r-{i}") for i in range(4000)]
    assert 0.22 < sum(chosen) / 4000 < 0.28
    assert chosen == [share.wants(f"r-{i}") for i in range(4000)]
    for _ in range(GIVE_UP_AFTER):
        assert share.wants("r-0") == chosen[0]
        share.refused()
    assert not any(share.wants(f"r-{i}") for i in range(100))


def test_a_refusal_counts_for_some_time() -> None:
    now = [0.0]
    share = DetailShare(1.0, lambda: now[0])
    for _ in range(GIVE_UP_AFTER):
        assert share.wants("r")
        share.refused()
        now[0] += 100.0
    assert not share.wants("r")
    now[0] = FORGET_AFTER_S - 1
    assert not share.wants("r")
    now[0] = FORGET_AFTER_S
    assert share.wants("r")
    share.refused()
    assert not share.wants("r"), "it costs one request each time, not three"


@pytest.mark.parametrize("state", [None, SimpleNamespace(), SimpleNamespace(engine_client=None)])
def test_without_a_tokenizer_nothing_is_known(state: Any) -> None:
    assert server_tokenizer(state) == ServerTokenizer()
