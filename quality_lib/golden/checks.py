"""Structure and content checks of one finished answer. Pure.

Each check gives one verdict whose reason code is stable and whose evidence names the check under
``check``. ``not_empty`` and ``no_repetition_collapse`` always run, a JSON response format and a
forced tool call bring their own check, and the rest is what the case asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import regex

from quality_lib.gates.json_text import parse_json, schema_problem
from quality_lib.golden.case import GoldenCase
from quality_lib.golden.code_check import check_code
from quality_lib.golden.judgement import failed, passed
from quality_lib.golden.repetition import closing_loop
from quality_lib.golden.text_measures import count_words, fact_score, fold, script_share
from quality_lib.records import Outcome, Verdict

__all__ = ["Answer", "applicable_checks", "check_answer", "fact_score", "schema_problem"]

REGEX_TIMEOUT_CPU_S = 0.25
DEFAULT_SCRIPT_SHARE = 0.5
SNIPPET_CHARACTERS = 80


@dataclass(frozen=True)
class Answer:
    """What the checks look at."""

    text: str
    tool_calls: Sequence[Mapping[str, Any]]
    finish_reason: str | None

    @property
    def was_cut(self) -> bool:
        """Whether the limit on tokens ended it."""
        return self.finish_reason == "length"


Checker = Callable[[Mapping[str, Any], GoldenCase, Answer], Verdict]


def check_answer(
    case: GoldenCase,
    text: str,
    tool_calls: Sequence[Mapping[str, Any]],
    finish_reason: str | None,
) -> tuple[Verdict, ...]:
    """Judge one finished answer by every check that applies to the case.

    Never raises: a checker that breaks gives UNJUDGED with the reason ``checker_crashed``.
    """
    answer = Answer(text, tool_calls, finish_reason)
    return tuple(_run(check, case, answer) for check in applicable_checks(case))


def applicable_checks(case: GoldenCase) -> tuple[Mapping[str, Any], ...]:
    """List the checks of a case, those that it only implies first."""
    implied: list[Mapping[str, Any]] = [{"type": "not_empty"}]
    if not any(check.get("type") == "may_repeat" for check in case.checks):
        implied.append({"type": "no_repetition_collapse"})
    implied += _implied_by_request(case)
    asked = [c for c in case.checks if c.get("type") != "may_repeat" and c not in implied]
    return (*implied, *asked)


def _implied_by_request(case: GoldenCase) -> Iterator[Mapping[str, Any]]:
    form = case.response_format or {}
    if form.get("type") == "json_schema":
        yield {"type": "json_schema", "schema": form["json_schema"]["schema"]}
    elif form.get("type") == "json_object":
        yield {"type": "json"}
    asks_for_tool = any(check.get("type") == "tool_call" for check in case.checks)
    if isinstance(case.tool_choice, Mapping) and not asks_for_tool:
        yield {"type": "tool_call", "name": case.tool_choice["function"]["name"]}
    elif case.tool_choice == "required" and not asks_for_tool:
        yield {"type": "tool_call"}


def _run(check: Mapping[str, Any], case: GoldenCase, answer: Answer) -> Verdict:
    name = str(check.get("type"))
    try:
        verdict = CHECKERS[name](check, case, answer)
    except Exception as error:  # noqa: BLE001 - a broken check must not break the run
        verdict = Verdict(
            Outcome.UNJUDGED,
            "checker_crashed",
            f"The check '{name}' broke: {type(error).__name__}: {error}",
        )
    return Verdict(
        verdict.outcome, verdict.reason, verdict.sentence, {"check": name, **verdict.evidence}
    )


def _snippet(text: str) -> str:
    return text if len(text) <= SNIPPET_CHARACTERS else text[: SNIPPET_CHARACTERS - 1] + "…"


def _not_empty(_check: Mapping[str, Any], _case: GoldenCase, answer: Answer) -> Verdict:
    if answer.text.strip() or answer.tool_calls:
        return passed("not_empty_ok", "There is an answer.")
    return failed("answer_empty", "The answer holds nothing but blanks.")


def _no_collapse(_check: Mapping[str, Any], _case: GoldenCase, answer: Answer) -> Verdict:
    loop = closing_loop(answer.text)
    # A loop that has collapsed never ends by itself; "say it ten times" does.
    if loop is None or answer.finish_reason not in {"length", None}:
        return passed("no_repetition_collapse_ok", "The answer does not end in a loop.")
    return failed(
        "repetition_collapse",
        f"The answer ends in {loop.copies} repeats of {_snippet(loop.unit)!r} and would go on.",
        unit=_snippet(loop.unit),
        repeats=loop.copies,
        covered_share=round(loop.length / len(answer.text), 3),
    )


def _json(_check: Mapping[str, Any], _case: GoldenCase, answer: Answer) -> Verdict:
    _, problem = parse_json(answer.text)
    if problem is None:
        return passed("json_ok", "The answer is JSON.")
    return failed("json_invalid", f"The answer is no JSON: {problem}", was_cut=answer.was_cut)


def _json_schema(check: Mapping[str, Any], _case: GoldenCase, answer: Answer) -> Verdict:
    value, problem = parse_json(answer.text)
    if problem is not None:
        return failed("json_invalid", f"The answer is no JSON: {problem}", was_cut=answer.was_cut)
    problem = schema_problem(value, check["schema"])
    if problem is not None:
        return failed("json_schema_mismatch", f"The answer departs from its schema at {problem}")
    return passed("json_schema_ok", "The answer is JSON and fits its schema.")


def _regex(check: Mapping[str, Any], _case: GoldenCase, answer: Answer) -> Verdict:
    flags = regex.IGNORECASE if check.get("ignore_case") else 0
    pattern = check["pattern"]
    try:
        match = regex.search(pattern, answer.text, flags, timeout=REGEX_TIMEOUT_CPU_S)
    except TimeoutError:
        return Verdict(
            Outcome.UNJUDGED,
            "regex_timeout",
            f"The pattern {_snippet(pattern)!r} took longer than {REGEX_TIMEOUT_CPU_S:g} s of processor time.",
        )
    if match is None:
        return failed("regex_no_match", f"The pattern {_snippet(pattern)!r} is not found.")
    return passed("regex_ok", f"The pattern {_snippet(pattern)!r} is found.", span=match.span())


def _contains(check: Mapping[str, Any], _case: GoldenCase, answer: Answer) -> Verdict:
    wanted = check["text"]
    if fold(wanted) in fold(answer.text):
        return passed("contains_ok", f"The answer holds {_snippet(wanted)!r}.")
    return failed("contains_missing", f"The answer does not hold {_snippet(wanted)!r}.")


def _tool_call(check: Mapping[str, Any], case: GoldenCase, answer: Answer) -> Verdict:
    wanted = check.get("name")
    if not answer.tool_calls:
        return failed("tool_call_missing", f"No tool was called; expected {wanted or 'one'}.")
    offered = {
        tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in case.tools
    }
    names = []
    for call in answer.tool_calls:
        function = call.get("function", call)
        name = function.get("name")
        names.append(name)
        if name not in offered:
            return failed("tool_call_unknown_tool", f"The tool {name!r} was never offered.")
        flaw = _arguments_flaw(function.get("arguments"), name, offered[name])
        if flaw is not None:
            return flaw
    if wanted is not None and wanted not in names:
        return failed("tool_call_wrong_tool", f"Expected {wanted!r}, called {names}.", called=names)
    return passed("tool_call_ok", f"Called {names} with arguments that fit.", called=names)


def _arguments_flaw(arguments: Any, name: str, schema: Mapping[str, Any]) -> Verdict | None:
    if isinstance(arguments, str):
        arguments, problem = parse_json(arguments)
        if problem is not None:
            return failed(
                "tool_arguments_invalid_json", f"The arguments for {name!r} are no JSON: {problem}"
            )
    problem = schema_problem(arguments, schema)
    if problem is None:
        return None
    return failed(
        "tool_arguments_schema_mismatch", f"The arguments for {name!r} depart at {problem}"
    )


def _code(check: Mapping[str, Any], _case: GoldenCase, answer: Answer) -> Verdict:
    return check_code(answer.text, check["language"], was_cut=answer.was_cut)


def _max_words(check: Mapping[str, Any], _case: GoldenCase, answer: Answer) -> Verdict:
    words, limit = count_words(answer.text), check["words"]
    if words > limit:
        return failed("too_many_words", f"{words} words, at most {limit} wanted.", words=words)
    return passed("max_words_ok", f"{words} words, at most {limit} wanted.", words=words)


def _min_words(check: Mapping[str, Any], _case: GoldenCase, answer: Answer) -> Verdict:
    words, limit = count_words(answer.text), check["words"]
    if words < limit:
        return failed("too_few_words", f"{words} words, at least {limit} wanted.", words=words)
    return passed("min_words_ok", f"{words} words, at least {limit} wanted.", words=words)


def _script(check: Mapping[str, Any], _case: GoldenCase, answer: Answer) -> Verdict:
    script, wanted = check["script"], check.get("min_share", DEFAULT_SCRIPT_SHARE)
    share = script_share(answer.text, script)
    if share is None:
        return failed("script_share_low", "The answer holds no letter.", share=0.0)
    sentence = f"{share:.0%} of the letters are {script}, at least {wanted:.0%} wanted."
    if share < wanted:
        return failed("script_share_low", sentence, share=round(share, 3))
    return passed("script_ok", sentence, share=round(share, 3))


CHECKERS: Mapping[str, Checker] = {
    "not_empty": _not_empty,
    "no_repetition_collapse": _no_collapse,
    "json": _json,
    "json_schema": _json_schema,
    "regex": _regex,
    "contains": _contains,
    "tool_call": _tool_call,
    "code": _code,
    "max_words": _max_words,
    "min_words": _min_words,
    "script": _script,
}
