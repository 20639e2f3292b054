"""After how many checks does the product page when a server was restarted on something that is not the same any more?

    python -m bench.restarted_found [--adapter] [--work DIR] [--baseline DIR] [--checks 6] [--only NAME ...] [--out FILE]

The calibration is learned from the healthy checks of ``bench.healthy_checks`` in the same work folder. Then a server
is started on each deployment that differs from its start on (another checkpoint format, another configuration,
another tokenizer, other flags), and on the healthy one again as the control that must stay silent. Each is asked the
sentinel set as an hourly check does until somebody is paged. A server that refuses the requests is told as such: no data.
With ``--adapter`` the service is a LoRA adapter over the model (``bench.healthy_checks --adapter`` makes its checks); the
deployments then have lost it, so that the model below answers under its name, or serve another one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.decisions import decisions
from bench.errors_told import errors_told
from bench.faults.catalogue import MEDIUM, Given, catalogue
from bench.faults.controls import controls
from bench.faults.fault import Expected, Fault
from bench.healthy_checks import (
    default_work,
    healthy_service,
    made_checks,
    made_starts,
    platform_of,
)
from bench.matrix.record import altered_model
from bench.measures import machine
from bench.packaged import NAME, Served, random_adapter
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, running
from quality_lib.adapters.files.baseline import read_baseline
from quality_lib.adapters.files.cases import load_cases
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.limits import HOURLY_LOAD, DriftLimits
from quality_lib.drift.reading import Block, CheckReading
from quality_lib.errors import BadInput, NoData
from quality_lib.golden.learning import learn
from quality_lib.golden.reading import WARM, reference_of
from quality_lib.jobs.beside_run import BesideRun
from quality_lib.jobs.clock import utc_now
from quality_lib.jobs.sentinel import watched_keys
from quality_lib.records import Tri
from quality_lib.settings import ServiceSettings

PORT = 18551
RESTART = "restart"
OTHER_ADAPTER = 2
"""Seed; see ``HEALTHY_ADAPTER``."""

Ask = Callable[[int], CheckReading]
"""Makes the check of that number."""


@dataclass(frozen=True)
class Deployment:
    """What a server is restarted on."""

    name: str
    expected: Expected
    serve: Callable[[Path], AbstractContextManager[EngineSpec]]
    """Makes what is to be served, in a work folder, and takes it away at the end."""


@dataclass(frozen=True)
class Found:
    """What the product said of one deployment."""

    deployment: str
    expected: Expected
    checks: int
    """Asked until somebody was paged, re-checks among them."""
    changed_after: int | None
    """Checks until *changed* was said; None: never."""
    paged_after: int | None
    unanswered: int
    """Checks in which an answer was lost."""
    severity: str
    """Of the last check."""
    reasons: tuple[str, ...]
    """Of the last check, by code."""


def found_of(
    deployment: Deployment,
    ask: Ask,
    reference: CheckReading,
    calibration: Calibration,
    limits: DriftLimits,
    checks: int,
) -> Found:
    """Feed hourly checks and their re-checks to the product's decision until it pages or ``checks`` are made."""
    changed_after = paged_after = None
    unanswered = number = 0
    severity = ""
    reasons: tuple[str, ...] = ()
    # Lazily: a check is asked when the one before it has been judged.
    asked = map(ask, range(1, checks + 1))
    for number, told in enumerate(decisions(asked, reference, calibration, limits), 1):
        unanswered += any(probe.is_lost for probe in told.reading.probes)
        severity = str(told.decision.severity)
        reasons = tuple(str(reason.code) for reason in told.decision.reasons)
        if changed_after is None and told.decision.changed is Tri.YES:
            changed_after = number
        if told.decision.pages:
            paged_after = number
            break
    return Found(
        deployment.name, deployment.expected, number, changed_after, paged_after, unanswered, severity, reasons
    )  # fmt: skip


def is_right(found: Found) -> bool:
    """Return whether a control stayed silent, or a change was paged."""
    return (found.paged_after is None) == (found.expected is Expected.SILENT)


