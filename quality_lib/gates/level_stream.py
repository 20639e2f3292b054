"""Level 3: judges an answer while it is being generated. Pure.

A `StreamMonitor` is fed what arrives, in pieces of any size, and remembers a bounded tail. Looks
at the text are taken every few dozen characters, so the cost per token does not grow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.gates import stream_text, stream_tokens
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.gate import Gate, Level
from quality_lib.gates.stream_limits import StreamLimits
from quality_lib.gates.stream_reasons import REASONS
from quality_lib.gates.stream_text import TextWatch
from quality_lib.gates.stream_tokens import TokenWatch
from quality_lib.gates.stream_windows import WindowWatch, entropy_sides, logprob_sides
from quality_lib.records import Outcome, Verdict

GATE = "stream"
ENGINE_FINISH = "repetition"
"""The finish reason of vLLM's own ``repetition_detection``."""

_RANK = {Outcome.PASSED: 0, Outcome.UNJUDGED: 0, Outcome.SUSPECT: 1, Outcome.FAILED: 2}


class StreamMonitor:
    """Watches one choice of one stream; make one per choice.

    ``asked`` is what the caller wrote: a repetition that was asked for is not a fault.
    """

    def __init__(
        self,
        limits: StreamLimits,
        bounds: LearnedBounds,
        suspicious: frozenset[int] = frozenset(),
        asked: str = "",
    ) -> None:
        self._limits = limits
        self._text = TextWatch(limits, asked)
        self._tokens = TokenWatch(limits, suspicious)
        self._entropies = WindowWatch("entropy", bounds.window, entropy_sides(limits, bounds))
        self._logprobs = WindowWatch(
            "log-probability", bounds.window, logprob_sides(limits, bounds)
        )
        self._pending: list[str] = []
        self._pending_size = 0
        self._ids: list[int] = []
        self._size = 0
        self._count = 0
        self._silent = 0
        self._found: dict[str, Verdict] = {}
        self._waiting: list[Verdict] = []

    def feed(
        self,
        text: str,
        token_ids: Sequence[int] | None = (),
        logprobs: Sequence[float] | None = (),
        entropies: Sequence[float] | None = (),
    ) -> Verdict | None:
        """Take what arrived; return a SUSPECT or FAILED verdict at the moment it is found.

        Every reason is told once, and once more only when it becomes worse. Feed the text that the
        caller sees grow (content, reasoning or tool arguments); numbers may come later than their
        text, and any of them may be missing. Odd data makes the verdict ``stream_odd_data``.
        """
        try:
            self._take(text, token_ids or (), logprobs or (), entropies or ())
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            self._pending, self._pending_size, self._ids = [], 0, []
            self._note((
                Verdict(
                    Outcome.UNJUDGED,
                    "stream_odd_data",
                    f"What came cannot be read as tokens or numbers: {type(error).__name__}.",
                    {"error": type(error).__name__},
                ),
            ))
        return self._waiting.pop(0) if self._waiting else None

    def finish(self, finish_reason: str | None = None) -> tuple[Verdict, ...]:
        """Judge the rest and return what no ``feed`` has returned yet, the worst first."""
        try:
            self._look_at_text()
            self._note(self._text.doubled_words())
            self._look_at_tokens()
        except (TypeError, ValueError, OverflowError):
            pass  # told by the feed that brought it
        if finish_reason == ENGINE_FINISH:
            self._note((
                Verdict(
                    Outcome.FAILED,
                    "stream_engine_repetition",
                    "The engine ended the answer because a pattern of tokens kept repeating.",
                    {"finish_reason": finish_reason},
                ),
            ))
        rest, self._waiting = self._waiting, []
        return tuple(sorted(rest, key=lambda v: -_RANK[v.outcome]))

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Return all that was found so far, the worst first; a pass or UNJUDGED when nothing was."""
        if self._found:
            return tuple(sorted(self._found.values(), key=lambda v: -_RANK[v.outcome]))
        enough = self._size >= stream_text.STEP or self._count >= stream_tokens.STEP
        if not enough:
            return (
                Verdict(Outcome.UNJUDGED, "stream_too_short", "Too little came to judge a stream."),
            )
        return (
            Verdict(
                Outcome.PASSED,
                "stream_clean",
                "Nothing was found while the answer was generated.",
                {
                    "entropy_windows": self._entropies.judged,
                    "logprob_windows": self._logprobs.judged,
                },
            ),
        )

    @property
    def suspicious_tokens(self) -> int:
        """Return how many suspicious tokens and broken characters came, for the counter."""
        return self._tokens.suspicious_seen + self._text.replaced

    def _take(
        self,
        text: str,
        token_ids: Sequence[int],
        logprobs: Sequence[float],
        entropies: Sequence[float],
    ) -> None:
        if text:
            self._silent = 0
            self._pending.append(text)
            self._pending_size += len(text)
            if self._pending_size >= stream_text.STEP:
                self._look_at_text()
        elif not (logprobs or entropies) or token_ids:
            self._silent += len(token_ids) or 1
            if self._silent >= self._limits.empty_tokens:
                self._note((self._no_progress(),))
        if token_ids:
            self._ids.extend(token_ids)
            if len(self._ids) >= stream_tokens.STEP:
                self._look_at_tokens()
        if logprobs:
            self._numbers(self._logprobs, logprobs)
        if entropies:
            self._numbers(self._entropies, entropies)

    def _look_at_text(self) -> None:
        new = "".join(self._pending)
        self._pending, self._pending_size = [], 0
        if new:
            self._size += len(new)
            self._note(self._text.add(new))

    def _look_at_tokens(self) -> None:
        ids, self._ids = self._ids, []
        if ids:
            self._count += len(ids)
            self._note(self._tokens.add(ids, is_silent=self._silent >= stream_tokens.STEP))

    def _numbers(self, watch: WindowWatch, values: Sequence[float]) -> None:
        known = [float(v) for v in values]
        unreal = sum(map(math.isnan, known))
        if unreal:
            self._note((
                Verdict(
                    Outcome.FAILED,
                    "stream_nan_logits",
                    "A step's logits held NaN or infinity: its token means nothing.",
                    {"steps": unreal},
                ),
            ))
        self._note(watch.add(known))

    def _no_progress(self) -> Verdict:
        limit = self._limits.empty_tokens
        return Verdict(
            Outcome.FAILED,
            "stream_no_progress",
            f"{limit} tokens came without any text.",
            {"limit": limit, "bound": "constant"},
        )

    def _note(self, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            known = self._found.get(verdict.reason)
            if known is None or _RANK[verdict.outcome] > _RANK[known.outcome]:
                self._found[verdict.reason] = verdict
                if verdict.outcome in {Outcome.SUSPECT, Outcome.FAILED}:
                    self._waiting.append(verdict)


def stream_gates(
    limits: StreamLimits, bounds: LearnedBounds, suspicious: frozenset[int] = frozenset()
) -> tuple[Gate, ...]:
    """Return level 3 as a gate over a finished exchange: the answer is fed again as it was made."""

    def judge(exchange: Exchange) -> Verdict:
        answer = exchange.answer
        if answer is None:
            return Verdict(Outcome.UNJUDGED, "stream_too_short", "There is no answer.")
        monitor = StreamMonitor(limits, bounds, suspicious, exchange.asked)
        for piece in _pieces(answer):
            monitor.feed(*piece)
        monitor.finish(answer.finish_reason)
        if answer.nan_logits:
            return Verdict(
                Outcome.FAILED,
                "stream_nan_logits",
                f"The logits of {answer.nan_logits} steps held NaN or infinity.",
                {"steps": answer.nan_logits},
            )
        return monitor.verdicts[0]

    return (Gate(GATE, Level.STREAM, judge, REASONS),)


def _pieces(
    answer: Answer,
) -> Iterator[tuple[str, Sequence[int], Sequence[float], Sequence[float]]]:
    """Cut an answer into pieces of a look each, its numbers in step with its text."""
    text, ids = answer.text or "", answer.token_ids or ()
    logprobs, entropies = answer.logprobs or (), answer.entropies or ()
    tokens = max(len(ids), len(logprobs), len(entropies))
    count = max(1, -(-len(text) // stream_text.STEP), -(-tokens // stream_tokens.STEP))
    for i in range(count):
        a, b = i / count, (i + 1) / count
        yield (
            text[int(len(text) * a) : int(len(text) * b)],
            ids[int(len(ids) * a) : int(len(ids) * b)],
            logprobs[int(len(logprobs) * a) : int(len(logprobs) * b)],
            entropies[int(len(entropies) * a) : int(len(entropies) * b)],
        )
