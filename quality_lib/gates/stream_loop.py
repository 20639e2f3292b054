"""Says from which length on a repeated unit is a loop and no table, ruler or wish. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from quality_lib.gates.layout import is_ruler
from quality_lib.gates.periodic import Run, closing_run
from quality_lib.gates.stream_limits import StreamLimits
from quality_lib.gates.wishes import Wishes

LONG_UNIT = 50
"""Characters from which a unit is a sentence, of which fewer copies are a loop."""

_ROW_START = frozenset("|-*+#>([{\"'<")
_ROW_END = frozenset(";,|{}[]()\"'>")
_FILLER = re.compile(r"\W*(?:null|true|false|none|nan|inf|undefined|nil)\W+", re.IGNORECASE)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Need:
    """How often a unit must come, and how long the loop must be, before it is one."""

    repeats: int
    characters: int
    kind: str


def closing_loop(
    tail: str, need: Callable[[str], Need | None], max_period: int
) -> tuple[Run, Need] | None:
    """Return the run that ``tail`` ends with if it is as long as its unit ``need``s.

    ``need`` returns None for what may repeat without end.
    """
    run = closing_run(tail, max_period)
    if run is None:
        return None
    wanted = need(run.unit)
    if wanted is None or run.copies < wanted.repeats or run.length < wanted.characters:
        return None
    return run, wanted


class LoopNeeds:
    """The length from which a unit is a loop, by what kind of text it is and what was asked for."""

    def __init__(self, limits: StreamLimits, asked: str = "") -> None:
        self._limits = limits
        self._asked = asked

    def of(self, unit: str) -> Need | None:
        """Return the need of a unit outside code fences; None for blanks, which are judged apart."""
        need = self._by_kind(unit)
        if need is None or not self._is_asked_for(unit):
            return need
        if self._wishes.copies:
            repeats = max(need.repeats, self._wishes.copies * 5 // 4 + 2)
            return Need(repeats, need.characters, need.kind)
        return self.lenient(unit) if self._wishes.repeats else need

    def lenient(self, unit: str) -> Need | None:
        """Return the need of a unit inside a code fence, or of one that was asked for."""
        if unit.isspace():
            return None
        return Need(self._limits.loop_repeats, self._limits.fenced_loop_characters, "lenient")

    @cached_property
    def _wishes(self) -> Wishes:
        return Wishes(self._asked)

    @cached_property
    def _asked_words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self._wishes.text.casefold()))

    def _is_asked_for(self, unit: str) -> bool:
        words = _WORD.findall(unit.casefold())
        # The stretch may start inside a word, so the first and last may be parts of one.
        inner = words[1:-1] if len(words) > 2 else words
        return bool(words) and all(word in self._asked_words for word in inner)

    def _by_kind(self, unit: str) -> Need | None:
        limits = self._limits
        if unit.isspace():
            return None
        if not any(map(str.isalpha, unit)):
            is_mark = len(unit) == 1 and unicodedata.category(unit)[0] == "P"
            if is_mark and not is_ruler(unit):
                return Need(limits.loop_repeats, limits.mark_run_characters, "mark")
            return Need(limits.loop_repeats, limits.structure_loop_characters, "structure")
        if len(set(unit)) <= 2 and not any(map(str.isspace, unit)):
            return Need(limits.loop_repeats, limits.plain_run_characters, "plain")
        if _is_rows(unit) or _is_data(unit):
            return Need(limits.loop_repeats, limits.row_loop_characters, "rows")
        if len(unit) >= LONG_UNIT:
            return Need(limits.long_loop_repeats, limits.long_loop_characters, "words")
        return Need(limits.loop_repeats, limits.loop_characters, "words")


def _is_rows(unit: str) -> bool:
    """Whether most lines look like table rows, list items or code."""
    if "\n" not in unit:
        return False
    lines = [line.strip() for line in (unit + unit).split("\n")[1:-1]]
    lines = [line for line in lines if line]
    rows = sum(
        line[0] in _ROW_START or line[0].isdigit() or line[-1] in _ROW_END or "\t" in line
        for line in lines
    )
    return 2 * rows > len(lines)


def _is_data(unit: str) -> bool:
    """Whether it looks like a cell of minified JSON, or of an array of nulls."""
    if _FILLER.fullmatch(unit):
        return True
    if not unit.isascii() or any(map(str.isspace, unit)):
        return False
    return sum(not sign.isalnum() for sign in unit) >= 0.15 * len(unit)
