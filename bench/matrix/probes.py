"""What one check of the matrix asks: about a thousand tokens for the product's channels, and what others need.

The cases come from the packaged golden set; their parameters are set here, so that every answer has a known length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.faults.weight_steps import seed_of
from bench.matrix.recording import FIRST_TOKEN, SAMPLED
from quality_lib.errors import BadInput
from quality_lib.golden.case import GoldenCase

SCORED_CASES = (
    "en-capital-01", "fr-saisons-01", "de-monate-01", "es-receta-01", "zh-shoudu-01", "ja-fuji-01",
    "ru-stolitsa-01", "ar-asima-01", "tr-en-fr-01", "code-py-add-01", "code-sql-01", "multi-name-01",
    "planted-code-01", "math-word-01", "cover-digits-01", "cover-punct-01",
)  # fmt: skip
"""Sixteen, spread over languages and kinds, chosen once by hand and before any fault was recorded."""
SAMPLED_CASES = (
    "creative-haiku-01", "creative-opening-01", "creative-dialogue-01", "creative-postcard-01",
    "creative-fr-01", "zh-cha-01", "multi-story-01", "cover-sampled-02",
)  # fmt: skip
LONG_CASE = "long-0700-middle-01"
SEED = 42
ANSWER_TOKENS = 24
LONG_ANSWER_TOKENS = 16
SAMPLES = 2
"""Answers to each prompt in a check, for methods that compare distributions."""
FIRST_PROMPT = "x"
CANDIDATES = 20


@dataclass(frozen=True)
class Ask:
    """One request of a check."""

    case_id: str
    channel: str
    attempt: int
    body: Mapping[str, Any]
    path: str
    answer_length: int = 0
    """Scoring: how many of the last tokens of the prompt are the stored answer."""

    @property
    def key(self) -> tuple[str, str, int]:
        """Name it like the row that it becomes."""
        return self.case_id, self.channel, self.attempt


@dataclass(frozen=True)
class Stored:
    """A healthy answer that later checks score."""

    text: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class ProbeSet:
    """The cases of a check."""

    scored: tuple[GoldenCase, ...]
    sampled: tuple[GoldenCase, ...]
    long: GoldenCase

    @classmethod
    def of(cls, cases: Sequence[GoldenCase], scored: int = len(SCORED_CASES)) -> ProbeSet:
        """Choose from a golden set; a smaller number takes the first ones.

        Raises:
            BadInput: a case is not in the set.
        """
        by_id = {case.id: case for case in cases}
        wanted = (*SCORED_CASES, *SAMPLED_CASES, LONG_CASE)
        if missing := [name for name in wanted if name not in by_id]:
            raise BadInput(f"the golden set lacks {', '.join(missing)}")
        return cls(
            tuple(by_id[name] for name in SCORED_CASES[:scored]),
            tuple(by_id[name] for name in SAMPLED_CASES[: max(2, scored // 2)]),
            by_id[LONG_CASE],
        )

    def decoding(self, model: str, salt: str) -> list[Ask]:
        """Return the requests that let the model answer: greedy, seeded, long."""
        greedy = [
            _chat(case, "greedy", 1, ANSWER_TOKENS, model, salt, {"temperature": 0.0})
            for case in self.scored
        ]
        seeded = [
            _chat(case, "seeded", 1, ANSWER_TOKENS, model, salt, {"temperature": 1.0, "seed": SEED})
            for case in self.sampled
        ]
        long = _chat(
            self.long, "long_context", 1, LONG_ANSWER_TOKENS, model, salt, {"temperature": 0.0}
        )
        return [*greedy, *seeded, long]

    def sampling(self, model: str, salt: str, check_id: str) -> list[Ask]:
        """Return the requests with seeds of this check alone."""
        return [
            _chat(
                case,
                SAMPLED,
                attempt,
                ANSWER_TOKENS,
                model,
                salt,
                {"temperature": 1.0, "seed": seed_of(attempt, check_id, case.id) % 2**31},
            )
            for case in self.sampled
            for attempt in range(1, SAMPLES + 1)
        ]

    def scoring(self, model: str, stored: Mapping[str, Stored]) -> list[Ask]:
        """Return the requests that score the stored answers, through the template and without it."""
        asks = []
        for case in (*self.scored, self.long):
            answer = stored[case.id]
            if case is not self.long:
                asks.append(_chat_scored(case, answer, model))
            asks.append(_raw_scored(case, answer, model))
        return asks

    def first_token(self, model: str) -> list[Ask]:
        """Return the request of one output token."""
        body = {
            "model": model, "prompt": FIRST_PROMPT, "max_tokens": 1, "temperature": 0.0, "logprobs": CANDIDATES,
            "return_token_ids": True, "return_tokens_as_token_ids": True,
        }  # fmt: skip
        return [Ask(FIRST_PROMPT, FIRST_TOKEN, 1, body, "/v1/completions")]


def replay(case_id: str, attempt: int, ids: Sequence[int], length: int, model: str) -> Ask:
    """Return the request that scores a sampled answer on a healthy server."""
    return Ask(case_id, SAMPLED, attempt, _scoring(model, {"prompt": list(ids)}),
               "/v1/completions", length)  # fmt: skip


def _chat(
    case: GoldenCase,
    channel: str,
    attempt: int,
    tokens: int,
    model: str,
    salt: str,
    params: Mapping[str, Any],
) -> Ask:
    body = {
        "model": model,
        "messages": [dict(message) for message in case.messages],
        "max_tokens": tokens,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "logprobs": True,
        "return_token_ids": True,
        # Draws of a fixed length cost the same in every check; a greedy answer is always the same one.
        "ignore_eos": params["temperature"] > 0,
        "cache_salt": salt,
        **params,
    }
    return Ask(case.id, channel, attempt, body, "/v1/chat/completions")


def _scoring(model: str, what: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model": model, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 2, "return_token_ids": True, **what,
    }  # fmt: skip


def _chat_scored(case: GoldenCase, answer: Stored, model: str) -> Ask:
    what = {
        "messages": [
            *(dict(message) for message in case.messages),
            {"role": "assistant", "content": answer.text},
        ],
        "continue_final_message": True,
        "add_generation_prompt": False,
    }
    return Ask(case.id, "chat_scored", 1, _scoring(model, what), "/v1/chat/completions",
               len(answer.token_ids))  # fmt: skip


def _raw_scored(case: GoldenCase, answer: Stored, model: str) -> Ask:
    what = {"prompt": [*answer.prompt_ids, *answer.token_ids]}
    return Ask(case.id, "raw_scored", 1, _scoring(model, what), "/v1/completions",
               len(answer.token_ids))  # fmt: skip
