"""Which stored answers of a baseline are watched for change."""

from __future__ import annotations

from pathlib import Path

from quality_lib.adapters.files.baseline import BASELINE
from quality_lib.adapters.files.cases import load_cases
from quality_lib.adapters.files.fault_recordings import read_faults
from quality_lib.adapters.files.sentinel import read_sentinel
from quality_lib.drift.reading import Key
from quality_lib.errors import DigestMismatch
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.parse import golden_digest
from quality_lib.golden.reading import scored_keys
from quality_lib.golden.sentinel import Sentinel, choose_sentinel
from quality_lib.settings import ServiceSettings


def sentinel_of(
    service: ServiceSettings,
    baseline: Baseline,
    *,
    count: int | None = None,
    tokens: int | None = None,
    faults: Path | None = None,
) -> Sentinel:
    """Choose the sentinel set of a baseline; None: as the service's settings say.

    ``faults``: a folder of recordings (``adapters/files/fault_recordings.py``); the set is chosen by them.

    Raises:
        NoData: no case can be scored.
        DigestMismatch: the baseline was made with another golden set.
        BadInput: the recordings cannot be used; names file and column.
    """
    cases = load_cases(service.golden.cases)
    refuse_other_set(service, cases, baseline)
    return choose_sentinel(
        cases,
        baseline,
        count=count or service.drift.sentinel_cases,
        tokens=tokens or service.drift.sentinel_tokens,
        faults=read_faults(faults, set(baseline.cases)) if faults else None,
    )


def watched_keys(
    service: ServiceSettings, baseline: Baseline, sentinel: Path | None
) -> frozenset[Key]:
    """Return the stored answers that are watched: those of a file, else as the service's settings say."""
    if sentinel is not None:
        return scored_keys(baseline, read_sentinel(sentinel, baseline))
    if service.drift.cases == "all":
        return scored_keys(baseline)
    return scored_keys(baseline, sentinel_of(service, baseline).case_ids)


def refuse_other_set(service: ServiceSettings, cases: GoldenSet, baseline: Baseline) -> None:
    """Refuse a baseline of another golden set than the configured one."""
    if golden_digest(cases) != baseline.golden_digest:
        raise DigestMismatch(
            f"the configured golden set ({golden_digest(cases)[:12]}) is not the one that the baseline "
            f"was made with ({baseline.golden_digest[:12]})",
            file=service.golden.cases,
            fix=f"name the set of {BASELINE} in golden.cases, or make a new baseline",
        )
