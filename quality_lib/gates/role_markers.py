"""Level 4: the model goes on and plays the user too. Pure."""

from __future__ import annotations

import re

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, suspect
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "plays_both_roles",
        Outcome.FAILED,
        "The answer holds turns of the user and of the assistant, and no dialogue was asked for.",
        source="vllm#4180, llama.cpp#9788",
    ),
    Reason(
        "role_marker",
        Outcome.SUSPECT,
        "A line of the answer opens a turn of the user or of another prompt format.",
        source="llama.cpp#9788",
    ),
)
_TURN = re.compile(
    r"^[ \t]*(?:\*\*)?(?:(?P<role>user|human|assistant|ai|bot)|(?P<hash>#{2,3} ?)(?P<part>instruction|input|response|human"
    r"|assistant|user))(?:\*\*)?[ \t]*(?P<colon>:(?:\*\*)?|$)(?P<rest>.*)",
    re.IGNORECASE | re.MULTILINE,
)
_USERS = frozenset({"user", "human", "instruction", "input"})
_KEY = re.compile(r"[ \t]*[-*]?[ \t]*\**[\w /-]{1,24}\**:[ \t]*\S")


def role_markers(view: View) -> Gate:
    """Fail invented turns of a dialogue; a lone marker is suspect."""
    return output_gate("role_markers", view, _look, REASONS)


def _look(answer: AnswerView) -> Verdict | None:
    lowered = answer.small if answer.prose is answer.text else answer.text.lower()
    if not (
        "user" in lowered or "human" in lowered or "assistant" in lowered or "instruct" in lowered
    ):
        return None
    turns = list(_TURN.finditer(answer.plain))
    if not turns or answer.wishes.dialogue:
        return None
    roles = [(m["role"] or m["part"]).lower() for m in turns]
    users = sum(role in _USERS for role in roles)
    assistants = len(roles) - users
    evidence = {"start": turns[0].start(), "roles": roles[:8], "turns": len(turns)}
    if users and assistants:
        return failed(
            "plays_both_roles", f"{len(turns)} turns of {sorted(set(roles))}.", **evidence
        )
    if _opens_a_turn(turns[0], roles[0], answer):
        return suspect("role_marker", f"A line opens a turn of {roles[0]!r}.", **evidence)
    return None


def _opens_a_turn(turn: re.Match[str], role: str, answer: AnswerView) -> bool:
    """Whether a lone marker is no key of a listing, such as ``User: root`` beside other keys."""
    if turn["hash"]:
        return True
    if role in {"ai", "bot"}:
        return False
    if not turn["colon"]:
        return True
    others = [line for line in answer.plain.splitlines() if line.strip() and line != turn[0]]
    keys = sum(_KEY.match(line) is not None for line in others)
    return keys == 0 and len(turn["rest"].split()) != 1
