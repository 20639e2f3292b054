"""Watches the token ids of a stream: suspicious tokens, doubled tokens, silent loops. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import eq

from quality_lib.gates.stream_limits import StreamLimits
from quality_lib.gates.stream_loop import Need, closing_loop
from quality_lib.gates.stream_text import doubled
from quality_lib.records import Outcome, Verdict

STEP = 32
"""Tokens between two looks."""
TAIL = 2048
WINDOW = 64


class TokenWatch:
    """Judges token ids as they come; remembers a bounded tail of them.

    Ids are kept as one character each, because a text is compared and searched far faster than a
    list. Loops of tokens that give text are judged in the text, which shows tables and fences.
    """

    def __init__(self, limits: StreamLimits, suspicious: frozenset[int]) -> None:
        self._limits = limits
        self._suspicious = suspicious
        self._tail = ""
        self.suspicious_seen = 0
        """Suspicious tokens seen."""
        self._need = Need(limits.token_loop_repeats, limits.token_loop_tokens, "tokens")

    def add(self, ids: Sequence[int], *, is_silent: bool) -> Iterator[Verdict]:
        """Take new ids and judge the end of what there is now; ``is_silent``: they gave no text."""
        self._tail = (self._tail + "".join(map(chr, ids)))[-TAIL:]
        window = self._tail[-WINDOW:]
        if not self._suspicious.isdisjoint(ids):
            self.suspicious_seen += sum(i in self._suspicious for i in ids)
            # Everything new is looked at, also when more than a window came at once.
            yield from self._runs([ord(c) for c in self._tail[-max(WINDOW, len(ids) + STEP) :]])
        if sum(map(eq, window, window[1:])) >= self._limits.stutter_pairs:
            yield from self._stutter(list(window))
        if is_silent:
            yield from self._loop()

    def _runs(self, recent: list[int]) -> Iterator[Verdict]:
        run = longest = 0
        for token in recent:
            run = run + 1 if token in self._suspicious else 0
            longest = max(longest, run)
        window = recent[-WINDOW:]
        share = sum(token in self._suspicious for token in window) / WINDOW
        if longest >= self._limits.suspicious_run or share >= self._limits.suspicious_share:
            ids = sorted({token for token in window if token in self._suspicious})
            yield Verdict(
                Outcome.FAILED,
                "stream_suspicious_tokens",
                f"{longest} pad, unused or reserved tokens in a row, {share:.0%} of the last {WINDOW}.",
                {"run": longest, "share": round(share, 3), "ids": ids[:8], "bound": "constant"},
            )

    def _stutter(self, window: list[str]) -> Iterator[Verdict]:
        pairs = len(doubled(window))
        if pairs >= self._limits.stutter_pairs:
            yield Verdict(
                Outcome.FAILED,
                "stream_stutter",
                f"{pairs} different tokens of the last {len(window)} come exactly twice in a row.",
                {"pairs": pairs, "window": len(window), "of": "tokens", "bound": "constant"},
            )

    def _loop(self) -> Iterator[Verdict]:
        found = closing_loop(self._tail, lambda _: self._need, TAIL // 8)
        if found is not None:
            run = found[0]
            yield Verdict(
                Outcome.FAILED,
                "stream_loop",
                f"{len(run.unit)} tokens without text come {run.copies} times in a row.",
                {
                    "ids": [ord(c) for c in run.unit[:16]],
                    "period": len(run.unit),
                    "repeats": run.copies,
                    "kind": "tokens",
                    "bound": "constant",
                },
            )
