from __future__ import annotations

import math
from typing import Any

import pytest

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.gates.answer_view import AnswerView, shared_view
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.reading import Reading
from quality_lib.gates.relevance import HEAD_TOKENS, gain_of, head_of, may_tell, relevance
from tests.gates.answers import PROSE, answer

QUESTION = "How do vaccines protect us?"
BESIDE = "The meeting with the architect has been moved to Thursday at three in the small room."
READ = Reading((-1.0,) * 20, (1.0,) * 20)


def conversation(*texts: str) -> Exchange:
    roles = ("user", "assistant")
    messages = tuple({"role": roles[n % 2], "content": text} for n, text in enumerate(texts))
    return Exchange(messages=messages, answer=Answer(BESIDE, finish_reason="stop"))


def reason(
    gain: float | None,
    similarity: float | None = 0.05,
    exchange: Exchange | None = None,
    **limits: float,
) -> str:
    gate = relevance(
        OutputLimits(**limits),  # type: ignore[arg-type]
        shared_view(),
        lambda _exchange: gain,
        lambda _exchange: similarity,
    )
    return gate.judge(exchange or answer(BESIDE, QUESTION)).reason


@pytest.mark.parametrize(
    ("gain", "similarity", "expected"),
    [
        (-6.0, 0.05, "beside_the_question"),
        (-5.0, 0.20, "beside_the_question"),
        (-4.9, 0.05, "relevance_ok"),
        (12.0, -0.1, "relevance_ok"),
        # Half alike: only what is far less likely after the prompt.
        (-14.9, 0.21, "relevance_ok"),
        (-15.1, 0.34, "beside_the_question"),
        # They speak of the same thing, whatever the model says.
        (-40.0, 0.36, "relevance_ok"),
        (None, 0.05, "relevance_unknown"),
        (-6.0, None, "relevance_unknown"),
        (12.0, None, "relevance_ok"),
        (math.nan, 0.05, "relevance_ok"),
    ],
)
def test_both_witnesses_must_say_so(
    gain: float | None, similarity: float | None, expected: str
) -> None:
    assert reason(gain, similarity) == expected


@pytest.mark.parametrize(
    ("exchange", "expected"),
    [
        (answer("I can only help with questions about your deliveries and recipes.", QUESTION), 3.0),
        (answer("I don't have that information. Could you tell me which town you mean?", QUESTION), 3.0),
        (answer(BESIDE, QUESTION), 1.0),
        (conversation("What is the capital of Norway?", "Oslo.", "And of Sweden?"), 3.0),
        (conversation(QUESTION), 1.0),
    ],
)  # fmt: skip
def test_refusals_and_conversations_need_more(exchange: Exchange, expected: float) -> None:
    assert reason(-5.0 * expected - 0.1, exchange=exchange) == "beside_the_question"
    assert reason(-5.0 * expected + 0.1, exchange=exchange) == "relevance_ok"


def test_limits_and_evidence() -> None:
    assert reason(-6.0, min_gain=-10.0) == "relevance_ok"
    assert reason(-6.0, 0.05, min_prompt_similarity=-0.2) == "relevance_ok"
    gate = relevance(OutputLimits(), shared_view(), lambda _: -6.25, lambda _: 0.0512)
    verdict = gate.judge(answer(BESIDE, QUESTION))
    assert verdict.evidence == {"gain": -6.25, "least": -5.0, "similarity": 0.051}
    assert "-6.2 nats" in verdict.sentence
    assert gate.judge(Exchange(prompt=QUESTION)).reason == "relevance_no_answer"


def judged(text: str, prompt: str, reading: Reading = READ, **fields: Any) -> bool:
    exchange = answer(text, prompt, **fields)
    assert exchange.answer is not None
    return may_tell(AnswerView(exchange, exchange.answer), reading)


