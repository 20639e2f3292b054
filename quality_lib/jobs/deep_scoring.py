"""What a deep pass asks models of sampled answers: similarity, reference perplexity, replay."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from quality_lib.adapters.model.embeddings import SentenceSimilarity
from quality_lib.adapters.model.reference_model import ReferenceModel
from quality_lib.adapters.vllm.replay_client import ReplayClient, replay_all
from quality_lib.exchanges.exchange import Exchange
from quality_lib.exchanges.masking import mask_text
from quality_lib.exchanges.sampling import Sampled
from quality_lib.gates.answer_view import shared_view
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.gate import Gate, GateVerdict, judge
from quality_lib.gates.recent_answers import LEAST_RECENT, Embed, recent_meaning
from quality_lib.golden.ports import Progress
from quality_lib.jobs.clock import Note
from quality_lib.jobs.reference_reading import REFERENCE_GATES, ReferenceGates, alike_of
from quality_lib.scoring.replay import (
    Replayed,
    ReplayTotals,
    Skip,
    hold_against,
    skipped,
    totals_of,
)
from quality_lib.settings import ServiceSettings, Settings, home, secret

_NOT_THE_QUESTION = frozenset({"seed", "user", "request_id", "stream", "stream_options"})

MOST_RECENT = 5
"""Earlier answers that one is compared with."""


@dataclass(frozen=True)
class Deep:
    """What models said of a sample; without any, what a quick pass has."""

    rows: Sequence[Sampled]
    asked: tuple[Exchange, ...] | None = None
    """The exchanges with their recent answers; None: as they were read."""
    verdicts: tuple[tuple[GateVerdict, ...], ...] = ()
    replay: ReplayTotals | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Return the exchanges to judge, one a row."""
        return self.asked or tuple(sampled.row.exchange for sampled in self.rows)

    def verdicts_of(self, number: int) -> tuple[GateVerdict, ...]:
        """Return what models said of one row."""
        return self.verdicts[number] if self.verdicts else ()


def ask_models(
    settings: Settings,
    service: ServiceSettings,
    rows: Sequence[Sampled],
    bounds: LearnedBounds,
    partitions: int,
    *,
    progress: Progress,
    note: Note,
) -> Deep:
    """Ask similarity, reference model and replay of every row they fit; what is off is noted.

    That nothing was replayed is said by the verdict (``judge_replay``).

    Raises:
        OutsideFailure: the reference endpoint does not answer.
    """
    exchanges = with_recent(tuple(sampled.row.exchange for sampled in rows))
    notes: list[str] = []
    gates: list[Gate] = []
    view = shared_view()
    if service.scoring.embeddings:
        note("comparing recent answers to the same prompts")
        gates.append(
            recent_meaning(
                service.gates.output, bounds, view, _embedder(settings.embedding_model, exchanges)
            )
        )
    else:
        notes.append("Recent answers were not compared (scoring.embeddings is off).")
    if service.scoring.reference_model:
        note("reading the answers with the reference model")
        gates += reference_gates(settings, service, exchanges, bounds, progress, note)
    else:
        notes.append("No perplexity was taken (scoring.reference_model is null).")
    verdicts = tuple(judge(exchange, gates).gates for exchange in exchanges)
    replay = None
    if service.scoring.replay_endpoint:
        note(f"replaying answers on {service.scoring.replay_endpoint}")
        replay = replay_answers(service, exchanges, rows, partitions, progress)
    return Deep(rows, exchanges, verdicts, replay, tuple(notes))


def _embedder(model: str, exchanges: Sequence[Exchange]) -> Embed:
    """Embed every text that will be compared, in one batch; the model loads only when there are any."""
    texts: list[str] = []
    for exchange in exchanges:
        recent = [text for text in exchange.recent_texts if text.strip()]
        if len(recent) >= LEAST_RECENT and exchange.answer is not None and exchange.answer.text:
            texts += [exchange.answer.text, *recent]
    vectors = SentenceSimilarity(model).vectors(texts) if texts else {}
    return lambda wanted: [vectors[text] for text in wanted]


