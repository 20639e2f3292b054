"""What a request asks for, and what the guard asks for besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib.exchanges.exchange import Exchange
from quality_lib.serving.strip import Extras

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
PATHS = frozenset({CHAT, COMPLETIONS})

NO_PARAMS = frozenset({
    *("model", "messages", "prompt", "prompt_embeds", "suffix", "tools", "response_format"),
    *("stream", "stream_options", "user", "request_id", "session_id", "documents"),
    *("chat_template", "chat_template_kwargs", "media_io_kwargs", "mm_processor_kwargs"),
    *("kv_transfer_params", "ec_transfer_params", "cache_salt"),
})
"""Fields of a request that are no parameters of its generation."""


@dataclass(frozen=True)
class Asked:
    """One request, as far as the guard understands it; the body may hold anything."""

    path: str
    body: Mapping[str, Any]

    @property
    def is_chat(self) -> bool:
        """Return whether it is a chat, else a plain completion."""
        return self.path == CHAT

    @property
    def streams(self) -> bool:
        """Return whether the answer is asked for in pieces."""
        return self.body.get("stream") is True

    @property
    def n(self) -> int:
        """Return how many choices each prompt gets."""
        n = self.body.get("n")
        return n if isinstance(n, int) and 1 <= n <= 65_536 else 1

    @property
    def prompts(self) -> tuple[Any, ...]:
        """Return a completion's prompts, each a text or a list of token ids; none of a chat."""
        if self.is_chat:
            return ()
        prompt = self.body.get("prompt")
        if isinstance(prompt, list) and not (prompt and isinstance(prompt[0], int)):
            return tuple(prompt)
        return (prompt,)

    @property
    def choices(self) -> int:
        """Return how many choices the answer will have."""
        return self.n * max(1, len(self.prompts))

    @property
    def echoes(self) -> bool:
        """Return whether the answer repeats the prompt."""
        return bool(self.body.get("echo"))

    @property
    def params(self) -> dict[str, Any]:
        """Return the sampling parameters that were sent."""
        return {k: v for k, v in self.body.items() if k not in NO_PARAMS}

    @property
    def wants_usage(self) -> bool:
        """Return whether a stream is to end with its usage."""
        return self._stream_option("include_usage")

    @property
    def wants_running_usage(self) -> bool:
        """Return whether every chunk is to carry the usage."""
        return self.wants_usage and self._stream_option("continuous_usage_stats")

    def exchange(self, choice: int = 0) -> Exchange:
        """Return the request that a choice answers, without its answer."""
        prompts = self.prompts
        prompt = prompts[min(choice // self.n, len(prompts) - 1)] if prompts else None
        return Exchange(
            messages=_mappings(self.body.get("messages")) if self.is_chat else None,
            prompt=prompt if isinstance(prompt, str) else None,
            prompt_token_ids=_ids(prompt),
            params=self.params,
            tools=_mappings(self.body.get("tools")) or (),
            response_format=_mapping(self.body.get("response_format")),
        )

    def _stream_option(self, name: str) -> bool:
        options = self.body.get("stream_options")
        return self.streams and isinstance(options, dict) and options.get(name) is True


@dataclass(frozen=True)
class Additions:
    """Fields put into a request, and what they bring into its answer."""

    fields: Mapping[str, Any]
    extras: Extras


NOTHING = Additions({}, Extras())


def detail_additions(asked: Asked) -> Additions:
    """Ask for token ids and log-probabilities where that changes nothing else.

    With ``echo`` token ids take the prompt's text away, beam search has no such numbers, and what
    the server would refuse must stay refused: such requests are left alone.
    """
    body = asked.body
    if asked.echoes or body.get("use_beam_search"):
        return NOTHING
    odd_logprobs = "logprobs" in body and not isinstance(body["logprobs"], int | None)
    if odd_logprobs or body.get("top_logprobs") or body.get("logprob_token_ids"):
        return NOTHING
    fields: dict[str, Any] = {}
    extra: set[str] = set()
    has_logprobs = bool(body.get("logprobs")) if asked.is_chat else body.get("logprobs") is not None
    has_ids = bool(body.get("return_token_ids"))
    if not has_logprobs:
        fields["logprobs"] = True if asked.is_chat else 0
        extra.add("logprobs")
    if not has_ids:
        fields["return_token_ids"] = True
        extra |= {"token_ids", "prompt_token_ids"}
    return Additions(
        fields,
        Extras(
            choice_fields=frozenset(extra),
            top_fields=frozenset(extra & {"prompt_token_ids"}),
            silent_chunks=asked.is_chat and not has_logprobs and not has_ids,
        ),
    )


def running_usage_additions(asked: Asked) -> Additions:
    """Ask for the usage in every chunk, so that a stream that is stopped can end with it."""
    if not asked.wants_usage or asked.wants_running_usage:
        return NOTHING
    options = {**asked.body["stream_options"], "continuous_usage_stats": True}
    return Additions({"stream_options": options}, Extras(chunk_usage=True))


def engine_additions(asked: Asked, fields: Mapping[str, Any]) -> Additions:
    """Ask the engine for a reaction of its own, where the client has not decided it."""
    return Additions({k: v for k, v in fields.items() if k not in asked.body}, Extras())


def entropy_additions(asked: Asked, quality_id: str) -> Additions:
    """Ask our logits processor to measure; of several choices nobody could tell whose it is."""
    arguments = asked.body.get("vllm_xargs") or {}
    if asked.choices != 1 or not isinstance(arguments, dict) or "quality_id" in arguments:
        return NOTHING
    return Additions({"vllm_xargs": {**arguments, "quality_id": quality_id}}, Extras())


def together(first: Additions, second: Additions) -> Additions:
    """Return both additions as one."""
    one, other = first.extras, second.extras
    return Additions(
        {**first.fields, **second.fields},
        Extras(
            one.choice_fields | other.choice_fields,
            one.top_fields | other.top_fields,
            one.chunk_usage or other.chunk_usage,
            one.silent_chunks or other.silent_chunks,
        ),
    )


def _ids(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, list) and value and all(isinstance(i, int) for i in value):
        return tuple(value)
    return None


def _mapping(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) else None


def _mappings(value: Any) -> tuple[Mapping[str, Any], ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(item for item in value if isinstance(item, dict))