@pytest.mark.parametrize(
    "prompt",
    [
        QUESTION,
        "What is a fossil?",
        "Name ten colours.",
        "Suggest five names for a coffee shop.",
        "Compare a train and an aeroplane for a journey of 500 kilometres.",
        "What does the heart do in the human body?",
        "Can you explain how a lock on a canal works?",
        "Which store sells lamps in the storage hall?",
        "Describe how bread is baked, step by step.",
    ],
)
def test_questions_with_a_subject_tell(prompt: str) -> None:
    assert judged(BESIDE, prompt)


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("", "nothing was asked"),
        ("hi", "small talk"),
        ("How was your day?", "small talk"),
        ("Surprise me.", "anything is right"),
        ("Say something nice.", "anything is right"),
        ("Tell me a joke about cats.", "free"),
        ("Give me a riddle.", "free"),
        ("Write a dialogue between two friends who meet by chance", "free"),
        ("Write a story in two sentences.", "free"),
        ("Let's play 20 questions. I am thinking of an animal.", "a game"),
        ("Complete: Once upon a time, in a land far away,", "free"),
        ("Translate into English: Wo ist der Bahnhof?", "another language"),
        ("Pourquoi faut-il boire de l'eau tous les jours ?", "another language"),
        ("天空为什么是蓝色的?", "another script"),
        ("Write an example text of random gibberish.", "no sense was asked for"),
        ("banana", "nothing tells the language"),
        ("Explain this text about vaccines. " * 30, "longer than the models see"),
    ],
)
def test_prompts_that_tell_nothing(prompt: str, why: str) -> None:
    assert not judged(BESIDE, prompt), why


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        (BESIDE, Reading((-1.0,) * 4, (1.0,) * 4)),
        (BESIDE, Reading((-5.0,) * 20, (1.0,) * 20)),
        (BESIDE, Reading((math.nan,) * 20, (1.0,) * 20)),
        ("Impfstoffe zeigen dem Körper, wie ein Erreger aussieht, und er merkt es sich.", READ),
        ('{"answer": "They train the immune system."}', READ),
        ("```python\nprint('hello')\n```", READ),
        ("免疫系统会记住病毒。", READ),
        ("1, 2, 3, 4, 5, 6, 7, 8, 9, 10", READ),
    ],
)
def test_answers_that_tell_nothing(text: str, reading: Reading) -> None:
    assert not judged(text, QUESTION, reading)


def test_a_long_answer_is_judged_by_its_head() -> None:
    reading = Reading((-1.0,) * HEAD_TOKENS + (-20.0,) * 400, (1.0,) * (HEAD_TOKENS + 400))
    assert judged(PROSE * 10, QUESTION, reading)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([{"type": "text", "text": QUESTION}], True),
        ([{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {}}], False),
        ([{"type": "input_audio"}, {"type": "text", "text": QUESTION}], False),
        (["odd", {"text": QUESTION}], False),
        (None, False),
    ],
)
def test_what_no_language_model_sees_is_not_judged(content: Any, expected: bool) -> None:
    exchange = Exchange(
        messages=({"role": "user", "content": content},),
        answer=Answer(BESIDE, finish_reason="stop"),
    )
    assert exchange.answer is not None
    assert may_tell(AnswerView(exchange, exchange.answer), READ) is expected


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("short", "short"),
        ("word " * 200, ("word " * 80).rstrip()),
        ("x" * 900, "x" * 400),
        (" " * 900 + "x", " " * 400),
        ("", ""),
    ],
)
def test_the_head_ends_between_words(text: str, head: str) -> None:
    assert head_of(text) == head


def test_the_gain_is_taken_where_both_were_read() -> None:
    prompted = Reading((-1.0,) * 100, (1.0,) * 100)
    assert gain_of(prompted, Reading((-1.5,) * 100, ())) == pytest.approx(HEAD_TOKENS * 0.5)
    assert gain_of(prompted, Reading((-1.5,) * 10, ())) == pytest.approx(5.0)
    assert gain_of(Reading((), ()), Reading((), ())) == 0
