"""Level 1: the server read the whole prompt, through the chat template, with one BOS. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quality_lib.exchanges.exchange import Exchange, text_of
from quality_lib.gates.gate import Gate, Level, Reason
from quality_lib.gates.input_limits import InputLimits
from quality_lib.gates.input_size import CountTokens
from quality_lib.records import Outcome, Verdict

_TRUNCATION = "ollama#3839, ollama#17889"
_REASONS = (
    Reason("prompt_counts_agree", Outcome.PASSED, "The server counted the tokens that were sent, or more."),
    Reason(
        "prompt_truncated",
        Outcome.FAILED,
        "The server counted clearly fewer prompt tokens than were sent: it cut the prompt silently.",
        "gates.input.truncation_share",
        _TRUNCATION,
    ),
    Reason(
        "prompt_count_zero",
        Outcome.SUSPECT,
        "The server reports no prompt tokens for a prompt that has some.",
        source="lmstudio-bug-tracker#1602",
    ),
    Reason(
        "prompt_count_below_words",
        Outcome.SUSPECT,
        "The server counted fewer prompt tokens than the prompt has words.",
        source=_TRUNCATION,
    ),
    Reason("prompt_not_counted", Outcome.UNJUDGED, "The server's count or the expected one is missing."),
)  # fmt: skip
_TEMPLATE = (
    Reason("prompt_start_ok", Outcome.PASSED, "One BOS and the chat template, as the model expects."),
    Reason(
        "prompt_bos_doubled",
        Outcome.SUSPECT,
        "The prompt starts with two BOS tokens: template and tokenizer both added one.",
        source="vllm#16028",
    ),
    Reason(
        "prompt_bos_missing",
        Outcome.SUSPECT,
        "The prompt does not start with the BOS token that the model was trained with.",
        source="llama-cpp-python#1537",
    ),
    Reason(
        "prompt_template_missing",
        Outcome.FAILED,
        "The messages reached the model without the marks of its chat template.",
        source="vLLM blog, Kimi K2 accuracy",
    ),
    Reason("prompt_ids_missing", Outcome.UNJUDGED, "The prompt's token ids were not recorded."),
)  # fmt: skip
_NOT_COUNTED = Verdict(
    Outcome.UNJUDGED, "prompt_not_counted", "There are no two counts to compare."
)
_IDS_MISSING = Verdict(
    Outcome.UNJUDGED, "prompt_ids_missing", "The prompt's token ids are not known."
)
_MIN_WORDS = 200
_WORDS_KEPT = 0.8
"""A tokenizer gives every word at least one token; a fifth is left for templates that drop parts."""


@dataclass(frozen=True)
class TokenizerFacts:
    """What the model's tokenizer and template put around a prompt."""

    bos_id: int | None = None
    starts_with_bos: bool | None = None
    """Whether a rendered chat starts with BOS; None: not known."""
    template_ids: frozenset[int] = frozenset()
    """Ids of control tokens of which the template writes at least one into every chat."""


def prompt_accounting(limits: InputLimits, count_tokens: CountTokens | None = None) -> Gate:
    """Find silent truncation: tokens sent against tokens that the server counted.

    More than expected is the template's own text and healthy. Without an expected count, the texts of
    users and systems are counted, and without a counter their words: no tokenizer needs fewer.
    """

    def judge(exchange: Exchange) -> Verdict:
        counted, expected = exchange.prompt_tokens, exchange.expected_prompt_tokens
        if expected is None and counted and count_tokens is not None:
            expected = count_tokens(_written(exchange)) or None
        if counted is None or (expected is None and not counted):
            return _NOT_COUNTED
        if expected is None:
            return _against_words(exchange, counted)
        evidence = {"counted": counted, "expected": expected}
        if not counted and expected:
            sentence = f"The server reports 0 prompt tokens; {expected:,} were sent."
            return _said(Outcome.SUSPECT, "prompt_count_zero", sentence, evidence)
        slack = max(limits.truncation_tokens, limits.truncation_share * expected)
        if counted < expected - slack:
            sentence = f"The server counted {counted:,} prompt tokens; {expected:,} were sent."
            evidence["tolerance"] = int(slack)
            return _said(Outcome.FAILED, "prompt_truncated", sentence, evidence)
        return _said(
            Outcome.PASSED, "prompt_counts_agree", "No prompt tokens are missing.", evidence
        )

    return Gate("prompt_accounting", Level.INPUT, judge, _REASONS)


