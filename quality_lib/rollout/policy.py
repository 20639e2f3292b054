"""A text such as ``(A and B) or C``: parsed once, evaluated by three-valued logic. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from quality_lib.records import Tri

CONDITIONS = ("A", "B", "C")
MAX_CHARACTERS = 200
"""A policy is read by people; the limit also bounds the depth of the parser's recursion."""

_TOKEN = re.compile(r"\s*(?:([()])|([A-Za-z_]\w*)|(\S))")
_WORDS = {"and", "or", "not"}


@dataclass(frozen=True)
class Policy:
    """A node of a parsed policy."""

    kind: str
    """``and``, ``or``, ``not``, or ``condition``."""
    parts: tuple[Policy, ...] = ()
    name: str = ""
    """Of the condition."""

    def names(self) -> frozenset[str]:
        """Return the conditions that the policy asks for."""
        if self.kind == "condition":
            return frozenset({self.name})
        return frozenset().union(*(part.names() for part in self.parts))


def parse_policy(text: str) -> Policy:
    """Parse a policy; ``not`` binds tighter than ``and``, ``and`` tighter than ``or``.

    Raises:
        ValueError: says what is wrong and at which character, counted from 1.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"the policy is longer than {MAX_CHARACTERS} characters")
    return _Parser(text).whole()


def evaluate(policy: Policy, states: Mapping[str, Tri]) -> Tri:
    """Return what the policy says by Kleene's strong logic; a condition without a state is UNKNOWN.

    S. C. Kleene, Introduction to Metamathematics (1952), section 64: *unknown* is left only where
    both answers to it would give the same result.
    """
    if policy.kind == "condition":
        return states.get(policy.name, Tri.UNKNOWN)
    values = [evaluate(part, states) for part in policy.parts]
    if policy.kind == "not":
        return negate(values[0])
    return all_of(values) if policy.kind == "and" else any_of(values)


def negate(value: Tri) -> Tri:
    """Return the opposite; the opposite of UNKNOWN is UNKNOWN."""
    return {Tri.YES: Tri.NO, Tri.NO: Tri.YES}.get(value, Tri.UNKNOWN)


def all_of(values: list[Tri]) -> Tri:
    """Return YES when all are; one NO is enough for NO. YES of nothing."""
    if Tri.NO in values:
        return Tri.NO
    return Tri.UNKNOWN if Tri.UNKNOWN in values else Tri.YES


def any_of(values: list[Tri]) -> Tri:
    """Return YES when one is; NO only when all are. NO of nothing."""
    if Tri.YES in values:
        return Tri.YES
    return Tri.UNKNOWN if Tri.UNKNOWN in values else Tri.NO


def substituted(text: str, states: Mapping[str, Tri]) -> str:
    """Return the policy's text with each condition's state in place of its name."""

    def value(match: re.Match[str]) -> str:
        word = match[0]
        return word if word.lower() in _WORDS else states.get(word, Tri.UNKNOWN).value

    return re.sub(r"[A-Za-z_]\w*", value, text)


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, int]] = []
        for match in _TOKEN.finditer(text):
            token, at = match[0].strip(), match.end() - len(match[0].strip()) + 1
            if match[3]:
                raise ValueError(f"'{token}' at character {at} does not belong in a policy")
            if match[2] and token.lower() not in _WORDS and token not in CONDITIONS:
                raise ValueError(
                    f"'{token}' at character {at} is no condition; there are {', '.join(CONDITIONS)}"
                )
            self._tokens.append((token.lower() if token.lower() in _WORDS else token, at))
        self._next = 0

    def whole(self) -> Policy:
        found = self._either()
        if self._next < len(self._tokens):
            token, at = self._tokens[self._next]
            raise ValueError(f"'{token}' at character {at} comes after the end of the policy")
        return found

    def _either(self) -> Policy:
        parts = [self._both()]
        while self._took("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Policy("or", tuple(parts))

    def _both(self) -> Policy:
        parts = [self._single()]
        while self._took("and"):
            parts.append(self._single())
        return parts[0] if len(parts) == 1 else Policy("and", tuple(parts))

    def _single(self) -> Policy:
        if self._took("not"):
            return Policy("not", (self._single(),))
        if self._took("("):
            inner = self._either()
            if not self._took(")"):
                raise ValueError("a parenthesis is not closed")
            return inner
        if self._next >= len(self._tokens):
            raise ValueError("the policy ends where a condition is expected")
        token, at = self._tokens[self._next]
        if token not in CONDITIONS:
            raise ValueError(f"'{token}' at character {at} stands where a condition is expected")
        self._next += 1
        return Policy("condition", name=token)

    def _took(self, token: str) -> bool:
        is_there = self._next < len(self._tokens) and self._tokens[self._next][0] == token
        self._next += is_there
        return is_there
