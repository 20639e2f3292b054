"""Level 4: fenced code parses. Pure."""

from __future__ import annotations

import re

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.code_blocks import Problem, language_of, lenient_parser_of, whole_lines
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.layout import Fence
from quality_lib.gates.output_gate import output_gate, suspect
from quality_lib.records import Outcome, Verdict

_SOURCE = "Anthropic post-mortem of September 2025"
REASONS = (
    Reason(
        "code_unparsable",
        Outcome.SUSPECT,
        "A fenced block that names its language does not parse in it.",
        source=_SOURCE,
    ),
)
_SKETCH = re.compile(
    r"\.\.\.|…|<[a-z_ -]+>|\{\{|%\w|^\s*(?:>>>|\.\.\. |In \[|\$ |%|!|>)|^\s*[-+] |\byour[_ ]|\bTODO|^\s*#\s*(?:error|wrong|invalid|bad)"
    r"|\bpseudo|SyntaxError|^\s*\d+[.:|] ",
    re.IGNORECASE | re.MULTILINE,
)
"""Marks of a sketch, a session, a diff, a template or older Python: such code need not parse."""
_ABOUT_ERRORS = re.compile(
    r"\bpseudo|syntax ?error|\bbug|\bfix\b|\bwrong|\bbroken|\bdebug|\binvalid|\bdiff\b|\bpatch|python ?2|\btemplate|\bsnippet|\bpartial|\bjupyter|\bnotebook",
    re.IGNORECASE,
)


_LONGEST = 8_000
"""Characters; longer code is not parsed, so that no answer holds a server up."""
_LINES = 12
"""Lines that are taken off the end of cut code, one after the other, until the rest parses."""


def code_syntax(view: View) -> Gate:
    """Suspect code that names its language and does not parse; sketches and cut ends pass."""
    return output_gate("code_syntax", view, _look, REASONS)


def _look(answer: AnswerView) -> Verdict | None:
    blocks = answer.fences
    if not blocks:
        return None
    for number, block in enumerate(blocks, start=1):
        problem_of = lenient_parser_of(language_of(block.language))
        if problem_of is None or not block.code.strip() or len(block.code) > _LONGEST:
            continue
        problem = _problem(block, problem_of, is_cut=answer.may_be_cut and number == len(blocks))
        if problem is not None and not _ABOUT_ERRORS.search(answer.wishes.text):
            return suspect(
                "code_unparsable",
                f"Block {number} is no {block.language}: {problem}",
                block=number,
                language=block.language,
                start=block.start,
                problem=problem,
            )
    return None


def _problem(block: Fence, problem_of: Problem, *, is_cut: bool) -> str | None:
    code = block.code
    problem = problem_of(code)
    if problem is None or _SKETCH.search(code) or (block.language == "json" and "//" in code):
        return None
    dedented = _dedented(code)
    if dedented != code and problem_of(dedented) is None:
        return None
    if is_cut and (whole_lines(code, problem_of, _LINES) is not None or len(code.splitlines()) < 6):
        return None
    return problem


def _dedented(code: str) -> str:
    """Take off the indentation of the first line, as of a block inside a list."""
    first = re.match(r"[ \t]*", code)
    indent = first[0] if first else ""
    return "\n".join(line.removeprefix(indent) for line in code.splitlines()) if indent else code