def prompt_start(
    facts: TokenizerFacts | None = None, count_tokens: CountTokens | None = None
) -> Gate:
    """Find a doubled or missing BOS and a chat template that was not applied.

    It reads the prompt's token ids; where only a counter is known, a chat with no more tokens than its
    bare texts went without a template.
    """
    known = facts or TokenizerFacts()

    def judge(exchange: Exchange) -> Verdict:
        ids = exchange.prompt_token_ids
        if not ids:
            return _by_count(exchange, count_tokens)
        is_chat = exchange.messages is not None
        if is_chat and known.template_ids and known.template_ids.isdisjoint(ids):
            sentence = "No mark of the chat template is among the prompt's tokens."
            return _said(Outcome.FAILED, "prompt_template_missing", sentence)
        evidence: dict[str, Any] = {"first_ids": list(ids[:4])}
        doubled = len(ids) > 1 and ids[0] == ids[1]
        # A chat starts with a control token; in plain text two equal first tokens may be two words.
        if doubled and (ids[0] == known.bos_id or (known.bos_id is None and is_chat)):
            return _said(
                Outcome.SUSPECT, "prompt_bos_doubled", "Two BOS start the prompt.", evidence
            )
        needs_bos = is_chat and known.starts_with_bos and known.bos_id is not None
        if needs_bos and ids[0] != known.bos_id:
            return _said(
                Outcome.SUSPECT, "prompt_bos_missing", "No BOS starts the prompt.", evidence
            )
        return _said(Outcome.PASSED, "prompt_start_ok", "The prompt starts as it must.", evidence)

    return Gate("prompt_start", Level.INPUT, judge, _TEMPLATE)


def _by_count(exchange: Exchange, count_tokens: CountTokens | None) -> Verdict:
    counted = exchange.prompt_tokens
    if count_tokens is not None and counted and exchange.messages is not None and exchange.asked:
        bare = sum(
            count_tokens(text) for m in exchange.messages if (text := text_of(m.get("content")))
        )
        if counted == bare:
            sentence = f"The chat has {counted} tokens, exactly those of its bare texts."
            evidence = {"counted": counted, "bare": bare}
            return _said(Outcome.FAILED, "prompt_template_missing", sentence, evidence)
        if counted > bare:
            return _said(Outcome.PASSED, "prompt_start_ok", "The template added tokens.")
    return _IDS_MISSING


def _against_words(exchange: Exchange, counted: int) -> Verdict:
    text = _written(exchange)
    # Blanks bound the words, and are counted far faster.
    words = text.count(" ") + text.count("\n") + 1
    if words >= _MIN_WORDS and counted < _WORDS_KEPT * words:
        words = len(text.split())
    if words < _MIN_WORDS or counted >= _WORDS_KEPT * words:
        return _NOT_COUNTED
    return _said(
        Outcome.SUSPECT,
        "prompt_count_below_words",
        f"The server counted {counted:,} prompt tokens; the prompt has {words:,} words.",
        {"counted": counted, "words": words},
    )


def _written(exchange: Exchange) -> str:
    """What the caller wrote; templates may drop the model's own earlier thoughts."""
    if exchange.messages is None:
        return exchange.prompt or ""
    kept = (m for m in exchange.messages if m.get("role") not in {"assistant", "tool", "function"})
    return "\n".join(text for m in kept if (text := text_of(m.get("content"))))


def _said(
    outcome: Outcome, reason: str, sentence: str, evidence: dict[str, Any] | None = None
) -> Verdict:
    return Verdict(outcome, reason, sentence, evidence or {})
