"""What a running server says about itself, for the start-up check (requirement G6.1).

A server with our introspection middleware tells everything at ``/quality/server``. Of any other one
vLLM's own ``/version`` and ``/v1/models`` are asked, and the rest stays unknown. A snapshot's
manifest is built from facts observed in the same way, so that equal means equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import httpx

from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.serving.introspection import PATH
from quality_lib.snapshots.manifest import EnvironmentRecord
from quality_lib.snapshots.startup_check import ServerFacts

TIMEOUT_S = 15.0

T = TypeVar("T")


def observe_server(
    endpoint: str,
    model: str,
    api_key: str | None = None,
    transport: httpx.BaseTransport | None = None,
) -> ServerFacts:
    """Ask a server for its facts; what it cannot tell is ``None``.

    Raises:
        BadInput: the server does not serve ``model``, or refuses the key.
        OutsideFailure: nobody answers.
    """
    with _client(endpoint, api_key, transport) as client:
        cards = _model_cards(client, model)
        told = _told(client)
        if told is None:
            return _public_facts(client, cards, model)
    args = _as(list, told.get("args"))
    adapters = _as(list, told.get("adapters"))
    return ServerFacts(
        vllm_version=_as(str, told.get("vllm_version")),
        args=tuple(map(str, args)) if args is not None else None,
        dtype=_as(str, told.get("dtype")),
        kv_cache_dtype=_as(str, told.get("kv_cache_dtype")),
        max_model_len=_as(int, told.get("max_model_len")),
        generation_config=_as(dict, told.get("generation_config")),
        chat_template_sha256=_as(str, told.get("chat_template_sha256")),
        tokenizer_sha256=_as(str, told.get("tokenizer_sha256")),
        adapters=tuple(map(str, adapters)) if adapters is not None else None,
        weights_path=_as(str, told.get("model_path")),
        live_fingerprint=_as(str, told.get("live_fingerprint")),
    )


def observe_environment(
    endpoint: str,
    api_key: str | None = None,
    transport: httpx.BaseTransport | None = None,
) -> EnvironmentRecord:
    """Ask a server for the machine and the libraries under it; without our middleware all unknown.

    Raises:
        OutsideFailure: nobody answers.
    """
    with _client(endpoint, api_key, transport) as client:
        told = _told(client) or {}
    seen: Mapping[str, Any] = _as(dict, told.get("environment")) or {}
    return EnvironmentRecord(
        gpu=_as(str, seen.get("gpu")),
        driver=_as(str, seen.get("driver")),
        cuda=_as(str, seen.get("cuda")),
        torch=_as(str, seen.get("torch")),
        python=_as(str, seen.get("python")),
        cpu=_as(str, seen.get("cpu")),
    )


def _client(
    endpoint: str, api_key: str | None, transport: httpx.BaseTransport | None
) -> httpx.Client:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return httpx.Client(
        base_url=endpoint.rstrip("/"), headers=headers, timeout=TIMEOUT_S, transport=transport
    )


def _told(client: httpx.Client) -> Mapping[str, Any] | None:
    """Return the middleware's answer; ``None`` where there is none or it does not speak to us."""
    answer = _get(client, PATH)
    return _as(dict, _json(answer)) if answer.status_code == 200 else None


def _model_cards(client: httpx.Client, model: str) -> list[Mapping[str, Any]]:
    answer = _get(client, "/v1/models")
    if answer.status_code in {401, 403}:
        raise BadInput(
            f"{client.base_url} refuses the API key",
            field="api_key_env",
            fix="name the environment variable that holds the server's key",
        )
    cards = _cards(answer)
    if answer.status_code != 200 or cards is None:
        raise OutsideFailure(
            f"{client.base_url}v1/models answers {answer.status_code} and no list of models; "
            "is this a vLLM server?"
        )
    if any(card["id"] == model for card in cards):
        return cards
    served = ", ".join(str(card.get("id")) for card in cards) or "nothing"
    raise BadInput(
        f"{client.base_url} does not serve '{model}'", field="model", fix=f"it serves: {served}"
    )


def _public_facts(client: httpx.Client, cards: list[Mapping[str, Any]], model: str) -> ServerFacts:
    version = _as(dict, _json(_get(client, "/version"))) or {}
    card = next(card for card in cards if card["id"] == model)
    return ServerFacts(
        vllm_version=_as(str, version.get("version")),
        max_model_len=_as(int, card.get("max_model_len")),
        # An adapter is a model with a parent.
        adapters=tuple(sorted(str(other["id"]) for other in cards if other.get("parent"))),
        weights_path=_as(str, card.get("root")),
    )


def _cards(answer: httpx.Response) -> list[Mapping[str, Any]] | None:
    cards = _as(list, (_as(dict, _json(answer)) or {}).get("data"))
    if cards is None or not all(isinstance(card, dict) and "id" in card for card in cards):
        return None
    return cards


def _get(client: httpx.Client, path: str) -> httpx.Response:
    try:
        return client.get(path)
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise OutsideFailure(f"{client.base_url} does not answer: {reason}") from error
    except httpx.InvalidURL as error:
        raise BadInput(f"'{client.base_url}' is no address: {error}", field="endpoint") from error


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def _as(kind: type[T], value: Any) -> T | None:
    """Trust the server's word only where it has the right type."""
    return value if isinstance(value, kind) and not isinstance(value, bool) else None
