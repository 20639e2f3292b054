"""What a golden verdict means and what to do next, in sentences for the report. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from quality_lib.golden.result import GoldenResult
from quality_lib.records import Summary, Tri


def meaning(result: GoldenResult) -> str:
    """Say in one or two sentences what the verdict means for the users of the service."""
    changed = result.verdict.changed
    match result.verdict.summary:
        case Summary.INCONCLUSIVE:
            return (
                "There is not enough data for a verdict. "
                "This says nothing about the quality of the service, neither good nor bad."
            )
        case Summary.FAILED:
            return "The answers are broken: users should not be served by this."
        case Summary.DEGRADED:
            return "The answers are worse than those of the healthy runs."
        case Summary.HEALTHY if result.verdict.needs_calibration:
            return (
                "The answers are as good as those of the healthy runs, and another engine or host "
                "gives them: what was calibrated no longer fits."
            )
        case Summary.HEALTHY if changed is Tri.YES:
            return (
                "The answers are as good as those of the healthy runs, "
                "but what serves is not what the snapshot recorded."
            )
        case Summary.HEALTHY if changed is Tri.UNKNOWN:
            return (
                "The answers are as good as those of the healthy runs; "
                "whether anything changed underneath could not be judged."
            )
        case _:
            return "The answers are as good as those of the healthy runs, and nothing has changed."


def next_steps(result: GoldenResult) -> Iterator[tuple[str, str | None]]:
    """Yield what to do now, with the command where there is one."""
    service = shlex.quote(result.service)
    verify = f"quality snapshot verify serving --service {service}"
    verdict = result.verdict
    if verdict.summary is Summary.INCONCLUSIVE:
        yield (
            "Look at the server and the network first: is it up, is it overloaded, do requests time out?",
            None,
        )
        yield "Then run the golden set again; only a complete run gives a verdict.", None
        return
    if verdict.is_good:
        yield "Nothing to do.", None
        return
    if verdict.needs_calibration:
        yield (
            "If the new engine or host was meant, make a new baseline, calibrate, and register a new "
            "snapshot. Nobody is called for it.",
            f"quality golden baseline --service {service}",
        )
        return
    if not result.is_snapshot_deployment:
        yield (
            "What serves was not deployed from the snapshot. If that was intended and the answers "
            "are fine, register a new snapshot; if not, deploy the snapshot again.",
            None,
        )
    if verdict.changed is Tri.UNKNOWN and verdict.summary is Summary.HEALTHY:
        yield "See below which channels were not judged, and why.", None
        return
    yield "Check the files and the arguments of the service against its snapshot:", verify
    if verdict.summary is not Summary.HEALTHY:
        yield (
            "If the files are intact, restart the service: a fault in device memory goes away, "
            "one in the configuration does not.",
            None,
        )
