"""What the fields of a golden case may hold, one rule after the other. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from quality_lib.golden.check_spec import (
    Flaw,
    check_flaws,
    has_type,
    nearest,
    schema_flaws,
    type_names,
)

FIELDS: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "messages": (list,),
    "params": (dict,),
    "tools": (list,),
    "tool_choice": (str, dict),
    "response_format": (dict,),
    "facts": (list,),
    "checks": (list,),
    "tags": (list,),
    "repeats": (int,),
    "critical": (bool,),
}
REQUIRED = ("id", "messages")
PARAMS: Mapping[str, tuple[type, ...]] = {
    "temperature": (int, float),
    "seed": (int,),
    "max_tokens": (int,),
    "top_p": (int, float),
}
ROLES = ("system", "user", "assistant", "tool")
MESSAGE_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id")
RESPONSE_FORMATS = ("text", "json_object", "json_schema")
TOOL_CHOICES = ("none", "auto", "required")
MAX_REPEATS = 50

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def case_flaws(document: Any) -> list[Flaw]:
    """List everything that is wrong with one decoded case; duplicates of an id are not seen here."""
    if not isinstance(document, dict):
        return [Flaw("", "is no object", 'a case is {"id": ..., "messages": [...]}.')]
    flaws = [
        Flaw(name, "is missing", f"add {type_names(FIELDS[name])}.")
        for name in REQUIRED
        if name not in document
    ]
    for name, value in document.items():
        if name not in FIELDS:
            flaws.append(Flaw(name, "unknown field", nearest(name, FIELDS)))
        elif not has_type(value, FIELDS[name]):
            flaws.append(
                Flaw(name, f"is {_shown(value)}", f"it must be {type_names(FIELDS[name])}.")
            )
        else:
            flaws += _RULES[name](value, document)
    return flaws


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _id_flaws(value: str, _: Mapping[str, Any]) -> Iterator[Flaw]:
    if not _ID.fullmatch(value):
        yield Flaw(
            "id",
            "is empty" if not value.strip() else f"{_shown(value)} cannot be an id",
            "use letters, digits, '.', '_' and '-', at most 128, as in 'fr-capital-01'.",
        )


def _message_flaws(messages: list[Any], _: Mapping[str, Any]) -> Iterator[Flaw]:
    if not messages:
        yield Flaw("messages", "is empty", 'add {"role": "user", "content": "..."}.')
    for number, message in enumerate(messages):
        yield from _one_message_flaws(message, f"messages[{number}]")
    last = messages[-1] if messages else None
    if isinstance(last, dict) and last.get("role") in {"system", "assistant"}:
        yield Flaw(
            f"messages[{len(messages) - 1}].role",
            f"the last message is from the {last['role']}",
            "end with a 'user' or 'tool' message: that is what the model answers.",
        )


def _one_message_flaws(message: Any, field: str) -> Iterator[Flaw]:
    if not isinstance(message, dict):
        yield Flaw(field, "is no object", 'write {"role": "user", "content": "..."}.')
        return
    for name in message:
        if name not in MESSAGE_FIELDS:
            yield Flaw(f"{field}.{name}", "unknown field", nearest(name, MESSAGE_FIELDS))
    role = message.get("role")
    if role not in ROLES:
        yield Flaw(f"{field}.role", f"unknown role {role!r}", nearest(str(role), ROLES))
    content = message.get("content")
    if content is None and role == "assistant" and message.get("tool_calls"):
        return
    if isinstance(content, list):
        yield from _part_flaws(content, f"{field}.content")
    elif not isinstance(content, str):
        yield Flaw(f"{field}.content", f"is {_shown(content)}", "it must be a string.")
    elif not content.strip():
        yield Flaw(f"{field}.content", "is empty", "write what the model is to read.")


def _part_flaws(parts: list[Any], field: str) -> Iterator[Flaw]:
    good = [
        isinstance(part, dict)
        and set(part) == {"type", "text"}
        and part["type"] == "text"
        and isinstance(part["text"], str)
        and bool(part["text"].strip())
        for part in parts
    ]
    if not good or not all(good):
        number = good.index(False) if good else 0
        yield Flaw(f"{field}[{number}]", "is no text part", '{"type": "text", "text": "..."}.')


def _param_flaws(params: dict[str, Any], _: Mapping[str, Any]) -> Iterator[Flaw]:
    sound = {}
    for name, value in params.items():
        if name not in PARAMS:
            yield Flaw(f"params.{name}", "unknown field", nearest(name, PARAMS))
        elif not has_type(value, PARAMS[name]):
            yield Flaw(
                f"params.{name}", f"is {_shown(value)}", f"it must be {type_names(PARAMS[name])}."
            )
        else:
            sound[name] = value
    temperature = sound.get("temperature", 0)
    if not 0 <= temperature <= 2:
        yield Flaw("params.temperature", f"is {temperature}", "it lies in 0 to 2.")
    elif temperature > 0 and "seed" not in params:
        yield Flaw(
            "params.seed",
            f"is missing, though the temperature is {temperature}",
            "add a seed, or two healthy runs would differ.",
        )
    if not 0 <= sound.get("seed", 0) < 2**63:
        yield Flaw("params.seed", f"is {sound['seed']}", "it lies in 0 to 2^63 - 1.")
    if sound.get("max_tokens", 1) < 1:
        yield Flaw("params.max_tokens", f"is {sound['max_tokens']}", "it must be 1 or more.")
    if not 0 < sound.get("top_p", 1) <= 1:
        yield Flaw("params.top_p", f"is {sound['top_p']}", "it lies in (0, 1].")


def _tool_flaws(tools: list[Any], _: Mapping[str, Any]) -> Iterator[Flaw]:
    names: list[str] = []
    for number, tool in enumerate(tools):
        field = f"tools[{number}]"
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            yield Flaw(
                field,
                "is no tool",
                'write {"type": "function", "function": {"name": ..., "parameters": {...}}}.',
            )
            continue
        name = function.get("name")
        if not isinstance(name, str) or not name:
            yield Flaw(f"{field}.function.name", f"is {_shown(name)}", "give the tool a name.")
        elif name in names:
            yield Flaw(f"{field}.function.name", f"'{name}' is offered twice", "rename one.")
        else:
            names.append(name)
        yield from schema_flaws(function.get("parameters", {}), f"{field}.function.parameters")


def _tool_names(document: Mapping[str, Any]) -> list[str]:
    tools = document.get("tools")
    functions = [
        tool.get("function")
        for tool in (tools if isinstance(tools, list) else [])
        if isinstance(tool, dict)
    ]
    return [str(f.get("name")) for f in functions if isinstance(f, dict)]


def _tool_choice_flaws(choice: str | dict[str, Any], document: Mapping[str, Any]) -> Iterator[Flaw]:
    offered = _tool_names(document)
    if not offered:
        yield Flaw("tool_choice", "is set, but no tool is offered", "add tools or remove it.")
    elif isinstance(choice, str):
        if choice not in TOOL_CHOICES:
            yield Flaw("tool_choice", f"unknown choice {choice!r}", nearest(choice, TOOL_CHOICES))
    else:
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        if choice.get("type") != "function" or name not in offered:
            yield Flaw(
                "tool_choice",
                f"does not name an offered tool: {_shown(name)}",
                f"use one of: {', '.join(offered)}.",
            )


def _response_format_flaws(form: dict[str, Any], _: Mapping[str, Any]) -> Iterator[Flaw]:
    kind = form.get("type")
    if kind not in RESPONSE_FORMATS:
        yield Flaw(
            "response_format.type", f"unknown type {kind!r}", nearest(str(kind), RESPONSE_FORMATS)
        )
    elif kind == "json_schema":
        inner = form.get("json_schema")
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            yield Flaw(
                "response_format.json_schema",
                "lacks a name",
                'write {"name": "...", "schema": {...}}.',
            )
        else:
            yield from schema_flaws(inner.get("schema"), "response_format.json_schema.schema")


def _fact_flaws(facts: list[Any], _: Mapping[str, Any]) -> Iterator[Flaw]:
    for number, fact in enumerate(facts):
        if not isinstance(fact, str):
            yield Flaw(f"facts[{number}]", f"is {_shown(fact)}", "it must be a string.")
        elif not all(alternative.strip() for alternative in fact.split("|")):
            yield Flaw(
                f"facts[{number}]",
                "is empty" if not fact.strip() else f"{fact!r} has an empty alternative",
                "an empty fact is found everywhere.",
            )


def _checks_flaws(checks: list[Any], document: Mapping[str, Any]) -> Iterator[Flaw]:
    offered = _tool_names(document)
    for number, check in enumerate(checks):
        field = f"checks[{number}]"
        flaws = list(check_flaws(check, field))
        yield from flaws
        if flaws or check["type"] != "tool_call":
            continue
        if not offered or check.get("name", offered[0]) not in offered:
            yield Flaw(
                f"{field}.name",
                "expects a call of a tool that the case does not offer",
                f"use one of: {', '.join(offered)}." if offered else "add tools to the case.",
            )


def _tag_flaws(tags: list[Any], _: Mapping[str, Any]) -> Iterator[Flaw]:
    for number, tag in enumerate(tags):
        if not isinstance(tag, str) or not tag.strip():
            yield Flaw(f"tags[{number}]", f"is {_shown(tag)}", "a tag is a string with a letter.")
        elif tag in tags[:number]:
            yield Flaw(f"tags[{number}]", f"'{tag}' stands twice", "remove one.")


def _repeat_flaws(repeats: int, _: Mapping[str, Any]) -> Iterator[Flaw]:
    if not 1 <= repeats <= MAX_REPEATS:
        yield Flaw("repeats", f"is {repeats}", f"it lies in 1 to {MAX_REPEATS}.")


def _no_flaws(_value: Any, _: Mapping[str, Any]) -> Iterator[Flaw]:
    return iter(())


_RULES: Mapping[str, Callable[[Any, Mapping[str, Any]], Iterator[Flaw]]] = {
    "id": _id_flaws,
    "messages": _message_flaws,
    "params": _param_flaws,
    "tools": _tool_flaws,
    "tool_choice": _tool_choice_flaws,
    "response_format": _response_format_flaws,
    "facts": _fact_flaws,
    "checks": _checks_flaws,
    "tags": _tag_flaws,
    "repeats": _repeat_flaws,
    "critical": _no_flaws,
}
