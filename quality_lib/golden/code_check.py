"""Whether the code in an answer parses. Pure."""

from __future__ import annotations

from quality_lib.gates.code_blocks import Problem, code_blocks, parser_of, whole_lines
from quality_lib.golden.judgement import failed, passed
from quality_lib.records import Outcome, Verdict


def check_code(text: str, language: str, *, was_cut: bool) -> Verdict:
    """Parse every block of a language in an answer; of one that was cut, its whole lines."""
    blocks = code_blocks(text, language)
    if not blocks:
        return failed("code_missing", "The answer holds no code.")
    problem_of = parser_of(language)
    if problem_of is None:
        return Verdict(Outcome.UNJUDGED, "code_unparsed", f"Nothing here parses {language}.")
    for number, block in enumerate(blocks, start=1):
        problem = problem_of(block)
        if problem is None:
            continue
        if was_cut and number == len(blocks):
            return _cut_code(block, language, problem_of)
        return failed("code_syntax_error", f"Block {number} is no {language}: {problem}")
    return passed("code_ok", f"{len(blocks)} block(s) of {language} parse.", blocks=len(blocks))


def _cut_code(block: str, language: str, problem_of: Problem) -> Verdict:
    """Judge code that the limit ended: its whole lines may parse, else nothing can be said."""
    dropped = whole_lines(block, problem_of, most=len(block))
    if dropped is None:
        return Verdict(
            Outcome.UNJUDGED,
            "code_truncated",
            f"The {language} was cut before any of it was complete.",
        )
    return passed(
        "code_ok", f"Parses but for the last {dropped} line(s), cut.", lines_dropped=dropped
    )
