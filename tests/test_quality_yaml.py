"""The example configuration and its schema keep up with the settings."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from quality_lib.errors import BadInput
from quality_lib.settings import load

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "quality.yaml"


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads((ROOT / "quality.schema.json").read_text(encoding="utf-8"))


def uncommented() -> str:
    """Return the example with every commented-out setting switched on."""
    setting = re.compile(r"^( *)# ( *[a-z0-9_]+:( \S+| \x22.*\x22| [{\[].*[}\]])?)$")
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    shown = (setting.sub(r"\1\2", line) for line in lines)
    return "\n".join(line for line in shown if not line.lstrip().startswith("#")) + "\n"


def test_the_example_loads() -> None:
    settings = load(EXAMPLE)
    assert settings.service("chat").weights == ROOT / ".quality/models/smollm2-135m"


def test_what_the_example_shows_as_defaults_are_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "quality.yaml"
    file.write_text(uncommented(), encoding="utf-8")
    example = tmp_path / "example.yaml"
    example.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    shown, plain = load(file).model_dump(), load(example).model_dump()
    # These have no default worth showing, so the example shows a typical value.
    for settings in (shown, plain):
        service = settings["services"]["chat"]
        del service["api_key_env"], service["image"], settings["alerts"]
    assert shown == plain


def test_the_example_shows_every_setting() -> None:
    def keys(value: Any) -> set[str]:
        if not isinstance(value, dict):
            return set()
        return set(value).union(*map(keys, value.values()))

    everything = keys(load(EXAMPLE).model_dump(mode="json"))
    assert everything - keys(yaml.safe_load(uncommented())) == set()


def test_the_schema_is_in_step_with_the_settings() -> None:
    written = (ROOT / "quality.schema.json").read_text(encoding="utf-8")
    made = runpy.run_path(str(ROOT / "scripts" / "write_config_schema.py"))["schema_text"]()
    assert written == made, "run: .venv/bin/python scripts/write_config_schema.py"


def test_the_schema_accepts_the_example_and_refuses_a_slip(schema: Any) -> None:
    example = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    jsonschema.validate(example, schema)
    example["services"]["chat"]["endpiont"] = "http://127.0.0.1:8000"
    with pytest.raises(jsonschema.ValidationError, match="endpiont"):
        jsonschema.validate(example, schema)


def test_a_slip_is_told_with_file_line_and_field(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    file = tmp_path / "quality.yaml"
    file.write_text(text.replace("cases: builtin:core", "case: builtin:core"), encoding="utf-8")
    with pytest.raises(BadInput) as failure:
        load(file)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "cases: builtin" in row)
    assert (failure.value.line, failure.value.field) == (line, "services.chat.golden.case")
