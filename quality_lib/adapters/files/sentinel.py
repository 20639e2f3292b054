"""The sentinel set as a file: JSON, or a text of one case id a line for people to edit."""

from __future__ import annotations

import json
from pathlib import Path

from quality_lib.adapters.files.run_folder import keep_whole
from quality_lib.errors import BadInput, DigestMismatch
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.reading import scored_keys
from quality_lib.golden.sentinel import Sentinel

SCHEMA = 1


def write_sentinel(path: Path, sentinel: Sentinel) -> None:
    """Write a sentinel set; a name that ends with ``.json`` gets JSON, any other a text."""
    if path.suffix == ".json":
        content = json.dumps(
            {
                "schema": SCHEMA,
                "golden_digest": sentinel.golden_digest,
                "reference_id": sentinel.reference_id,
                "cases": list(sentinel.case_ids),
                "why": {pick.case_id: pick.why for pick in sentinel.picks},
            },
            ensure_ascii=False,
            indent=1,
        )
    else:
        content = "".join(f"{pick.case_id}  # {pick.why}\n" for pick in sentinel.picks)
    keep_whole(path, content.encode())


def read_sentinel(path: Path, baseline: Baseline) -> tuple[str, ...]:
    """Return the case ids of a sentinel set.

    Raises:
        BadInput: no such file, no list of cases, or a case that the baseline cannot score.
        DigestMismatch: it was chosen for another golden set.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"cannot be read: {error}", file=path, fix="choose one with 'quality golden sentinel'"
        ) from error
    ids = _of_json(text, path, baseline) if path.suffix == ".json" else _of_text(text)
    known = {key[0] for key in scored_keys(baseline)}
    for case_id in ids:
        if case_id not in known:
            raise BadInput(f"the baseline has no scored answer of '{case_id}'", file=path)
    if not ids:
        raise BadInput("names no case", file=path)
    return ids


def _of_json(text: str, path: Path, baseline: Baseline) -> tuple[str, ...]:
    try:
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']!r}, this release reads {SCHEMA}")
        digest, ids = data["golden_digest"], tuple(map(str, data["cases"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"is no sentinel set: {error!r}", file=path) from error
    if digest != baseline.golden_digest:
        raise DigestMismatch(
            "was chosen for another golden set",
            file=path,
            fix="choose one anew with 'quality golden sentinel'",
        )
    return tuple(dict.fromkeys(ids))


def _of_text(text: str) -> tuple[str, ...]:
    rows = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return tuple(dict.fromkeys(row for row in rows if row))
