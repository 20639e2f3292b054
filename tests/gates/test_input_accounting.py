from __future__ import annotations

from typing import Any

import pytest

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.input_accounting import TokenizerFacts, prompt_accounting, prompt_start
from quality_lib.gates.input_limits import InputLimits

CHAT = ({"role": "user", "content": "Hi there"},)
LONG = "one two three four five six seven eight nine ten " * 50  # 500 words

COUNTS: dict[str, tuple[dict[str, Any], str]] = {
    "half is gone": ({"prompt_tokens": 2050, "expected_prompt_tokens": 7900}, "prompt_truncated"),
    "exactly": ({"prompt_tokens": 100, "expected_prompt_tokens": 100}, "prompt_counts_agree"),
    "the template added": (
        {"prompt_tokens": 130, "expected_prompt_tokens": 100},
        "prompt_counts_agree",
    ),
    "seams": ({"prompt_tokens": 84, "expected_prompt_tokens": 100}, "prompt_counts_agree"),
    "more than seams": ({"prompt_tokens": 83, "expected_prompt_tokens": 100}, "prompt_truncated"),
    "a twentieth of much": (
        {"prompt_tokens": 9500, "expected_prompt_tokens": 10_000},
        "prompt_counts_agree",
    ),
    "more than a twentieth": (
        {"prompt_tokens": 9499, "expected_prompt_tokens": 10_000},
        "prompt_truncated",
    ),
    "zero": ({"prompt_tokens": 0, "expected_prompt_tokens": 100}, "prompt_count_zero"),
    "zero of zero": ({"prompt_tokens": 0, "expected_prompt_tokens": 0}, "prompt_counts_agree"),
    "not expected": ({"prompt_tokens": 7, "prompt": "Hi"}, "prompt_not_counted"),
    "not counted": ({"expected_prompt_tokens": 7}, "prompt_not_counted"),
    "a gateway without counts": ({"prompt_tokens": 0, "prompt": "Hi"}, "prompt_not_counted"),
    "fewer than words": ({"prompt_tokens": 128, "prompt": LONG}, "prompt_count_below_words"),
    "as many as words": ({"prompt_tokens": 500, "prompt": LONG}, "prompt_not_counted"),
    "thoughts that the template drops": (
        {"prompt_tokens": 12, "messages": (*CHAT, {"role": "assistant", "content": LONG}, *CHAT)},
        "prompt_not_counted",
    ),
    "blanks are no words": (
        {"prompt_tokens": 20, "prompt": "a" + " " * 5000 + "b"},
        "prompt_not_counted",
    ),
    "Chinese has no blanks": ({"prompt_tokens": 300, "prompt": "光合作用" * 200}, "prompt_not_counted"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "reason"), COUNTS.values(), ids=COUNTS)
def test_counts(fields: dict[str, Any], reason: str) -> None:
    assert prompt_accounting(InputLimits()).judge(Exchange(**fields)).reason == reason


@pytest.mark.parametrize(
    ("counted", "reason"),
    [(30, "prompt_truncated"), (200, "prompt_counts_agree"), (0, "prompt_not_counted")],
)
def test_a_tokenizer_counts_what_nobody_counted_before(counted: int, reason: str) -> None:
    gate = prompt_accounting(InputLimits(), lambda text: len(text.split()))
    thoughts = {"role": "assistant", "content": LONG}
    messages = ({"role": "user", "content": "word " * 150}, thoughts, *CHAT)
    assert gate.judge(Exchange(messages=messages, prompt_tokens=counted)).reason == reason


LLAMA = TokenizerFacts(bos_id=1, starts_with_bos=True, template_ids=frozenset({7, 8}))
QWEN = TokenizerFacts(bos_id=None, starts_with_bos=False, template_ids=frozenset({7}))


@pytest.mark.parametrize(
    ("facts", "fields", "reason"),
    [
        (LLAMA, {"messages": CHAT, "prompt_token_ids": (1, 7, 5, 8)}, "prompt_start_ok"),
        (LLAMA, {"messages": CHAT, "prompt_token_ids": (1, 1, 7, 5)}, "prompt_bos_doubled"),
        (LLAMA, {"messages": CHAT, "prompt_token_ids": (7, 5, 8)}, "prompt_bos_missing"),
        (LLAMA, {"messages": CHAT, "prompt_token_ids": (1, 5, 6)}, "prompt_template_missing"),
        (LLAMA, {"prompt": "ab", "prompt_token_ids": (1, 5, 6)}, "prompt_start_ok"),
        (LLAMA, {"prompt": "ab", "prompt_token_ids": (5, 6)}, "prompt_start_ok"),
        (LLAMA, {"prompt": "ab", "prompt_token_ids": (1, 1, 5)}, "prompt_bos_doubled"),
        (QWEN, {"messages": CHAT, "prompt_token_ids": (7, 5)}, "prompt_start_ok"),
        (QWEN, {"messages": CHAT, "prompt_token_ids": (5, 6)}, "prompt_template_missing"),
        (None, {"messages": CHAT, "prompt_token_ids": (4, 4, 7)}, "prompt_bos_doubled"),
        (None, {"prompt": "ha ha", "prompt_token_ids": (4, 4, 7)}, "prompt_start_ok"),
        (None, {"messages": CHAT}, "prompt_ids_missing"),
        (None, {"prompt_token_ids": ()}, "prompt_ids_missing"),
        (LLAMA, {"prompt": "a", "prompt_token_ids": (1,)}, "prompt_start_ok"),
    ],
)
def test_the_start_of_the_prompt(
    facts: TokenizerFacts | None, fields: dict[str, Any], reason: str
) -> None:
    assert prompt_start(facts).judge(Exchange(**fields)).reason == reason


@pytest.mark.parametrize(
    ("counted", "reason"),
    [(2, "prompt_template_missing"), (9, "prompt_start_ok"), (1, "prompt_ids_missing")],
)
def test_a_chat_of_its_bare_tokens_went_without_a_template(counted: int, reason: str) -> None:
    gate = prompt_start(count_tokens=lambda text: len(text.split()))
    assert gate.judge(Exchange(messages=CHAT, prompt_tokens=counted)).reason == reason
    plain = Exchange(prompt="Hi there", prompt_tokens=counted)
    assert gate.judge(plain).reason == "prompt_ids_missing"
