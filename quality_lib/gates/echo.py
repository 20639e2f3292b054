"""Level 4: the answer is the prompt again. Pure."""

from __future__ import annotations

from quality_lib.gates.answer_view import WORDS, AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.periodic import equal_ahead
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "prompt_echo",
        Outcome.FAILED,
        "The answer is made of the prompt's own sentences and answers nothing.",
        "gates.output.echo_share",
        "vllm#52617",
    ),
    Reason(
        "prompt_echo_some",
        Outcome.SUSPECT,
        "The answer is a copy of one piece of the prompt.",
        "gates.output.echo_share",
        "vllm#52617",
    ),
    Reason(
        "prompt_returned",
        Outcome.FAILED,
        "The answer starts with the whole prompt.",
        source="vllm#48853",
    ),
)
_SEQUENCE = 5
_LEAST_WORDS = 8
_PROBE = 24
_AGAIN = 0.8
"""Times the limit: of an answer that says the same piece of the prompt more than once."""
_RETURNED_CHARACTERS = 120


def echo(limits: OutputLimits, view: View) -> Gate:
    """Fail an answer that repeats the prompt where no copying was asked for."""

    def look(answer: AnswerView) -> Verdict | None:
        text = answer.body.lstrip()
        if len(text) < limits.min_characters or not _shares_pieces(answer, text):
            return None
        if answer.exchange.params.get("echo") or answer.wishes.copying or answer.wishes.repeats:
            return None
        return _returned(answer, text) or _covered(answer, text, limits)

    return output_gate("echo", view, look, REASONS)


def _shares_pieces(answer: AnswerView, text: str) -> bool:
    """Whether at least one of three short probes stands in the prompt: the cheap test."""
    asked = answer.asked
    if len(asked) < _PROBE:
        return False
    places = (0, len(text) // 2, max(0, len(text) - _PROBE - 2))
    return any(text[at : at + _PROBE] in asked for at in places)


def _returned(answer: AnswerView, text: str) -> Verdict | None:
    for source in (answer.exchange.last_asked.strip(), answer.asked.strip()):
        if len(source) < _RETURNED_CHARACTERS:
            continue
        joined = f"{source}\0{text}"
        same = equal_ahead(joined, 0, len(source) + 1)
        if same >= min(len(source), 4 * _RETURNED_CHARACTERS):
            return failed(
                "prompt_returned",
                f"It starts with {same} characters of the prompt.",
                characters=same,
            )
    return None


def _covered(answer: AnswerView, text: str, limits: OutputLimits) -> Verdict | None:
    words = WORDS.findall(text.casefold())
    if len(words) < _LEAST_WORDS:
        return None
    asked = WORDS.findall(answer.asked.casefold())
    known = set(_sequences(asked))
    covered = bytearray(len(words))
    for at, one in enumerate(_sequences(words)):
        if one in known:
            covered[at : at + _SEQUENCE] = b"\1" * _SEQUENCE
    share = sum(covered) / len(words)
    evidence = {"share": round(share, 3), "words": len(words)}
    sentence = f"{share:.0%} of its words stand in the prompt in the same order."
    again = len(set(words)) < 0.6 * len(words)
    if share >= limits.echo_share:
        if again or answer.was_cut or len(words) >= 0.6 * len(asked):
            return failed("prompt_echo", sentence, **evidence)
        return suspect("prompt_echo_some", sentence, **evidence)
    # Where a piece ends and begins again no sequence is the prompt's.
    if again and share >= _AGAIN * limits.echo_share:
        return suspect("prompt_echo_some", sentence, **evidence)
    return None


def _sequences(words: list[str]) -> list[tuple[str, ...]]:
    return list(zip(*(words[at:] for at in range(_SEQUENCE)), strict=False))
