"""One line of JSON per judged record, written fast: most gates say the same of most records."""

from __future__ import annotations

import json
from typing import Any

from quality_lib.commands.output import plain
from quality_lib.gates.gate import GateVerdict
from quality_lib.jobs.check import Checked
from quality_lib.records import Verdict

MAX_KEPT = 1024
"""Encoded verdicts that are kept; gates say a pass with the same object each time."""


class CheckLines:
    """Encodes judged records; it remembers the text of verdicts without evidence."""

    def __init__(self) -> None:
        # The verdict is kept beside its text, so its identity cannot pass to another one.
        self._kept: dict[int, tuple[Verdict, str, bytes]] = {}

    def line(self, checked: Checked) -> bytes:
        """Return the record's object and a line end, in UTF-8."""
        gates = b", ".join([self._gate(said) for said in checked.judgement.gates])
        return (b'{"id": %b, "verdict": %b, "reasons": %b, "gates": [%b], "normalised": %b}\n') % (
            _encoded(checked.id),
            _encoded(checked.outcome.value),
            _encoded(list(checked.reasons)),
            gates,
            b"null" if checked.normalised is None else _encoded(checked.normalised),
        )

    def _gate(self, said: GateVerdict) -> bytes:
        kept = self._kept.get(id(said.verdict))
        if kept is not None and kept[1] == said.gate:
            return kept[2]
        verdict = said.verdict
        text = _encoded({
            "gate": said.gate,
            "level": int(said.level),
            "outcome": verdict.outcome.value,
            "reason": verdict.reason,
            "sentence": verdict.sentence,
            "evidence": verdict.evidence,
        })
        if not verdict.evidence and len(self._kept) < MAX_KEPT:
            self._kept[id(verdict)] = (verdict, said.gate, text)
        return text


def _encoded(value: Any) -> bytes:
    """Encode a value; odd evidence and lone surrogates must not stop the run."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):  # UnicodeEncodeError is a ValueError
        return json.dumps(plain(value), default=str).encode()
