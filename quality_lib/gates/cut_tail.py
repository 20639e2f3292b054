"""Level 4: what the limit ended in the middle of saying the same. Pure.

Beside ``loop``, which counts exact copies: here the copies may carry a running number or letter, may be
the rows of a list, or one sign that no language writes in rows.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import takewhile

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.layout import is_ruler
from quality_lib.gates.output_gate import failed, output_gate, snippet, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "same_rows",
        Outcome.FAILED,
        "The answer ends at the limit in rows that say the same under running numbers.",
        "gates.output.same_rows",
        "vllm#47087",
    ),
    Reason(
        "counting_rows",
        Outcome.SUSPECT,
        "The answer ends at the limit in rows that differ in their numbers alone.",
        "gates.output.same_rows",
        "vllm#47087",
    ),
    Reason(
        "phrases_to_limit",
        Outcome.SUSPECT,
        "Most of what the answer says until the limit it has said before, in other order.",
        "gates.output.cut_phrases",
        "vllm#47087",
    ),
    Reason(
        "sign_tail",
        Outcome.FAILED,
        "The answer ends at the limit in one sign without end.",
        "gates.output.run_characters",
        "vllm#13035",
    ),
    Reason(
        "endless_divider",
        Outcome.FAILED,
        "The dividing row of a table has no end.",
        source="vllm#13035",
    ),
    Reason(
        "few_signs",
        Outcome.FAILED,
        "The answer was ended by the limit and is made of a handful of signs.",
        "gates.output.min_characters",
        "vllm#54235",
    ),
)
_MARK = re.compile(r"^\s*(?:[-*+•#>]+\s*)?(?:\(?(?:\d{1,5}|[A-Za-z]{1,2})[.):]\s*)?")
_LETTER = re.compile(r"\b[a-z]{1,2}\b")
_DIGITS = re.compile(r"\d+")
_DIVIDER = re.compile(r"\|?(?:\s*:?-{2,}:?\s*\|){4,}")
_WORD = re.compile(r"\w+")
_WORDS_READ, _LEAST_WORDS = 400, 24
_CODE, _NUMBERS = 0.4, 0.5
_ROWS_READ = 400
_SIGNS_WISHED = (
    "emoji",
    "emoticon",
    "smil",
    "draw",
    "symbol",
    "pattern",
    "banner",
    "fill",
    "chart",
)
_FEW = 5
"""Different signs, blanks not counted, below which a text of some length says nothing."""
_DIVIDER_MORE = 4


def cut_tail(limits: OutputLimits, view: View) -> Gate:
    """Fail answers that the limit ended while they said one thing without end."""

    def look(answer: AnswerView) -> Verdict | None:
        if not answer.was_cut or len(answer.body) < 2 * limits.run_characters:
            return None
        return (
            _sign(answer, limits)
            or _divider(answer)
            or _few(answer, limits)
            or _rows(answer, limits)
            or _phrases(answer, limits)
        )

    return output_gate("cut_tail", view, look, REASONS)


def _sign(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    body = answer.body
    last = body[-1]
    if last.isascii() or last.isalnum() or is_ruler(last):
        return None
    if any(word in answer.wishes.small for word in _SIGNS_WISHED):
        return None
    run = len(body) - len(body.rstrip(last))
    if run < limits.run_characters or answer.wishes.repeats or last in answer.asked:
        return None
    return failed("sign_tail", f"It ends in {run} times {last!r}.", unit=last, copies=run)


def _divider(answer: AnswerView) -> Verdict | None:
    """A dividing row has as many cells as the row above it."""
    lines = answer.body.rsplit("\n", 2)[-2:]
    if len(lines) < 2 or not _DIVIDER.match(lines[1].strip()):
        return None
    head, row = lines[0].count("|"), lines[1].count("|")
    if row < 2 * head + _DIVIDER_MORE:
        return None
    return failed("endless_divider", f"{row} cells below a head of {head}.", cells=row, head=head)


def _few(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    """Zeros and line ends are no text; a dump, a drawing or a matrix that was asked for is."""
    wishes = answer.wishes
    signs = {sign for sign in answer.body if not sign.isspace()}
    if len(signs) >= _FEW or len(answer.body) < limits.min_characters // 2:
        return None
    if any((wishes.digits, wishes.drawing, wishes.repeats, wishes.nonsense, wishes.code)):
        return None
    return failed("few_signs", f"Only {''.join(sorted(signs))!r} and blanks.", signs=len(signs))


def _rows(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    """Look at the rows before the last one, which was cut."""
    if "\n" not in answer.body:
        return None
    rows = [row for row in answer.body[-8_000:].split("\n") if row.strip()][-_ROWS_READ:-1]
    if len(rows) < limits.same_rows:
        return None
    last = _said(rows[-1])
    if not any(map(str.isalpha, last)) or "|" in last or answer.is_structured:
        return None
    same = list(takewhile(lambda row: _said(row) == last, reversed(rows)))
    wishes = answer.wishes
    if len(same) < limits.same_rows or len(same) <= wishes.copies:
        return None
    if wishes.repeats and not (wishes.code and last not in wishes.small):
        return None  # "a loop" is asked of programs, and means no copies
    characters = sum(map(len, same))
    evidence = {"rows": len(same), "unit": snippet(last), "characters": characters}
    sentence = f"It ends in {len(same)} rows that say {snippet(last)!r}."
    if len({_bare(row) for row in same}) == 1 and not _is_code_row(last, answer):
        return failed("same_rows", sentence, **evidence)
    if wishes.code or wishes.digits:
        return None
    return suspect("counting_rows", sentence, **evidence)


def _phrases(answer: AnswerView, limits: OutputLimits) -> Verdict | None:
    """Count word triples that come again: a loop that varies has few that do not."""
    words = _WORD.findall(answer.small)[-_WORDS_READ:]
    if len(words) < _LEAST_WORDS:
        return None
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    again = sum(count for count in triples.values() if count > 1)
    share = again / (len(words) - 2)
    if share < limits.cut_phrases:
        return None
    wishes = answer.wishes
    if wishes.repeats and not wishes.code:
        return None
    if answer.is_structured or answer.fences or answer.code_share >= _CODE:
        return None
    if sum(map(str.isdigit, words)) > _NUMBERS * len(words) and wishes.digits:
        return None
    return suspect(
        "phrases_to_limit",
        f"{share:.0%} of its word triples come again.",
        share=round(share, 3),
        words=len(words),
    )


def _bare(row: str) -> str:
    """Return the row without the mark, number or letter that a list puts before it."""
    return (_MARK.sub("", row, count=1).strip() or row.strip()).casefold()


def _said(row: str) -> str:
    """Return what a row says, every number alike; of a row of numbers, with its label."""
    said = _DIGITS.sub("0", _bare(row))
    if any(map(str.isalpha, said)):
        return said
    return _LETTER.sub("a", _DIGITS.sub("0", row.strip().casefold()))


def _is_code_row(said: str, answer: AnswerView) -> bool:
    """Whether equal rows may be code, as closing tags and brackets are."""
    if not (answer.fences or answer.wishes.code):
        return False
    return not said.replace(" ", "").replace(":", "").isalpha()
