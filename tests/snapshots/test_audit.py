from __future__ import annotations

from datetime import UTC, datetime

import pytest

from quality_lib.errors import BadInput
from quality_lib.snapshots.audit import Action, AuditEntry, Result, entry_from_json

ENTRY = AuditEntry(
    datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "Zoë",
    Action.ALIAS_SET,
    "ab",
    {"alias": "serving"},
)


def test_an_entry_comes_back() -> None:
    assert entry_from_json(ENTRY.to_json(), Result.DONE) == ENTRY


@pytest.mark.parametrize("text", ["", "[]", "{}", ENTRY.to_json().replace("alias_set", "sold")])
def test_a_foreign_text_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match="audit trail"):
        entry_from_json(text, Result.DONE)
