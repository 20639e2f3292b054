"""Limits of level 1, with their defaults. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import regex


@dataclass(frozen=True)
class InputRule:
    """An own rule: a pattern that no prompt may hold."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    name: str
    """Told in the verdict."""
    pattern: str
    """A regular expression in the syntax of the ``regex`` package, searched in the cleaned prompt."""
    outcome: Literal["FAILED", "SUSPECT"] = "SUSPECT"
    ignore_case: bool = True

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a rule needs a name")
        try:
            regex.compile(self.pattern)
        except regex.error as error:
            raise ValueError(f"rule '{self.name}' is no regular expression: {error}") from error


@dataclass(frozen=True)
class InputLimits:
    """When a request is refused or suspect before it is generated."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    max_characters: int = 200_000
    """Characters of all messages together; about 50,000 English tokens. No report behind it: a stop for
    bodies that no one wrote."""
    max_tokens: int | None = None
    """Prompt tokens, counted with the model's own tokenizer. None: what the model takes decides."""
    nonsense: bool = True
    """Whether prompts of symbols alone, mojibake and binary data are recognised."""
    min_symbols: int = 12
    """A prompt of symbols alone is failed from so many on, with at least four different ones. Shorter
    ones, such as "???" or "&&", are questions that people ask."""
    max_control_share: float = 0.05
    """Share of control characters above which a prompt is binary data; text has none but line ends."""
    suspect_mojibake_share: float = 0.02
    """Wrongly decoded sequences (``ftfy``) per character. Below it, a pasted text has a slip or two."""
    max_mojibake_share: float = 0.15
    """Above it, in a prompt that is mostly not ASCII, nothing can be read. A prompt in French or German
    that was decoded wrongly has around 0.05 to 0.13, one in Russian, Hebrew or Chinese 0.3 to 0.4."""
    deny: tuple[str, ...] = ()
    """Phrases that no prompt may hold; upper and lower case, and invisible characters, do not matter."""
    rules: tuple[InputRule, ...] = ()
    """Own patterns."""
    rule_timeout_s: float = 0.05
    """One pattern may search so long; a slower one is not judged, and never holds a request up."""
    truncation_share: float = 0.05
    """The server may count this share of the expected prompt tokens less. Reports of silent truncation
    (ollama#3839, ollama#17889) are of a half and more; the same tokenizer counts the same."""
    truncation_tokens: int = 16
    """… and so many tokens less, for tokens at the seams of messages."""
    scope_examples: tuple[str, ...] = ()
    """Prompts that this service is for; empty switches the scope check off."""
    scope_foreign: tuple[str, ...] = ()
    """Prompts that it is not for."""
    scope_min_similarity: float = 0.2
    """Cosine to the nearest example below which a prompt is out of scope. Unrelated sentences lie
    around 0 to 0.15 with all-MiniLM-L6-v2; set it from your own examples."""

    def __post_init__(self) -> None:
        if self.max_characters < 1:
            raise ValueError("max_characters must be at least 1")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1, or null")
        if self.min_symbols < 1 or self.truncation_tokens < 0:
            raise ValueError("min_symbols must be at least 1, truncation_tokens at least 0")
        for name in (
            "max_control_share", "suspect_mojibake_share", "max_mojibake_share",
            "truncation_share",
        ):  # fmt: skip
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie between 0 and 1")
        if not 0 < self.rule_timeout_s <= 5:
            raise ValueError("rule_timeout_s must lie above 0 and at most 5 seconds")
        if any(not phrase.strip() for phrase in self.deny):
            raise ValueError("deny holds an empty phrase, which every prompt would match")
        if self.scope_foreign and not self.scope_examples:
            raise ValueError("scope_foreign needs scope_examples beside it")
