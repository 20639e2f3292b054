"""JSON that a model wrote: whether it parses and fits a schema. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jsonschema import exceptions, validators
from jsonschema.protocols import Validator
from referencing import Registry

SNIPPET_CHARACTERS = 80
_KEPT_SCHEMAS = 256


def parse_json(text: str) -> tuple[Any, str | None]:
    """Return the value and None, or None and what is wrong with the text."""
    try:
        return json.loads(text), None
    except (ValueError, RecursionError) as error:
        return None, str(error) or type(error).__name__


def schema_problem(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Say where a value departs from a JSON schema; None when it fits. Follows no outside reference.

    Raises:
        referencing.exceptions.Unresolvable, jsonschema.exceptions.SchemaError: the schema is at fault.
    """
    first = exceptions.best_match(_validator(json.dumps(schema, sort_keys=True)).iter_errors(value))
    if first is None:
        return None
    message = first.message
    if len(message) > SNIPPET_CHARACTERS:
        message = message[: SNIPPET_CHARACTERS - 1] + "…"
    return f"{first.json_path}: {message}"


@lru_cache(maxsize=_KEPT_SCHEMAS)
def _validator(schema_text: str) -> Validator:
    """Make a validator once for every schema; services send the same few again and again."""
    schema = json.loads(schema_text)
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    # The empty registry keeps a "$ref" from being fetched over the network.
    return kind(schema, registry=Registry())
