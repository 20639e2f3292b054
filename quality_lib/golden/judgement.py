"""Short ways to write the two verdicts that every check ends in. Pure."""

from __future__ import annotations

from typing import Any

from quality_lib.records import Outcome, Verdict


def passed(reason: str, sentence: str, **evidence: Any) -> Verdict:
    """Say that a check found what it wanted."""
    return Verdict(Outcome.PASSED, reason, sentence, evidence)


def failed(reason: str, sentence: str, **evidence: Any) -> Verdict:
    """Say that a check found something wrong."""
    return Verdict(Outcome.FAILED, reason, sentence, evidence)