def reference_gates(
    settings: Settings,
    service: ServiceSettings,
    exchanges: Sequence[Exchange],
    bounds: LearnedBounds,
    progress: Progress,
    note: Note,
) -> tuple[Gate, ...]:
    """Read the answers with the reference model, in batches, and return the gates that judge it."""
    scoring = service.scoring
    model = ReferenceModel(
        scoring.reference_model or "",
        home() / "models",
        memory_mb=scoring.reference_memory_mb,
        say=note,
        progress=progress,
    )
    names = [name for name in REFERENCE_GATES if name not in service.gates.disabled]
    alike = None
    if scoring.embeddings and "relevance" in names:
        alike = alike_of(settings.embedding_model)
    return ReferenceGates(service.gates.output, bounds, alike, names)(model, exchanges)


def with_recent(exchanges: Sequence[Exchange]) -> tuple[Exchange, ...]:
    """Give every exchange the other answers to the same prompt and parameters, newest first."""
    groups: dict[str, list[Exchange]] = {}
    for exchange in exchanges:
        if exchange.answer is not None and exchange.answer.text:
            groups.setdefault(_question(exchange), []).append(exchange)
    for group in groups.values():
        group.sort(key=lambda e: (e.started_at, e.id), reverse=True)
    return tuple(_recent(exchange, groups.get(_question(exchange), [])) for exchange in exchanges)


def _recent(exchange: Exchange, group: Sequence[Exchange]) -> Exchange:
    texts = [e.answer.text for e in group if e is not exchange and e.answer and e.answer.text]
    if exchange.recent_texts or not texts:
        return exchange
    return dataclasses.replace(exchange, recent_texts=tuple(texts[:MOST_RECENT]))


def _question(exchange: Exchange) -> str:
    """Return what makes two requests the same: prompt, tools, format and parameters but the seed."""
    params = {k: v for k, v in exchange.params.items() if k not in _NOT_THE_QUESTION}
    asked = [
        exchange.messages,
        exchange.prompt,
        params,
        exchange.tools,
        exchange.response_format,
    ]
    text = json.dumps(asked, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def replay_answers(
    service: ServiceSettings,
    exchanges: Sequence[Exchange],
    rows: Sequence[Sampled],
    partitions: int,
    progress: Progress,
) -> ReplayTotals:
    """Replay a fixed choice of the answers that have token ids on the reference."""
    scoring = service.scoring
    endpoint = scoring.replay_endpoint or ""
    known, total = _with_whole_prompt(exchanges, rows)
    chosen, lacking = _replayable(known, -(-scoring.replay_rows // partitions))

    async def work() -> list[Replayed | Skip]:
        async with ReplayClient(
            endpoint,
            scoring.replay_model or service.model,
            timeout_s=service.golden.request_timeout_s,
            api_key=secret(scoring.replay_api_key_env),
        ) as client:
            return await replay_all(client, chosen, progress)

    if lacking:
        total += ReplayTotals(skipped={Skip.NO_TOKENS.value: lacking})
    for exchange, said in zip(chosen, asyncio.run(work()), strict=True):
        if isinstance(said, Skip):
            total += skipped(said)
        else:
            total += totals_of(hold_against(exchange, said, scoring.replay, _mask), scoring.replay)
    return total


def _with_whole_prompt(
    exchanges: Sequence[Exchange], rows: Sequence[Sampled]
) -> tuple[list[Exchange], ReplayTotals]:
    """Return the answers whose prompt the log holds as the server read it, and count the others.

    Masking changes a prompt, and a log may keep its hash alone: such a row would only take the place of
    one that can be replayed.
    """
    known, left_out = [], ReplayTotals()
    for exchange, sampled in zip(exchanges, rows, strict=True):
        has_text = exchange.messages is not None or exchange.prompt is not None
        if exchange.prompt_token_ids or (has_text and "request" not in sampled.row.facts.masked):
            known.append(exchange)
        elif exchange.answer is not None and exchange.answer.token_ids:
            left_out += skipped(Skip.MASKED if has_text else Skip.NO_PROMPT)
    return known, left_out


def _replayable(exchanges: Sequence[Exchange], most: int) -> tuple[list[Exchange], int]:
    """Return the answers to replay, and how many lacked token ids when too few had them."""
    having = [e for e in exchanges if e.answer is not None and e.answer.token_ids]
    having.sort(key=lambda e: hashlib.sha256(e.id.encode()).digest())
    return having[:most], max(0, min(most, len(exchanges)) - len(having))


def _mask(text: str) -> str:
    return mask_text(text).text
