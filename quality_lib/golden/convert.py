"""Turns test files of other tools into golden cases, and says what could not be carried over. Pure."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quality_lib.golden.case_fields import PARAMS
from quality_lib.golden.conversion import Conversion, Converted

CHAT_URL = "/v1/chat/completions"
LONGEST_FACT_CHARACTERS = 80

_VARIABLE = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")
_LEFT_OVER = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def from_openai_batch(lines: Iterable[str]) -> Converted:
    """Convert the lines of an OpenAI batch input file; only chat completions become cases."""
    conversion = Conversion("openai-batch")
    for number, line in enumerate(lines, start=1):
        place = f"line {number}"
        if not line.strip():
            continue
        try:
            request = json.loads(line)
        except ValueError as error:
            conversion.note(place, f"left out: no JSON ({error})")
            continue
        body = request.get("body") if isinstance(request, dict) else None
        if not isinstance(body, dict):
            conversion.note(place, "left out: no object with a 'body'")
        elif request.get("url", CHAT_URL) != CHAT_URL:
            conversion.note(place, f"left out: requests to {request['url']} are no chat")
        else:
            identity = str(request.get("custom_id") or f"batch-{number:04d}")
            conversion.add(place, _chat_body(conversion, place, identity, body))
    return conversion.result()


def _chat_body(
    conversion: Conversion, place: str, identity: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    document: dict[str, Any] = {"id": identity, "messages": body.get("messages", [])}
    params = {name: body[name] for name in PARAMS if body.get(name) is not None}
    if "max_completion_tokens" in body:
        params["max_tokens"] = body["max_completion_tokens"]
    if "temperature" not in params:
        conversion.note(place, "names no temperature; the case is greedy")
    for name in ("tools", "tool_choice", "response_format"):
        if body.get(name) is not None:
            document[name] = body[name]
    known = {*PARAMS, *document, "max_completion_tokens", "model", "stream"}
    for name in sorted(set(body) - known):
        conversion.note(place, f"'{name}' was not carried over")
    return document | {"params": params}


def from_promptfoo(document: Mapping[str, Any]) -> Converted:
    """Convert a promptfoo configuration: every prompt with every test is a case."""
    conversion = Conversion("promptfoo")
    for name in sorted(
        str(n) for n in set(document) - {"prompts", "tests", "defaultTest", "description"}
    ):
        conversion.note(name, "was not carried over")
    prompts = list(_promptfoo_prompts(conversion, document.get("prompts")))
    tests = _part(conversion, "tests", document.get("tests"), list)
    default = _part(conversion, "defaultTest", document.get("defaultTest"), dict)
    for (prompt_no, prompt), (test_no, test) in itertools.product(
        enumerate(prompts, start=1), enumerate(tests, start=1)
    ):
        place = f"tests[{test_no - 1}]"
        if not isinstance(test, dict):
            conversion.note(place, "left out: refers to another file or is no object")
            continue
        for name in sorted(str(n) for n in {*test, *default} - {"vars", "assert", "description"}):
            conversion.note(place, f"'{name}' was not carried over")
        name = str(test.get("description") or f"test-{test_no:03d}")
        identity = name if len(prompts) == 1 else f"{name}-prompt-{prompt_no}"
        asserts = [
            entry
            for part in (default, test)
            for entry in _part(conversion, f"{place}.assert", part.get("assert"), list)
        ]
        variables = {
            name: value
            for part in (default, test)
            for name, value in _part(conversion, f"{place}.vars", part.get("vars"), dict).items()
        }
        for values in _combinations(variables):
            text = _fill(prompt, values)
            if _LEFT_OVER.search(text):
                left = _LEFT_OVER.findall(text)[0]
                conversion.note(place, f"left out: the template keeps {left!r}")
                continue
            checks = [
                check
                for entry in asserts
                for check in _promptfoo_checks(conversion, place, entry, values)
            ]
            conversion.add(
                place, {"id": identity, "messages": _as_messages(text), "checks": checks}
            )
    return conversion.result()


def _part(conversion: Conversion, place: str, value: Any, kind: type) -> Any:
    """Return a list or object of the file, empty when it is missing or refers to another file."""
    if value is not None and not isinstance(value, kind):
        conversion.note(place, "was not carried over: it is not written in this file")
    return value if isinstance(value, kind) else kind()


def _promptfoo_prompts(conversion: Conversion, prompts: Any) -> Iterator[str]:
    prompts = [prompts] if isinstance(prompts, str | dict) else prompts
    prompts = _part(conversion, "prompts", prompts, list)
    for number, prompt in enumerate(prompts):
        text = prompt.get("raw") if isinstance(prompt, dict) else prompt
        if not isinstance(text, str) or text.startswith("file://"):
            conversion.note(f"prompts[{number}]", "left out: its text is not in this file")
        else:
            yield text


def _combinations(variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Expand list values the way promptfoo does: one case per combination."""
    choices = [value if isinstance(value, list) else [value] for value in variables.values()]
    for values in itertools.product(*choices):
        yield dict(zip(variables, values, strict=True))


