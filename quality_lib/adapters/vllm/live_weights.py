"""Asks a running vLLM server for the fingerprint of its weights in memory (requirement G6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from quality_lib.errors import BadInput, NoData, OutsideFailure
from quality_lib.serving.introspection import WEIGHTS_PATH

TIMEOUT_S = 120.0
"""Hundreds of gigabytes are read in seconds, but a busy server reads a slice per decode step."""


@dataclass(frozen=True)
class LiveFingerprint:
    """What a server says of its weights as they lie in memory now."""

    fingerprint: str
    loaded_fingerprint: str
    """As they lay after loading."""
    changed_tensors: int
    changed: tuple[Mapping[str, Any], ...]
    """``rank``, ``name``, ``kind``, ``loaded`` and ``now`` of the first 50."""
    restless: tuple[Mapping[str, Any], ...]
    """Other tensors that changed and may do so in health (scratch space)."""
    tensors: int
    size: int
    """Bytes that were read."""
    unseen: tuple[Mapping[str, Any], ...]
    """What is used and could not be read: ``rank``, ``name``, ``reason``, ``bytes``."""
    seconds: float
    """That the workers read, of the slowest rank."""
    longest_call_s: float
    """The longest that running requests waited at a time."""
    wall_s: float

    @property
    def is_changed(self) -> bool:
        """Whether any tensor of the model differs from what was loaded."""
        return self.changed_tensors > 0


def take_fingerprint(
    endpoint: str,
    api_key: str | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    transport: httpx.BaseTransport | None = None,
) -> LiveFingerprint:
    """Have a server read its weights and return what it found.

    Raises:
        BadInput: no address, or the server refuses us.
        NoData: the server lives and cannot read its weights; says why.
        OutsideFailure: nobody answers, or not in time.
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        with httpx.Client(
            base_url=endpoint.rstrip("/").removesuffix("/v1"),
            headers=headers,
            timeout=timeout_s,
            transport=transport,
        ) as client:
            answer = client.get(WEIGHTS_PATH)
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise OutsideFailure(f"{endpoint} does not answer: {reason}") from error
    except httpx.InvalidURL as error:
        raise BadInput(f"'{endpoint}' is no address: {error}", field="endpoint") from error
    return _read(endpoint, answer)


def _read(endpoint: str, answer: httpx.Response) -> LiveFingerprint:
    if answer.status_code == 404:
        raise NoData(
            f"{endpoint} does not know {WEIGHTS_PATH}: start it with --middleware "
            "quality_lib.serving.introspection.Introspection"
        )
    told = _json(answer)
    if answer.status_code in {401, 403}:
        raise BadInput(f"{endpoint} refuses: {_message(told)}", field="api_key_env")
    if answer.status_code != 200:
        kind = NoData if _is_ours(told) else OutsideFailure
        raise kind(f"{endpoint} answers {answer.status_code}: {_message(told)}")
    try:
        return LiveFingerprint(
            fingerprint=str(told["fingerprint"]),
            loaded_fingerprint=str(told["loaded_fingerprint"]),
            changed_tensors=int(told["changed_tensors"]),
            changed=tuple(told["changed"]),
            restless=tuple(told["restless"]),
            tensors=int(told["tensors"]),
            size=int(told["bytes"]),
            unseen=tuple(told["unseen"]),
            seconds=float(told["seconds"]),
            longest_call_s=float(told["longest_call_s"]),
            wall_s=float(told["wall_s"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise OutsideFailure(f"{endpoint} gives no fingerprint at {WEIGHTS_PATH}") from error


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def _is_ours(told: Any) -> bool:
    error = told.get("error") if isinstance(told, dict) else None
    return isinstance(error, dict) and error.get("type") == "quality"


def _message(told: Any) -> str:
    error = told.get("error") if isinstance(told, dict) else None
    return str(error.get("message", error)) if isinstance(error, dict) else "no reason"