def deployments(healthy: Served) -> list[Deployment]:
    """Return the control and the deployments that differ from their start on."""
    if healthy.adapter is None:
        return [
            _with(fault, healthy)
            for fault in (
                *(control.fault for control in controls() if control.fault.name == RESTART),
                *(fault for fault in catalogue(Given(), MEDIUM) if fault.needs_restart),
            )
        ]
    return [
        Deployment(RESTART, Expected.SILENT, lambda work: nullcontext(healthy.spec(PORT))),
        Deployment(
            "adapter-lost",
            Expected.DEGRADED,
            lambda work: nullcontext(Served(healthy.model).spec(PORT)),
        ),
        Deployment(
            "adapter-other",
            Expected.DEGRADED,
            lambda work: nullcontext(
                replace(healthy, adapter=random_adapter(healthy.model, work, OTHER_ADAPTER)).spec(
                    PORT
                )
            ),
        ),
    ]


def _with(fault: Fault, healthy: Served) -> Deployment:
    @contextmanager
    def serve(work: Path) -> Generator[EngineSpec]:
        with altered_model(healthy.model, work, fault) as (model, flags):
            yield replace(healthy, model=model).spec(PORT, flags)

    return Deployment(fault.name, fault.expected, serve)


def chosen(among: Sequence[Deployment], only: Collection[str]) -> list[Deployment]:
    """Return those of the names asked for, all when none is.

    Raises:
        BadInput: one that is asked for does not exist.
    """
    names = [deployment.name for deployment in among]
    if unknown := sorted(set(only) - set(names)):
        raise BadInput(f"there is no {', '.join(unknown)}", fix=f"choose among {', '.join(names)}")
    return [deployment for deployment in among if not only or deployment.name in only]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adapter", action="store_true", help="of a service that is an adapter")
    parser.add_argument("--work", type=Path, help="folder of the healthy checks")
    parser.add_argument("--baseline", type=Path, help="default: the one in the work folder")
    parser.add_argument("--checks", type=int, default=6, help="at most, of each deployment")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with errors_told():
        _run(args)


def _run(args: argparse.Namespace) -> None:
    work = args.work or default_work(args.adapter)
    folder = args.baseline or work / "baseline"
    starts = made_starts(work)
    healthy = made_checks(work, starts)
    if not healthy:
        raise NoData(f"{work} holds no healthy checks: run python -m bench.healthy_checks first")
    baseline, limits = read_baseline(folder), DriftLimits()
    served = healthy_service(work, args.adapter)
    service = ServiceSettings(endpoint=f"http://127.0.0.1:{PORT}", model=NAME, weights=served.model)
    keys = watched_keys(service, baseline, None)
    reference = reference_of(baseline, {p.key for check in healthy for p in check.probes})
    calibration = learn(healthy, reference, limits, platform_of(work, starts))
    cases = load_cases(service.golden.cases)
    told = []
    for deployment in chosen(deployments(served), args.only):
        name = deployment.name
        _say(f"{name}: starting")
        beside = BesideRun(service, cases, baseline, name, utc_now, None)

        def ask(number: int, beside: BesideRun = beside, name: str = name) -> CheckReading:
            return beside.ask(f"check-{number}", Block(name, HOURLY_LOAD, WARM), keys)

        with (
            deployment.serve(work) as spec,
            running(LocalEngine(work / "engine"), spec, timeout_s=600.0),
        ):
            found = found_of(deployment, ask, reference, calibration, limits, args.checks)
        _say(f"{name}: {'as expected' if is_right(found) else 'NOT as expected'}, {found}")
        told.append(found)
    result = {
        **machine(),
        "adapter": args.adapter,
        "calibrated_on": calibration.checks,
        "starts": len(starts),
        "deployments": [asdict(found) for found in told],
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n", encoding="utf-8")
    sys.exit(0 if all(map(is_right, told)) else 1)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