def _fill(template: str, values: Mapping[str, Any]) -> str:
    def value_of(match: re.Match[str]) -> str:
        value = values.get(match[1])
        if value is None:
            return match[0]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _VARIABLE.sub(value_of, template)


def _as_messages(text: str) -> list[Any]:
    """A prompt that is a JSON list is a chat already."""
    if text.lstrip().startswith("["):
        try:
            messages = json.loads(text)
        except ValueError:
            messages = None
        if isinstance(messages, list) and all(isinstance(m, dict) for m in messages):
            return messages
    return [{"role": "user", "content": text}]


def _promptfoo_checks(
    conversion: Conversion, place: str, entry: Any, values: Mapping[str, Any]
) -> list[dict[str, Any]]:
    kind = entry.get("type") if isinstance(entry, dict) else None
    value = entry.get("value") if isinstance(entry, dict) else None
    if isinstance(value, str):
        value = _fill(value, values)
    texts = [str(text) for text in value] if isinstance(value, list) else [str(value)]
    if value is None and kind != "is-json":
        conversion.note(place, f"assertion of type '{kind}' without a value was not carried over")
        return []
    match kind:
        case "contains" | "icontains" | "contains-all" | "icontains-all":
            return [{"type": "contains", "text": text} for text in texts]
        case "contains-any" | "icontains-any":
            pattern = "|".join(re.escape(text) for text in texts)
            return [{"type": "regex", "pattern": pattern, "ignore_case": kind.startswith("i")}]
        case "equals" if isinstance(value, str):
            return [{"type": "regex", "pattern": rf"\A\s*{re.escape(value)}\s*\Z"}]
        case "starts-with":
            return [{"type": "regex", "pattern": rf"\A\s*{re.escape(texts[0])}"}]
        case "regex":
            return [{"type": "regex", "pattern": texts[0]}]
        case "is-json":
            return [
                {"type": "json_schema", "schema": value}
                if isinstance(value, dict)
                else {"type": "json"}
            ]
    conversion.note(place, f"assertion of type '{kind}' was not carried over")
    return []


def from_inspect(records: Iterable[Any]) -> Converted:
    """Convert samples of Inspect: the target becomes a fact, several targets one fact of alternatives."""
    conversion = Conversion("inspect")
    for number, record in enumerate(records, start=1):
        place = f"sample {number}"
        if not isinstance(record, dict) or not isinstance(record.get("input"), str | list):
            conversion.note(place, "left out: no object with an 'input'")
            continue
        for name in sorted(set(record) - {"input", "target", "id", "choices"}):
            if record[name]:
                conversion.note(place, f"'{name}' was not carried over")
        identity = record.get("id")
        document: dict[str, Any] = {
            "id": f"sample-{number:04d}" if identity is None or identity == "" else str(identity),
            "messages": _inspect_messages(record),
        }
        conversion.add(place, document | _inspect_target(conversion, place, record))
    return conversion.result()


def _letters(record: Mapping[str, Any]) -> dict[str, str]:
    choices = record.get("choices")
    choices = choices if isinstance(choices, list) else []
    return {chr(ord("A") + number): str(choice) for number, choice in enumerate(choices)}


def _inspect_messages(record: Mapping[str, Any]) -> list[Any]:
    given = record["input"]
    messages: list[Any] = (
        [{"role": "user", "content": given}]
        if isinstance(given, str)
        else [
            {k: v for k, v in message.items() if k in {"role", "content", "tool_call_id"}}
            if isinstance(message, dict)
            else message
            for message in given
        ]
    )
    options = "".join(f"\n{letter}) {text}" for letter, text in _letters(record).items())
    last = messages[-1] if messages else None
    if options and isinstance(last, dict) and isinstance(last.get("content"), str):
        messages[-1] = last | {"content": last["content"] + options}
    return messages


def _inspect_target(
    conversion: Conversion, place: str, record: Mapping[str, Any]
) -> dict[str, Any]:
    target = record.get("target") or []
    letters = _letters(record)
    targets = [
        letters.get(str(t), str(t)) for t in (target if isinstance(target, list) else [target])
    ]
    short = [t for t in targets if t.strip() and len(t) <= LONGEST_FACT_CHARACTERS]
    if len(short) < len(targets):
        conversion.note(place, "a target that is empty or a whole text makes no fact; left out")
    if not short:
        return {}
    if any("|" in t for t in short):
        pattern = "|".join(re.escape(t) for t in short)
        return {"checks": [{"type": "regex", "pattern": pattern, "ignore_case": True}]}
    return {"facts": ["|".join(short)]}
