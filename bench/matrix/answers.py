"""From the server's JSON to a row of a recording: pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench.matrix.probes import Ask
from bench.matrix.recording import FIRST_TOKEN, SCORED, Row
from quality_lib.golden.answer import ids_digest

TOKEN_ID = "token_id:"
"""How the server names tokens when it is asked for ids instead of texts."""


def row_of(ask: Ask, payload: Mapping[str, Any]) -> Row:
    """Read one answer.

    Raises:
        KeyError, TypeError, ValueError, IndexError: it is none.
    """
    usage = payload["usage"]
    counts: dict[str, Any] = {
        "prompt_tokens": int(usage["prompt_tokens"]),
        "tokens_in": int(usage["prompt_tokens"]),
        "tokens_out": int(usage.get("completion_tokens") or 0),
    }
    choice = payload["choices"][0]
    if ask.answer_length:
        return Row(ask.case_id, ask.channel, ask.attempt, **_scored(ask, payload), **counts)
    if ask.channel == FIRST_TOKEN:
        return Row(ask.case_id, ask.channel, ask.attempt, **_candidates(choice), **counts)
    entries = (choice.get("logprobs") or {}).get("content") or ()
    ids = tuple(payload.get("prompt_token_ids") or ())
    return Row(
        ask.case_id,
        ask.channel,
        ask.attempt,
        token_ids=tuple(choice["token_ids"]),
        logprobs=tuple(_finite(entry.get("logprob")) for entry in entries),
        prompt_digest=ids_digest(ids) if ids else None,
        finish_reason=choice.get("finish_reason"),
        text=_storable(choice["message"].get("content") or ""),
        **counts,
    )


def replayed(payload: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Read what the healthy model thinks of a sampled answer."""
    told = payload["choices"][0]["prompt_logprobs"][-length:]
    ids = payload["choices"][0]["prompt_token_ids"][-length:]
    own = [entry[str(token)] for token, entry in zip(ids, told, strict=True)]
    return {
        "replay_logprobs": tuple(_finite(one["logprob"]) for one in own),
        "replay_ranks": tuple(int(one["rank"]) for one in own),
    }


def _scored(ask: Ask, payload: Mapping[str, Any]) -> dict[str, Any]:
    choice = payload["choices"][0]
    is_chat = ask.channel == SCORED[0]
    entries = (payload if is_chat else choice)["prompt_logprobs"]
    ids = payload["prompt_token_ids"] if is_chat else choice["prompt_token_ids"]
    if len(entries) != len(ids) or len(ids) < ask.answer_length:
        raise ValueError(f"{len(entries)} log-probabilities for {len(ids)} tokens")
    start = len(ids) - ask.answer_length
    own = list(zip(ids[start:], entries[start:], strict=True))
    best = [_best(entry or {}) for _, entry in own]
    return {
        "token_ids": tuple(ids[start:]),
        "logprobs": tuple(
            _finite((entry or {}).get(str(token), {}).get("logprob")) for token, entry in own
        ),
        "argmax_ids": tuple(token for token, _ in best),
        "gaps": tuple(gap for _, gap in best),
        "prompt_digest": ids_digest(ids[:start]),
    }


def _best(entry: Mapping[str, Any]) -> tuple[int, float]:
    """Return the best token and how far it is ahead; (-1, 0) where the server gave no numbers."""
    ranked = sorted(
        ((one["rank"], int(token), one["logprob"]) for token, one in entry.items()),
        key=lambda told: told[0],
    )
    if len(ranked) < 2 or ranked[0][2] is None or ranked[1][2] is None:
        return (ranked[0][1], 0.0) if ranked else (-1, 0.0)
    return ranked[0][1], float(ranked[0][2] - ranked[1][2])


def _candidates(choice: Mapping[str, Any]) -> dict[str, Any]:
    told = choice["logprobs"]["top_logprobs"][0]
    ranked = sorted(told.items(), key=lambda item: (-item[1], item[0]))
    return {
        "token_ids": tuple(choice.get("token_ids") or ()),
        "top_ids": tuple(int(name.removeprefix(TOKEN_ID)) for name, _ in ranked),
        "top_logprobs": tuple(float(value) for _, value in ranked),
    }


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def problem_row(ask: Ask, problem: str) -> Row:
    """Return the row of a request without an answer."""
    return Row(ask.case_id, ask.channel, ask.attempt, problem=problem[:300])


def ordered(asks: Sequence[Ask], seed: int) -> list[Ask]:
    """Return the requests in another order; seed 0 keeps it."""
    import random

    told = list(asks)
    if seed:
        random.Random(seed).shuffle(told)
    return told
