"""The server's own tokenizer, for gates that count or know tokens."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib.gates.input_accounting import TokenizerFacts
from quality_lib.serving.suspicious_tokens import suspicious_tokens


@dataclass(frozen=True)
class ServerTokenizer:
    """What gates ask of a tokenizer; nothing is known where there is none."""

    count: Callable[[str], int] | None = None
    facts: TokenizerFacts | None = None
    suspicious: frozenset[int] = frozenset()


def server_tokenizer(state: Any) -> ServerTokenizer:
    """Read the tokenizer of a vLLM application's state before it serves; never fails."""
    tokenizer = _found(state)
    if tokenizer is None:
        return ServerTokenizer()
    return ServerTokenizer(
        count=_seen(lambda: _counter(tokenizer)),
        facts=_seen(lambda: _facts(tokenizer)),
        suspicious=_seen(lambda: suspicious_tokens(tokenizer).control) or frozenset(),
    )


def _found(state: Any) -> Any:
    client = getattr(state, "engine_client", None)
    renderer = getattr(client, "renderer", None)
    if renderer is not None:
        return _seen(renderer.get_tokenizer)
    return getattr(client, "tokenizer", None)


def _counter(tokenizer: Any) -> Callable[[str], int] | None:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    # A copy: the server's own is switched per call, and using it meanwhile fails its requests.
    own = copy.deepcopy(backend)
    own.no_truncation()
    own.no_padding()
    return lambda text: len(own.encode(text, add_special_tokens=False).ids)


def _facts(tokenizer: Any) -> TokenizerFacts:
    """Render one short chat: what it starts with, and which control tokens the template writes."""
    message: Mapping[str, str] = {"role": "user", "content": "a"}
    rendered = tokenizer.apply_chat_template(
        [message], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    ids = [int(i) for i in rendered]
    special = {int(i) for i in tokenizer.all_special_ids}
    bos = tokenizer.bos_token_id
    return TokenizerFacts(
        bos_id=bos,
        starts_with_bos=None if bos is None else ids[:1] == [bos],
        # A BOS stands in plain prompts too, so it tells nothing of the template.
        template_ids=frozenset(i for i in ids if i in special and (i != bos or i in ids[1:])),
    )


def _seen(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception:  # noqa: BLE001  what cannot be read is not known
        return None
