"""What a golden check asks beside its run: the sentinel set decoded, and re-checks. A kill costs one round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from quality_lib import wiring
from quality_lib.adapters.files.readings import ReadingsJournal
from quality_lib.drift.reading import Block, CheckReading, Key
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.sentinel_round import check_sentinel
from quality_lib.settings import ServiceSettings


@dataclass
class BesideRun:
    """Asks a service, and keeps what was answered so that a resumed check does not ask it again."""

    service: ServiceSettings
    cases: GoldenSet
    baseline: Baseline
    run_id: str
    clock: Callable[[], datetime]
    file: Path | None
    """None: nothing is kept."""
    _journal: ReadingsJournal | None = field(default=None, init=False)

    def ask(
        self, name: str, block: Block, keys: frozenset[Key], *, repeats: int = 1
    ) -> CheckReading:
        """Ask a round, or return it as it was answered before; ``repeats`` attempts at each score.

        Raises:
            BadInput: what was kept cannot be read; names the line.
            OutsideFailure: the disk refuses.
        """
        check_id = f"{self.run_id}-{name}"
        journal = self._opened()
        for known in journal.readings if journal else ():
            if known.check_id == check_id and _is_that(known, block, keys):
                return known
        reading = asyncio.run(self._ask(check_id, block, keys, repeats))
        # A round that got lost as a whole was not answered: the next try may be.
        if journal and not all(probe.is_lost for probe in reading.probes):
            journal.record(reading)
        return reading

    def close(self) -> None:
        """Release the file."""
        if self._journal is not None:
            self._journal.close()

    def _opened(self) -> ReadingsJournal | None:
        if self._journal is None and self.file is not None:
            self._journal = ReadingsJournal(self.file, "run the same command again")
        return self._journal

    async def _ask(
        self, check_id: str, block: Block, keys: frozenset[Key], repeats: int
    ) -> CheckReading:
        async with wiring.model_client(self.service) as client:
            return await check_sentinel(
                self.cases,
                self.baseline.references(),
                keys,
                client,
                block,
                check_id,
                self.clock(),
                burst=self.run_id,
                repeats=repeats,
            )


def _is_that(known: CheckReading, block: Block, keys: frozenset[Key]) -> bool:
    """Whether a kept round is the wanted one: another calibration may ask others, or in another way."""
    same_way = (known.block.load, known.block.cache) == (block.load, block.cache)
    return same_way and {probe.key for probe in known.probes} == keys
