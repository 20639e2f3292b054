"""Level 4: an answer that goes round in a loop. Pure.

A loop is judged where it stands: at the end of an answer that the limit ended it is a collapse, in
one that ended by itself it is suspect, and what the caller asked for or what only draws passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.layout import is_ruler
from quality_lib.gates.output_gate import failed, output_gate, snippet, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.periodic import PROBES, Run, closing_run, runs
from quality_lib.records import Outcome, Verdict

_REPORTS = "vllm#47087, claude-code#65823, template-agent#359, TGI#1072"
REASONS = (
    Reason(
        "loop_to_limit",
        Outcome.FAILED,
        "The answer repeats one unit up to the limit of tokens.",
        "gates.output.loop_copies",
        _REPORTS,
    ),
    Reason(
        "dead_tail",
        Outcome.FAILED,
        "The answer ends in one letter or mark without end.",
        "gates.output.run_characters",
        "vllm#13035, vllm#14126, llama.cpp#13310",
    ),
    Reason(
        "loop_only",
        Outcome.FAILED,
        "The whole answer is one unit over and over, and nobody asked for it.",
        "gates.output.run_characters",
        "vllm#54235, mlx-vlm#1163",
    ),
    Reason(
        "loop_ended",
        Outcome.SUSPECT,
        "Much of the answer is one unit over and over, though it ended by itself.",
        "gates.output.loop_ended_share",
        _REPORTS,
    ),
    Reason(
        "loop_inside",
        Outcome.SUSPECT,
        "The answer loops for a while and then goes on.",
        "gates.output.loop_long_characters",
        _REPORTS,
    ),
    Reason(
        "loop_counting",
        Outcome.SUSPECT,
        "The answer repeats one sentence up to the limit and only its numbers change.",
        "gates.output.loop_long_characters",
        _REPORTS,
    ),
)


class Kind(Enum):
    """What a repeated unit is made of."""

    BLANK = "blank"
    RULER = "ruler"
    DIGITS = "digits"
    LETTER = "letter"
    MARKS = "marks"
    ROWS = "rows"
    WORDS = "words"


@dataclass(frozen=True)
class _Found:
    run: Run
    kind: Kind
    closes: bool
    share: float
    on_own_line: bool
    """Whether nothing but blanks stands before it on its line, or it leads from a word to a blank to
    fill in, as rulers and leaders do."""


_DIGITS = re.compile(r"[\dA-Fa-fxX\s,.:;/+=_()\[\]{}'\"-]*\d[\dA-Fa-fxX\s,.:;/+=_()\[\]{}'\"-]*")
_DNA = re.compile(r"[ACGTUN\s]+")
_ROW = re.compile(
    r"^\s*(?:[|\-*+#>\[({<\"'•✓☐✅]|\d+[.)])|[;,|{}\])>\"'\\]\s*$|\t|^\s{4,}", re.MULTILINE
)
_NUMBER = re.compile(r"\d+")
_ONE_NUMBER = re.compile(r"[^\w\n]{0,3}\d{1,6}[^\w\n]{0,3}")
_END = min(PROBES)
_STUCK_COPIES = 12
_COUNT_READ = 40
_COUNTED_BEFORE = 3
"""Different numbers right before one that comes without end, which show that it is a count and no row of zeros."""
_COUNTED = str.maketrans("123456789", "000000000")


def loop(limits: OutputLimits, view: View) -> Gate:
    """Fail answers that loop up to their end; suspect those that loop on the way."""

    def look(answer: AnswerView) -> Verdict | None:
        if len(answer.body) < limits.run_characters:
            return _tiny(answer)
        for found in _candidates(answer):
            verdict = _judge(found, answer, limits)
            if verdict is not None:
                return verdict
        return _counting(answer, limits) if answer.may_be_cut else None

    return output_gate("loop", view, look, REASONS)


def _tiny(answer: AnswerView) -> Verdict | None:
    """Eight marks or more and nothing else are no answer."""
    body = answer.body
    if len(body) >= 8 and not body[0].isalnum() and body == body[0] * len(body) and body.isascii():
        if answer.wishes.repeats or answer.wishes.drawing:
            return None
        run = Run(0, len(body), body[0])
        return _verdict(
            failed,
            "loop_only",
            _Found(run, Kind.MARKS, True, 1.0, on_own_line=True),
            "holds nothing but",
        )
    return None


def _candidates(answer: AnswerView) -> Iterator[_Found]:
    """Give the run at the end first, then those on the way."""
    body = answer.body
    last = closing_run(body)
    if last is not None:
        yield _found(last, answer, body, closes=True)
    elif ("\n" in body or "  " in body) and _end_recurs(answer.text):
        # The copies of a unit may differ in their blanks alone.
        flat = closing_run(answer.flat)
        if flat is not None:
            yield _found(flat, answer, answer.flat, closes=True)
    for run in runs(body):
        if last is None or run.start < last.start:
            yield _found(run, answer, body, closes=run.end == len(body))


def _end_recurs(text: str, *, or_number: bool = False) -> bool:
    """Whether the end of the last word comes before too: without that nothing repeats up to the end.

    ``or_number``: or that end holds a digit.
    """
    text = text.rstrip()
    end = "".join(text[-_END:].split()[-1:])
    return text.find(end, 0, len(text) - 1) >= 0 or (or_number and _NUMBER.search(end) is not None)


def _found(run: Run, answer: AnswerView, text: str, *, closes: bool) -> _Found:
    line = text[text.rfind("\n", 0, run.start) + 1 : run.start]
    own = not line.strip() or (run.unit.strip() in {"_", "."} and line[-1:] in " :")
    return _Found(run, _kind(run, answer), closes, run.length / max(1, len(text)), own)


def _kind(run: Run, answer: AnswerView) -> Kind:
    unit = run.unit
    if unit.isspace():
        return Kind.BLANK
    if is_ruler(unit):
        return Kind.RULER
    if _DIGITS.fullmatch(unit) or (len(unit) > 1 and _DNA.fullmatch(unit)):
        return Kind.DIGITS
    if len(unit) == 1 and unit.isalpha():
        return Kind.LETTER
    if not any(map(str.isalpha, unit)):
        return Kind.MARKS
    if any(f.start <= run.start < f.start + len(f.code) for f in answer.fences):
        return Kind.ROWS
    if "\n" in unit and _ROW.search(unit.strip("\n")):
        return Kind.ROWS
    if (
        not any(map(str.isspace, unit))
        and len(unit) > 3
        and sum(map(str.isalpha, unit)) < 0.8 * len(unit)
    ):
        return Kind.ROWS
    return Kind.WORDS


def _judge(found: _Found, answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    if found.kind is Kind.BLANK or not _is_long(found, limits):
        return None
    verdict = _unwished(found, answer, limits)
    # The wishes are asked last, for reading them is slow.
    return None if verdict is None or _is_wished(found, answer) else verdict


def _unwished(found: _Found, answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    """Judge a run as if nobody had asked for it."""
    run, cut = found.run, found.closes and answer.may_be_cut
    if cut and (
        found.share >= 0.25 or run.length >= limits.loop_long_characters or len(run.unit) == 1
    ):
        reason = "dead_tail" if len(run.unit) == 1 else "loop_to_limit"
        return _verdict(failed, reason, found, "ends in")
    if found.kind is Kind.ROWS:
        return None
    if found.share > 0.95 and found.kind in {Kind.LETTER, Kind.MARKS} and run.unit.isascii():
        return _verdict(failed, "loop_only", found, "holds nothing but")
    if run.length < limits.loop_long_characters:
        return None
    if found.share >= limits.loop_ended_share:
        return _verdict(suspect, "loop_ended", found, "consists much of")
    if found.kind is Kind.WORDS:
        return _verdict(suspect, "loop_inside", found, "goes on after")
    return None


def _is_long(found: _Found, limits: OutputLimits) -> bool:
    """Whether a run is long enough for its kind."""
    run = found.run
    if found.kind is Kind.RULER:
        if found.share > 0.95 or not found.on_own_line:
            return run.length >= 3 * limits.run_characters
        return run.length > limits.ruler_characters
    if found.kind is Kind.DIGITS:
        return run.length >= (4 if found.share < 0.5 else 2) * limits.run_characters
    if found.kind is Kind.LETTER:
        return run.length >= limits.run_characters
    if found.kind is Kind.MARKS:
        return run.length >= limits.run_characters and run.copies >= limits.loop_copies
    if found.kind is Kind.ROWS:
        return (
            run.copies >= limits.loop_row_copies and run.length >= 2 * limits.loop_long_characters
        ) or (
            run.copies >= limits.loop_row_copies // 3
            and run.length >= 6 * limits.loop_long_characters
        )
    copies, length, long = run.copies, run.length, limits.loop_long_characters
    return (
        (copies >= limits.loop_copies and length >= limits.loop_characters)
        or (
            copies >= limits.loop_copies // 2
            and length >= (long if found.share < 0.5 else 0.6 * long)
        )
        or (copies >= 3 and length >= (2.5 * long if found.share < 0.6 else 0.6 * long))
    )


def _is_wished(found: _Found, answer: AnswerView) -> bool:
    """Whether the caller asked for it, and about so much of it."""
    wishes, run = answer.wishes, found.run
    if found.kind is Kind.DIGITS and wishes.digits:
        return not _is_stuck_count(found, answer)
    if found.kind in {Kind.RULER, Kind.MARKS} and wishes.drawing:
        return True
    named = wishes.copies
    is_words = found.kind is Kind.WORDS
    is_meant = wishes.repeats or _is_named(run, answer) or (named >= 10 and not is_words)
    if named and run.copies <= 2 * named + 4 and is_meant:
        return True
    if found.kind is Kind.LETTER and wishes.digits and not answer.was_cut:
        return True
    if answer.was_cut and named and run.copies > 2 * named + 4:
        return False
    return wishes.repeats and (
        not answer.was_cut or found.kind is not Kind.WORDS or _is_named(run, answer)
    )


def _is_stuck_count(found: _Found, answer: AnswerView) -> bool:
    """Whether an answer that the limit ended counted on and then said one number without end."""
    run = found.run
    if not (answer.was_cut and found.closes and run.copies >= _STUCK_COPIES):
        return False
    if not _ONE_NUMBER.fullmatch(run.unit) or answer.wishes.flat_numbers:
        return False
    before = answer.body[max(0, run.start - _COUNT_READ) : run.start + len(run.unit)]
    return len(set(_NUMBER.findall(before))) >= _COUNTED_BEFORE


def _is_named(run: Run, answer: AnswerView) -> bool:
    """Whether the prompt holds the unit itself."""
    unit = run.unit.strip(" \t\r\n.,;:!?\"'").casefold()
    return bool(unit) and unit in answer.wishes.text.casefold()


def _counting(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    """Find a closing loop whose copies differ in their numbers alone."""
    if len(answer.body) < limits.loop_long_characters or answer.fences:
        return None
    if not _end_recurs(answer.text, or_number=True):
        return None
    masked = re.sub(r"00+", "0", answer.flat.translate(_COUNTED))
    run = closing_run(masked)
    if run is None or run.length < 0.8 * limits.loop_long_characters:
        return None
    if run.copies < (limits.loop_copies if run.length < 0.4 * len(masked) else 3):
        return None
    words = re.findall(r"[^\W\d_]{3,}", run.unit)
    wishes = answer.wishes
    if (
        len(words) < 2
        or 0 < run.copies <= 2 * wishes.copies
        or wishes.repeats
        or wishes.code
        or "|" in run.unit
    ):
        return None
    found = _Found(run, Kind.WORDS, True, run.length / len(masked), on_own_line=False)
    return _verdict(suspect, "loop_counting", found, "ends in")


def _verdict(say: Callable[..., Verdict], reason: str, found: _Found, how: str) -> Verdict:
    run = found.run
    return say(
        reason,
        f"The answer {how} {run.copies} copies of {snippet(run.unit)!r}.",
        start=run.start,
        end=run.end,
        unit=snippet(run.unit),
        copies=run.copies,
        share=round(found.share, 3),
    )
