"""Judges exchanges one by one with the gates of levels 1, 2 and 4."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from quality_lib.adapters.logs.exchange_files import BadLine
from quality_lib.errors import EXIT_BAD_INPUT, EXIT_BAD_QUALITY, EXIT_GOOD, EXIT_INCONCLUSIVE
from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.catalogue import WITHOUT_A_MODEL, gates_of
from quality_lib.gates.gate import Gate, GateVerdict, Judgement, Level, judge
from quality_lib.gates.input_accounting import TokenizerFacts
from quality_lib.gates.input_cleaning import cleaned_prompt
from quality_lib.gates.input_scope import Similarity
from quality_lib.gates.input_size import CountTokens
from quality_lib.jobs.reference_reading import ReferenceReader, pair_of
from quality_lib.records import Outcome, Verdict
from quality_lib.settings import GateSettings

LEVELS = WITHOUT_A_MODEL
"""Level 3 needs the stream; it is judged inside the server."""
BAD_LINE = "bad_line"


@dataclass(frozen=True)
class CheckGates:
    """The gates asked of a request, and those asked of a finished answer besides."""

    request: tuple[Gate, ...]
    answer: tuple[Gate, ...]


@dataclass(frozen=True)
class Checked:
    """What was found about one record."""

    id: str
    judgement: Judgement
    normalised: str | None = None
    """The cleaned prompt of a request without an answer, where cleaning changes it."""
    bad_line: BadLine | None = None

    @property
    def outcome(self) -> Outcome:
        """Return the outcome of all gates together."""
        return self.judgement.outcome

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return the codes behind an outcome worse than a pass."""
        return (BAD_LINE,) if self.bad_line is not None else self.judgement.reasons


@dataclass
class CheckCounts:
    """What a run has seen; memory does not grow with the number of records."""

    by_outcome: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    by_reason: dict[tuple[str, str], int] = field(default_factory=dict)
    """By outcome and reason code, of gates that did not pass."""
    bad_lines: int = 0

    @property
    def records(self) -> int:
        """Return how many records were seen, bad lines included."""
        return sum(self.by_outcome.values())

    def add(self, checked: Checked) -> None:
        """Count one record."""
        self.by_outcome[checked.outcome] += 1
        self.bad_lines += checked.bad_line is not None
        if checked.outcome is not Outcome.PASSED:
            for said in checked.judgement.gates:
                verdict = said.verdict
                if verdict.outcome in _TOLD or verdict.reason in _COUNTED:
                    key = (verdict.outcome.value, verdict.reason)
                    self.by_reason[key] = self.by_reason.get(key, 0) + 1

    @property
    def exit_code(self) -> int:
        """Return 2 with a bad line, 1 with a failed record, 4 when nothing could be judged, else 0.

        SUSPECT alone is 0: it asks for a look, and a healthy log holds a few.
        """
        if self.bad_lines:
            return EXIT_BAD_INPUT
        if self.by_outcome[Outcome.FAILED]:
            return EXIT_BAD_QUALITY
        if self.by_outcome[Outcome.UNJUDGED] == self.records:
            return EXIT_INCONCLUSIVE
        return EXIT_GOOD


_TOLD = {Outcome.FAILED, Outcome.SUSPECT}
_COUNTED = {BAD_LINE, "gate_crashed"}


def check_gates(
    settings: GateSettings,
    *,
    bounds: LearnedBounds | None = None,
    levels: Collection[int] = LEVELS,
    names: Collection[str] = (),
    count_tokens: CountTokens | None = None,
    facts: TokenizerFacts | None = None,
    similarity: Similarity | None = None,
) -> CheckGates:
    """Return the gates of a service; ``names`` empty: all that are not switched off."""
    made = gates_of(
        settings,
        bounds or LearnedBounds(),
        [level for level in LEVELS if level in levels],
        count_tokens=count_tokens,
        facts=facts,
        similarity=similarity,
    )
    chosen = [gate for gate in made if not names or gate.name in names]
    return CheckGates(
        tuple(gate for gate in chosen if gate.level is not Level.OUTPUT),
        tuple(gate for gate in chosen if gate.level is Level.OUTPUT),
    )


def check(
    records: Iterable[Exchange | BadLine],
    gates: CheckGates,
    reader: ReferenceReader | None = None,
) -> Iterator[Checked]:
    """Judge every record in order; a bad line is UNJUDGED and passed on.

    With a reader records are taken in groups, and it reads the answers that no gate failed.
    """
    numbered = enumerate(records, start=1)
    if reader is None:
        for number, record in numbered:
            yield _one(number, record, gates)
        return
    while group := list(islice(numbered, reader.together)):
        yield from _read_too([(record, _one(n, record, gates)) for n, record in group], reader)


def _one(number: int, record: Exchange | BadLine, gates: CheckGates) -> Checked:
    if isinstance(record, BadLine):
        return _unreadable(record, number)
    is_request = record.answer is None
    asked = gates.request if is_request else gates.request + gates.answer
    return Checked(
        id=record.id or f"#{number}",
        judgement=judge(record, asked),
        normalised=cleaned_prompt(record) if is_request else None,
    )


def _read_too(
    group: Sequence[tuple[Exchange | BadLine, Checked]], reader: ReferenceReader
) -> list[Checked]:
    """Add what the reader says of the answers that have not failed yet: a failed one stays failed."""
    wanted = {
        place: record
        for place, (record, checked) in enumerate(group)
        if not isinstance(record, BadLine)
        and checked.outcome is not Outcome.FAILED
        and pair_of(record) is not None
    }
    said = dict(zip(wanted, reader.verdicts(list(wanted.values())), strict=True))
    return [_with(checked, said.get(place, ())) for place, (_, checked) in enumerate(group)]


def _with(checked: Checked, said: Sequence[GateVerdict]) -> Checked:
    before = checked.judgement
    found = [before.outcome, *(one.verdict.outcome for one in said)]
    outcome = max(found, key=_FROM_GOOD_TO_BAD.index)
    return dataclasses.replace(checked, judgement=Judgement(outcome, (*before.gates, *said)))


_FROM_GOOD_TO_BAD = (Outcome.UNJUDGED, Outcome.PASSED, Outcome.SUSPECT, Outcome.FAILED)


def _unreadable(bad: BadLine, number: int) -> Checked:
    evidence = {"line": bad.line, "field": bad.error.field}
    verdict = Verdict(Outcome.UNJUDGED, BAD_LINE, str(bad.error), evidence)
    said = GateVerdict("record", Level.INPUT, verdict)
    judgement = Judgement(Outcome.UNJUDGED, (said,))
    return Checked(bad.id or f"#{number}", judgement, bad_line=bad)
