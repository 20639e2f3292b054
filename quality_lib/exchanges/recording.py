"""What of an exchange is written to the log: detail, prompt or its hash, masking. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from quality_lib.exchanges.record_masking import mask_record

DETAIL = frozenset({"token_ids", "prompt_token_ids", "logprobs", "entropies"})
"""Fields of a response (and the prompt's ids) that only records with detail carry."""

ASKED = ("messages", "prompt")
"""Where a request holds what the caller wrote."""


def gets_detail(request_id: str, share: float) -> bool:
    """Return whether a request belongs to the share that is recorded with detail.

    A hash of the id decides: every process, and every choice of the request, decides alike.
    """
    drawn = hashlib.sha256(b"detail:" + request_id.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(drawn[:8]) < share * 2**64


def without_detail(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with text only."""
    result = dict(record)
    for part in ("request", "response"):
        value = result.get(part)
        if isinstance(value, Mapping) and not DETAIL.isdisjoint(value):
            result[part] = {k: v for k, v in value.items() if k not in DETAIL}
    return result


def with_hashed_prompt(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with ``request.prompt_sha256`` in the place of what the caller wrote.

    Equal prompts have equal hashes (canonical JSON), so recent answers can still be compared. What a
    gate or an error quoted of the prompt goes too.
    """
    result = dict(record)
    request = result.get("request")
    if isinstance(request, Mapping):
        asked = {key: request[key] for key in ASKED if request.get(key) is not None}
        kept = {k: v for k, v in request.items() if k not in {*ASKED, "prompt_token_ids"}}
        canonical = json.dumps(asked, sort_keys=True, separators=(",", ":"), default=str)
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        result["request"] = {**kept, "prompt_sha256": digest} if asked else kept
    response = result.get("response")
    if isinstance(response, Mapping) and "prompt_token_ids" in response:
        result["response"] = {k: v for k, v in response.items() if k != "prompt_token_ids"}
    if isinstance(error := result.get("error"), Mapping):
        # The engine's messages may quote what they refuse.
        result["error"] = {k: v for k, v in error.items() if k != "message"}
    if isinstance(gates := result.get("gates"), list | tuple):
        result["gates"] = [_without_words(gate) for gate in gates]
    return result


def preparation(
    *, detail_share: float, prompt: Literal["text", "hash"], mask: bool
) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return what turns a record into what is written.

    A record that says ``"detail": true`` or ``false`` decides for itself; else its id does.
    """

    def prepare(record: Mapping[str, Any]) -> Mapping[str, Any]:
        detail = record.get("detail")
        if not isinstance(detail, bool):
            detail = gets_detail(str(record.get("id", "")), detail_share)
        result = {**(record if detail else without_detail(record)), "detail": detail}
        if prompt == "hash":
            result = with_hashed_prompt(result)
        return mask_record(result) if mask else result

    return prepare


def _without_words(gate: Any) -> Any:
    if not isinstance(gate, Mapping):
        return gate
    kept = {k: v for k, v in gate.items() if k != "sentence"}
    if isinstance(evidence := kept.get("evidence"), Mapping):
        kept["evidence"] = {k: v for k, v in evidence.items() if isinstance(v, int | float)}
    return kept
