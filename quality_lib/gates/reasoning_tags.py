"""Level 4: thoughts and the markup of tool calls in the text, where a parser should have taken them. Pure."""

from __future__ import annotations

import json
import re

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, suspect
from quality_lib.gates.tool_schema import offered_tools
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "reasoning_tag",
        Outcome.FAILED,
        "A tag of the model's reasoning stands in the answer.",
        source="vllm#46042, vllm#13375",
    ),
    Reason(
        "tool_markup",
        Outcome.FAILED,
        "The raw markup of a tool call stands in the answer.",
        source="vllm#45167",
    ),
    Reason(
        "tool_call_as_text",
        Outcome.SUSPECT,
        "The answer is the JSON of a tool call instead of a call.",
        source="vllm blog on Kimi K2, vllm#45167",
    ),
)
_REASONING = re.compile(
    r"</?(?:[a-z]{1,12}:)?(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|inner_thoughts?|antThinking"
    r"|reason|analysis)>|◁/?think▷|\[/?THINK\]|<\|?(?:begin|end)_of_(?:thought|solution)\|?>",
    re.IGNORECASE,
)
_MARKUP = re.compile(
    r"</?(?:[a-z]{1,12}:)?(?:tool_calls?|tool_response|function_calls?|tool_use|toolcall|invoke)\b[^>\n]*>|<function=[\w.]+>"
    r"|\[/?TOOL_(?:CALLS|CALL|REQUEST|RESULTS?)\]|<[|｜]?(?:tool▁|tool_|python_tag)[^>\n]*>|\bfunctions\.\w+:\d+\b|✿FUNCTION✿"
    r"|<parameter(?:=| name=)[^>\n]*>",
    re.IGNORECASE,
)


def reasoning_tags(view: View) -> Gate:
    """Fail tags of reasoning and of tool calls outside code marks, unless the prompt speaks of them."""
    return output_gate("reasoning_tags", view, _look, REASONS)


def _look(answer: AnswerView) -> Verdict | None:
    text = answer.text
    # What the patterns look for beside angle brackets, as a cheap test.
    if (
        "<" in text
        or ("]" in text and "THINK]" in text)
        or ("_" in text and "TOOL_" in text)
        or "functions." in text
        or (not answer.is_ascii and ("◁" in text or "✿" in text))
    ):
        found = _tag(_REASONING, answer)
        if found is not None and not answer.wishes.reasoning:
            return _found("reasoning_tag", "The reasoning tag", found)
        found = _tag(_MARKUP, answer)
        if found is not None and not answer.wishes.tools:
            return _found("tool_markup", "The markup of a tool call,", found)
    if answer.exchange.tools and not answer.answer.tool_calls and text.lstrip()[:1] in {"{", "["}:
        return _call_as_text(answer)
    return None


def _tag(pattern: re.Pattern[str], answer: AnswerView) -> re.Match[str] | None:
    for match in pattern.finditer(answer.plain):
        if match[0] not in answer.asked:
            return match
    return None


def _call_as_text(answer: AnswerView) -> Verdict | None:
    try:
        value = json.loads(answer.text)
    except (ValueError, RecursionError):
        return None
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict):
        return None
    names = set(offered_tools(answer.exchange.tools))
    called = first.get("name") or first.get("function")
    if isinstance(called, str) and called in names and {"arguments", "parameters"} & set(first):
        return suspect(
            "tool_call_as_text", f"The text is a call of {called!r} written as JSON.", name=called
        )
    return None


def _found(reason: str, name: str, match: re.Match[str]) -> Verdict:
    return failed(
        reason, f"{name} {match[0]!r} stands in the text.", marker=match[0], start=match.start()
    )
