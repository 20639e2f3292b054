"""What a golden run needs from outside. Pure: protocols only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from quality_lib.golden.answer import Answer, Probe
from quality_lib.golden.case import GoldenCase


class ModelClient(Protocol):
    """A served model. Every method answers with a value; only ``contract`` may raise."""

    async def decode(self, case: GoldenCase, probe: Probe, cache_salt: str) -> Answer:
        """Let the model answer the case."""

    async def score(
        self, case: GoldenCase, probe: Probe, reference: Answer, cache_salt: str = ""
    ) -> Answer:
        """Return the log-probabilities of the reference answer's tokens, through the probe's channel.

        A salt of its own meets a cold prefix cache; without one it is the cache that all share.
        """

    def take_running(self) -> int | None:
        """Return the most requests that the server worked on while it scored, since this was last asked.

        Other users' requests count too. None: the server does not tell.
        """

    async def contract(self) -> Mapping[str, Any]:
        """Collect exact facts of the interface.

        Raises:
            OutsideFailure: when the server cannot be reached at all.
        """


class Recorder(Protocol):
    """Keeps answers as they come, so that a killed run resumes where it stopped."""

    def recorded(self) -> Mapping[str, Answer]:
        """Return the answers kept so far, by probe key."""

    def record(self, answer: Answer) -> None:
        """Keep one answer; after this returns it survives a kill."""


Similarity = Callable[[Sequence[tuple[str, str]]], Sequence[float]]
"""Cosine similarity of each pair of texts, in [-1, 1]; order is kept."""

Progress = Callable[[str, int, int], None]
"""Called with the stage's name, probes done, and probes in all."""
