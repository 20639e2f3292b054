"""The few answers that a report shows: the worst, and not all of one kind. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from quality_lib.exchanges.exchange import Exchange
from quality_lib.exchanges.row import Facts
from quality_lib.gates.gate import Level
from quality_lib.records import Outcome, Verdict
from quality_lib.scoring.tally import Score

MOST_SHOWN = 20
MOST_OF_A_KIND = 5
LONGEST_PROMPT = 1500
LONGEST_TEXT = 4000
LONGEST_SENTENCE = 400
LONGEST_PARAMS = 300
Mask = Callable[[str], str]


@dataclass(frozen=True)
class ShownReason:
    """Why an answer is bad."""

    code: str
    outcome: Outcome
    sentence: str


@dataclass(frozen=True)
class ShownRow:
    """One answer as a report shows it: masked, and cut to size."""

    id: str
    started_at: str
    model: str
    instance: str
    snapshot_id: str
    stratum: str
    outcome: Outcome
    reasons: tuple[ShownReason, ...]
    prompt: str
    text: str
    finish_reason: str
    params: str
    key: str
    """The log object it was read from, and the line in it."""

    @property
    def kind(self) -> str:
        """Return the leading reason, by which shown answers are spread."""
        return self.reasons[0].code if self.reasons else ""


def shown_row(
    exchange: Exchange, facts: Facts, score: Score, stratum: str, key: str, mask: Mask
) -> ShownRow:
    """Return what a report may show of an exchange. Everything a person wrote is masked before it is cut."""
    answer = exchange.answer
    text = "" if answer is None else _answer_text(answer)
    return ShownRow(
        id=exchange.id,
        started_at=exchange.started_at,
        model=facts.model or facts.model_served,
        instance=facts.backend or exchange.endpoint,
        snapshot_id=exchange.snapshot_id,
        stratum=stratum,
        outcome=score.outcome,
        reasons=tuple(
            ShownReason(v.reason, v.outcome, cut(mask(v.sentence), LONGEST_SENTENCE))
            for v in _bad(score)
        ),
        prompt=cut(mask(exchange.last_asked), LONGEST_PROMPT),
        text=cut(mask(text), LONGEST_TEXT),
        finish_reason=(answer.finish_reason or "") if answer else "",
        params=cut(mask(_params(exchange.params)), LONGEST_PARAMS),
        key=key,
    )


def _answer_text(answer: Any) -> str:
    calls = [f"→ {call.name}({call.arguments})" for call in answer.tool_calls]
    return "\n".join([*([answer.text] if answer.text else []), *calls])


def _params(params: Any) -> str:
    plain = {k: v for k, v in params.items() if isinstance(v, int | float | str | bool)}
    return ", ".join(f"{k}={v}" for k, v in sorted(plain.items()))


def cut(text: str, longest: int) -> str:
    """Keep head and tail of a long text, for answers go bad at their end, in storable characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")  # JSON carries half surrogate pairs
    if len(text) <= longest:
        return text
    head = longest * 2 // 3
    tail = longest - head
    return f"{text[:head]}\n⟨… {len(text) - longest:,} characters …⟩\n{text[-tail:]}"


class Worst:
    """Keeps the answers to show; memory is bounded by ``MOST_OF_A_KIND`` a reason."""

    def __init__(self) -> None:
        self._kept: dict[str, list[ShownRow]] = {}

    def wants(self, score: Score) -> bool:
        """Whether a row of this score could be shown: spares masking those that cannot."""
        if score.outcome not in {Outcome.FAILED, Outcome.SUSPECT}:
            return False
        bad = _bad(score)
        kept = self._kept.get(bad[0].reason, [])
        failed = sum(v.outcome is Outcome.FAILED for v in bad)
        return len(kept) < MOST_OF_A_KIND or (failed, len(bad)) > min(map(_rank, kept))

    def add(self, row: ShownRow) -> None:
        """Offer one row."""
        kept = self._kept.setdefault(row.kind, [])
        kept.append(row)
        kept.sort(key=lambda r: (tuple(-n for n in _rank(r)), r.started_at, r.id))
        del kept[MOST_OF_A_KIND:]

    def include(self, rows: Iterable[ShownRow]) -> None:
        """Offer what another partition has kept."""
        for row in rows:
            self.add(row)

    @property
    def rows(self) -> tuple[ShownRow, ...]:
        """Return what to show: the worst of every reason first, then the second worst, and so on."""
        ranked = sorted(
            self._kept.values(), key=lambda rows: (tuple(-n for n in _rank(rows[0])), rows[0].kind)
        )
        rounds = [rows[n] for n in range(MOST_OF_A_KIND) for rows in ranked if n < len(rows)]
        rounds.sort(key=lambda r: r.outcome is not Outcome.FAILED)  # stable: rounds stay in order
        return tuple(rounds[:MOST_SHOWN])


def _rank(row: ShownRow) -> tuple[int, int]:
    failed = sum(r.outcome is Outcome.FAILED for r in row.reasons)
    return failed, len(row.reasons)


def _bad(score: Score) -> list[Verdict]:
    """Return what speaks against an exchange: the answer's faults before the request's, the worst first."""
    bad = [
        g for g in score.judgement.gates if g.verdict.outcome in {Outcome.FAILED, Outcome.SUSPECT}
    ]
    bad.sort(key=lambda g: (g.level < Level.STREAM, g.verdict.outcome is not Outcome.FAILED))
    return [g.verdict for g in bad]
