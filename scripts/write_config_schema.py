"""Write ``quality.schema.json`` from the settings, for editors and for CI of configurations."""

from __future__ import annotations

import json
from pathlib import Path

from quality_lib.settings import Settings

TARGET = Path(__file__).parents[1] / "quality.schema.json"


def schema_text() -> str:
    """Return the JSON schema of ``quality.yaml``."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Settings.model_json_schema(),
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(schema_text(), encoding="utf-8")
