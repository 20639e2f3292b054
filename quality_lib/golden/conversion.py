"""Gathers the cases and the notes of one conversion. Pure."""

from __future__ import annotations

import itertools
import re
import zlib
from typing import Any

from quality_lib.golden.case import GoldenCase
from quality_lib.golden.check_spec import check_flaws
from quality_lib.golden.parse import read_case

Converted = tuple[tuple[GoldenCase, ...], tuple[str, ...]]

SEED_MODULUS = 2**31


class Conversion:
    """Gathers sound cases and the notes on everything else; ids are made unique on the way."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._cases: list[GoldenCase] = []
        self._notes: list[str] = []
        self._ids: set[str] = set()

    def note(self, place: str, text: str) -> None:
        """Keep one sentence about what was lost or changed at a place of the foreign file."""
        note = f"{place}: {text}"
        if note not in self._notes:
            self._notes.append(note)

    def add(self, place: str, document: dict[str, Any]) -> None:
        """Take a case in the form of its JSON line; what is wrong with it becomes a note."""
        document = document | {"id": self._free_id(place, document["id"])}
        self._drop_bad_checks(place, document)
        self._give_seed(place, document)
        case = read_case(document, f"{self._form} {place}")
        if isinstance(case, GoldenCase):
            self._ids.add(case.id)
            self._cases.append(case)
        else:
            for problem in case:
                self.note(place, f"case left out: field '{problem.field}' {problem.problem}")

    def result(self) -> Converted:
        """Return the sound cases and the notes."""
        return tuple(self._cases), tuple(self._notes)

    def _free_id(self, place: str, wanted: str) -> str:
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip("-._")[:100] or f"{self._form}-case"
        free = next(
            name
            for name in itertools.chain([slug], (f"{slug}-{n}" for n in itertools.count(2)))
            if name not in self._ids
        )
        if free != wanted:
            self.note(place, f"the id {wanted!r} became '{free}'")
        return free

    def _drop_bad_checks(self, place: str, document: dict[str, Any]) -> None:
        sound = []
        for check in document.get("checks", []):
            flaws = list(check_flaws(check, "check"))
            sound += [] if flaws else [check]
            for flaw in flaws:
                self.note(place, f"check left out: {flaw.field} {flaw.problem}")
        document["checks"] = sound

    def _give_seed(self, place: str, document: dict[str, Any]) -> None:
        params = document.setdefault("params", {})
        temperature = params.get("temperature", 0)
        is_sampled = isinstance(temperature, int | float) and temperature > 0
        if is_sampled and params.get("seed") is None:
            params["seed"] = zlib.crc32(document["id"].encode()) % SEED_MODULUS
            self.note(place, f"sampled without a seed; it got the seed {params['seed']}")
