"""Level 4: tool calls name an offered tool and their arguments fit. Pure."""

from __future__ import annotations

import re
from typing import Any

from quality_lib.exchanges.exchange import ToolCall
from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.json_text import parse_json, schema_problem
from quality_lib.gates.output_gate import failed, output_gate, suspect, unjudged
from quality_lib.gates.periodic import smallest_period
from quality_lib.gates.tool_schema import offered_tools
from quality_lib.records import Outcome, Verdict

_K2 = "K2-Vendor-Verifier"
REASONS = (
    Reason(
        "tool_name_broken",
        Outcome.FAILED,
        "The name of a called tool is doubled, empty or holds markers.",
        source="hermes-agent#6841, vllm#32587",
    ),
    Reason(
        "tool_not_offered", Outcome.FAILED, "A called tool was never offered.", source="vllm#32587"
    ),
    Reason(
        "tool_arguments_glued",
        Outcome.FAILED,
        "The arguments are several JSON objects glued together.",
        source="hermes-agent#6841",
    ),
    Reason(
        "tool_arguments_invalid", Outcome.FAILED, "The arguments are no JSON object.", source=_K2
    ),
    Reason(
        "tool_arguments_cut",
        Outcome.SUSPECT,
        "The limit of tokens ended the arguments before they were whole.",
        source=_K2,
    ),
    Reason(
        "tool_arguments_mismatch",
        Outcome.FAILED,
        "The arguments depart from the tool's schema.",
        source=_K2,
    ),
    Reason(
        "tool_calls_repeated",
        Outcome.SUSPECT,
        "The same call with the same arguments comes again and again.",
        source="hermes-agent#6841",
    ),
    Reason("tool_schema_unusable", Outcome.UNJUDGED, "The schema of an offered tool is at fault."),
)
_GOOD_NAME = re.compile(r"[\w.:/-]{1,256}")
_SAME_CALLS = 4


def tool_calls(view: View) -> Gate:
    """Fail calls with a broken name or with arguments that do not fit."""
    return output_gate("tool_calls", view, _look, REASONS)


def _look(answer: AnswerView) -> Verdict | None:
    calls = answer.answer.tool_calls
    if not calls:
        return None
    offered = offered_tools(answer.exchange.tools)
    for call in calls:
        verdict = _name(call, offered) or _arguments(call, offered, answer)
        if verdict is not None:
            return verdict
    same = max(calls.count(call) for call in calls[:_SAME_CALLS])
    written = [(call.name, call.arguments) for call in calls]
    same = max(written.count(one) for one in written[:8])
    if same >= _SAME_CALLS:
        return suspect("tool_calls_repeated", f"The same call comes {same} times.", copies=same)
    return None


def _name(call: ToolCall, offered: dict[str, Any]) -> Verdict | None:
    name = call.name
    if name in offered:
        return None
    period = smallest_period(name) if name else 0
    is_doubled = bool(name) and period < len(name) and (period > 3 or name[:period] in offered)
    if is_doubled or not _GOOD_NAME.fullmatch(name):
        return failed("tool_name_broken", f"The tool's name is {name[:80]!r}.", name=name[:80])
    if offered:
        return failed(
            "tool_not_offered",
            f"The tool {name[:80]!r} was never offered.",
            name=name[:80],
            offered=sorted(offered)[:20],
        )
    return None


def _arguments(call: ToolCall, offered: dict[str, Any], answer: AnswerView) -> Verdict | None:
    schema = offered.get(call.name)
    if not call.arguments.strip() and not (schema or {}).get("required"):
        return None
    value, problem = parse_json(call.arguments)
    if problem is not None:
        if "Extra data" in problem:
            return failed(
                "tool_arguments_glued", f"The arguments of {call.name!r} hold more than one value."
            )
        if answer.was_cut:
            return suspect("tool_arguments_cut", f"The arguments of {call.name!r} were cut.")
        return failed(
            "tool_arguments_invalid", f"The arguments of {call.name!r} are no JSON: {problem}"
        )
    if not isinstance(value, dict):
        return failed(
            "tool_arguments_invalid",
            f"The arguments of {call.name!r} are a {type(value).__name__}, no object.",
        )
    if not schema:
        return None
    try:
        problem = schema_problem(value, schema)
    except Exception as error:  # noqa: BLE001  any fault of a foreign schema says nothing of the call
        return unjudged(
            "tool_schema_unusable", f"The schema cannot be used: {type(error).__name__}."
        )
    if problem is None:
        return None
    return failed("tool_arguments_mismatch", f"The arguments of {call.name!r} depart at {problem}")
