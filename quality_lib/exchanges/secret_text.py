"""Finds keys, tokens and passwords in text. Pure.

The shapes are those that the issuers document for their own keys (AWS, OpenAI, Anthropic, GitHub,
GitLab, Google, Hugging Face, Slack, Stripe), RFC 7519 (JWT), RFC 7468 (private keys) and RFC 6750
(bearer tokens). Every pattern begins at a boundary and is bounded, so a search is linear in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SHORTEST = 16
"""Characters of the shortest key that is looked for."""


@dataclass(frozen=True)
class SecretShape:
    """One kind of secret and how it looks."""

    kind: str
    markers: tuple[str, ...]
    """Without one of these in the text the pattern is not tried."""
    pattern: re.Pattern[str]
    """Group ``secret``, where there is one, is what must go; else all of the match."""
    needs_digit: bool = False
    """Whether the secret must hold a digit, to be told from words."""
    after: re.Pattern[str] | None = None
    """What must end right before the match: searching for it alone would be slower."""

    def is_real(self, match: re.Match[str]) -> bool:
        """Return whether a match is a secret rather than a word or an assignment of another thing."""
        if self.needs_digit and not any(c.isdigit() for c in match[self.group]):
            return False
        if self.after is None:
            return True
        return (
            self.after.search(match.string[max(0, match.start() - 32) : match.start()]) is not None
        )

    @property
    def group(self) -> str | int:
        """Return the group that must go."""
        return "secret" if "secret" in self.pattern.groupindex else 0


_EDGE = r"(?<![A-Za-z0-9_-])"
_LETTERS = r"[A-Za-z0-9_-]"

SHAPES: tuple[SecretShape, ...] = (
    SecretShape(
        "private_key",
        ("PRIVATE KEY",),
        # A block that was cut off goes to the end of the text.
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
            r"[\s\S]*?(?:(?=-----END )|\Z)(?:-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----)?"
        ),
    ),
    SecretShape(
        "jwt",
        ("eyJ",),
        re.compile(
            rf"{_EDGE}eyJ{_LETTERS}{{8,8000}}+\.eyJ{_LETTERS}{{8,20000}}+(?:\.{_LETTERS}*+)?"
        ),
    ),
    SecretShape(
        "aws_key", ("KIA", "SIA"), re.compile(rf"{_EDGE}A[KS]IA[A-Z0-9]{{16}}(?![A-Za-z0-9])")
    ),
    SecretShape(
        "aws_key",
        ("ecret",),
        re.compile(
            r"(?i:aws_?secret_?access_?key)[\"' ]{0,3}[=:][\"' ]{0,3}(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"
        ),
    ),
    SecretShape(
        "api_key",
        ("sk-",),
        re.compile(rf"{_EDGE}sk-{_LETTERS}{{16,300}}+"),
        needs_digit=True,
    ),
    SecretShape(
        "api_key",
        ("gh", "glpat-"),
        re.compile(
            rf"{_EDGE}(?:gh[opusr]_[A-Za-z0-9]{{30,255}}+|github_pat_\w{{30,255}}+|glpat-{_LETTERS}{{20,64}}+)",
            re.ASCII,
        ),
    ),
    SecretShape("api_key", ("AIza",), re.compile(rf"{_EDGE}AIza{_LETTERS}{{35}}(?!{_LETTERS})")),
    SecretShape("api_key", ("hf_",), re.compile(rf"{_EDGE}hf_[A-Za-z0-9]{{30,64}}+(?!{_LETTERS})")),
    SecretShape(
        "api_key",
        ("xox", "xapp-"),
        re.compile(rf"{_EDGE}(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{{10,255}}+"),
        needs_digit=True,
    ),
    SecretShape(
        "api_key",
        ("_live_", "_test_"),
        re.compile(rf"{_EDGE}[prs]k_(?:live|test)_[A-Za-z0-9]{{16,255}}+"),
    ),
    SecretShape(
        "token",
        ("earer", "EARER", "asic "),
        re.compile(r"(?i:\bbearer|\bbasic)\s{1,3}(?P<secret>[A-Za-z0-9._~+/-]{16,4096}+=*+)"),
        needs_digit=True,
    ),
    SecretShape(
        "token",
        ("key", "Key", "KEY", "oken", "OKEN", "ecret", "ECRET", "assw", "ASSW"),
        re.compile(r"[=:]\s{0,2}[\"'](?P<secret>[A-Za-z0-9._~+/=!#$%^&*@-]{16,512}+)[\"']"),
        needs_digit=True,
        after=re.compile(
            r"(?i:api_?-?key|auth_?token|access_?token|secret(?:_?key)?|password|passwd)[\"']?\s{0,2}$"
        ),
    ),
)

PASSWORD_IN_ADDRESS = SecretShape(
    "password",
    ("://",),
    re.compile(r"(?<=://)[^\s/:@\"'<>]{0,64}+:(?P<secret>[^\s/@\"'<>]{1,128}+)(?=@)"),
)
