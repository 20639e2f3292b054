"""What a check in a golden case may say, and what is wrong with one that says something else. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import regex
from jsonschema import exceptions, validators
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

CODE_LANGUAGES = ("python", "json")


@dataclass(frozen=True)
class CheckType:
    """The fields of one type of check, as ``name -> Python types``."""

    required: Mapping[str, tuple[type, ...]]
    optional: Mapping[str, tuple[type, ...]]


CHECK_TYPES: Mapping[str, CheckType] = {
    "json": CheckType({}, {}),
    "json_schema": CheckType({"schema": (dict,)}, {}),
    "regex": CheckType({"pattern": (str,)}, {"ignore_case": (bool,)}),
    "contains": CheckType({"text": (str,)}, {}),
    "tool_call": CheckType({}, {"name": (str,)}),
    "code": CheckType({"language": (str,)}, {}),
    "max_words": CheckType({"words": (int,)}, {}),
    "min_words": CheckType({"words": (int,)}, {}),
    "script": CheckType({"script": (str,)}, {"min_share": (int, float)}),
    "may_repeat": CheckType({}, {}),
}


@dataclass(frozen=True)
class Flaw:
    """One thing that is wrong in a part of a case: where, what, and what to do."""

    field: str
    problem: str
    fix: str


def nearest(name: str, known: Iterable[str]) -> str:
    """Word the fix for an unknown name: the closest known one, or the list of them all."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"use one of: {', '.join(known)}."


def type_names(types: tuple[type, ...]) -> str:
    """Name Python types the way JSON calls them."""
    json_names = {
        str: "a string",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        dict: "an object",
        list: "a list",
    }
    return "a number" if float in types else " or ".join(json_names[t] for t in types)


def has_type(value: Any, types: tuple[type, ...]) -> bool:
    """Tell whether a JSON value has one of the types; ``true`` is no number here."""
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def check_flaws(check: Any, field: str) -> Iterator[Flaw]:
    """Yield everything that is wrong with one entry of ``checks``."""
    if not isinstance(check, dict):
        yield Flaw(field, "is no object", 'write {"type": "json"} or the like.')
        return
    name = check.get("type")
    if not isinstance(name, str) or name not in CHECK_TYPES:
        problem = f"unknown check type {name!r}" if "type" in check else "the check has no type"
        yield Flaw(f"{field}.type", problem, nearest(str(name), CHECK_TYPES))
        return
    flaws = list(_field_flaws(check, CHECK_TYPES[name], field))
    yield from flaws or _value_flaws(check, field)


def _field_flaws(check: Mapping[str, Any], kind: CheckType, field: str) -> Iterator[Flaw]:
    known = {**kind.required, **kind.optional}
    for name in kind.required:
        if name not in check:
            yield Flaw(
                f"{field}.{name}",
                f"a check of type '{check['type']}' needs it",
                f"add {type_names(kind.required[name])}.",
            )
    for name, value in check.items():
        if name == "type":
            continue
        if name not in known:
            yield Flaw(f"{field}.{name}", "unknown field", nearest(name, {"type", *known}))
        elif not has_type(value, known[name]):
            yield Flaw(f"{field}.{name}", f"is {value!r}", f"it must be {type_names(known[name])}.")


def _value_flaws(check: Mapping[str, Any], field: str) -> Iterator[Flaw]:
    if "schema" in check:
        yield from schema_flaws(check["schema"], f"{field}.schema")
    for name in ("pattern", "text", "name"):
        if check.get(name) == "":
            yield Flaw(f"{field}.{name}", "is empty", "an empty string is found everywhere.")
    if check.get("pattern"):
        yield from _pattern_flaws(check["pattern"], f"{field}.pattern")
    if check.get("words", 1) < 1:
        yield Flaw(f"{field}.words", f"is {check['words']}", "it must be 1 or more.")
    if "language" in check and check["language"] not in CODE_LANGUAGES:
        yield Flaw(
            f"{field}.language",
            f"no parser for {check['language']!r}",
            nearest(check["language"], CODE_LANGUAGES),
        )
    if "script" in check:
        yield from _script_flaws(check["script"], f"{field}.script")
    if not 0 < check.get("min_share", 0.5) <= 1:
        yield Flaw(f"{field}.min_share", f"is {check['min_share']}", "it lies in (0, 1].")


def _pattern_flaws(pattern: str, field: str) -> Iterator[Flaw]:
    try:
        regex.compile(pattern)
    except regex.error as error:
        yield Flaw(
            field,
            f"is no regular expression: {error}",
            "escape special characters; in JSON every backslash is written twice.",
        )


def _script_flaws(script: str, field: str) -> Iterator[Flaw]:
    try:
        regex.compile(rf"\p{{Script={script}}}")
    except regex.error:
        yield Flaw(
            field, f"unknown Unicode script {script!r}", "write Latin, Cyrillic, Han, Arabic, …"
        )


def schema_flaws(schema: Any, field: str) -> Iterator[Flaw]:
    """Yield what keeps a JSON schema from being used, references to other documents included."""
    if not isinstance(schema, dict):
        yield Flaw(field, "is no object", "write the JSON schema itself.")
        return
    validator = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        # The protocol's stub lacks the argument; without it a bad "pattern" goes unseen.
        validator.check_schema(schema, format_checker=validator.FORMAT_CHECKER)  # type: ignore[call-arg]
    except exceptions.SchemaError as error:
        yield Flaw(
            f"{field}{error.json_path.removeprefix('$')}",
            f"is no valid JSON schema: {error.message}",
            "see json-schema.org for what the keyword takes.",
        )
        return
    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for reference in _references(schema):
        try:
            if not reference.startswith("#"):
                raise Unresolvable(ref=reference)
            resolver.lookup(reference)
        except Unresolvable:
            yield Flaw(
                field,
                f"the reference {reference!r} leads nowhere",
                "only definitions inside the same schema can be used, as '#/$defs/NAME'.",
            )


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        part = list(part.values())
    if isinstance(part, list):
        for child in part:
            yield from _references(child)
