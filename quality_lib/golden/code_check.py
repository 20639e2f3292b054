"""Whether the code in an answer parses. Pure."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Callable

import regex

from quality_lib.golden.judgement import failed, passed
from quality_lib.records import Outcome, Verdict

_FENCE = regex.compile(r"```([^\n`]*)\n(.*?)(?:```|\Z)", regex.DOTALL)


def check_code(text: str, language: str, *, was_cut: bool) -> Verdict:
    """Parse every block of a language in an answer; of one that was cut, its whole lines."""
    blocks = code_blocks(text, language)
    if not blocks:
        return failed("code_missing", "The answer holds no code.")
    problem_of = _python_problem if language == "python" else _json_problem
    for number, block in enumerate(blocks, start=1):
        problem = problem_of(block)
        if problem is None:
            continue
        if was_cut and number == len(blocks):
            return _cut_code(block, language, problem_of)
        return failed("code_syntax_error", f"Block {number} is no {language}: {problem}")
    return passed("code_ok", f"{len(blocks)} block(s) of {language} parse.", blocks=len(blocks))


def code_blocks(text: str, language: str) -> list[str]:
    """Take the fenced blocks of a language, those without a name included, or the bare text."""
    fenced = _FENCE.findall(text)
    if not fenced:
        return [text] if text.strip() else []
    names = {"", language, "py", "python3"} if language == "python" else {"", language}
    return [block for name, block in fenced if name.strip().lower() in names and block.strip()]


def _cut_code(block: str, language: str, problem_of: Callable[[str], str | None]) -> Verdict:
    """Judge code that the limit ended: its whole lines may parse, else nothing can be said."""
    lines = block.splitlines()
    for kept in range(len(lines) - 1, 0, -1):
        head = "\n".join(lines[:kept])
        if head.strip() and problem_of(head) is None:
            dropped = len(lines) - kept
            return passed(
                "code_ok", f"Parses but for the last {dropped} line(s), cut.", lines_dropped=dropped
            )
    return Verdict(
        Outcome.UNJUDGED, "code_truncated", f"The {language} was cut before any of it was complete."
    )


def _python_problem(code: str) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(code)
        except (SyntaxError, ValueError) as error:
            return str(error)
    return None


def _json_problem(code: str) -> str | None:
    try:
        json.loads(code)
    except (ValueError, RecursionError) as error:
        return str(error)
    return None
