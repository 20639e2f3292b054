"""The silent-fault matrix: record a server under every fault, score every method on the recordings.

    python -m bench.matrix record [--short | --medium] [--minutes M] [--part K/N] [--work DIR] [--model DIR]
                                  [--only NAME ...]
    python -m bench.matrix score  [--short | --medium] [--work DIR] [--out bench/results/matrix.json] [--demand]
    python -m bench.matrix list   [--short | --medium]

``record`` can be interrupted at any time and goes on where it stopped; exit code 75 says that its time ran out.
``score`` needs no server; ``--demand`` makes it fail where the product does. ``list`` names the faults.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.errors_told import errors_told
from bench.faults.catalogue import FULL, MEDIUM, Given, catalogue, short_form
from bench.faults.controls import controls
from bench.faults.fault import Fault
from bench.faults.sgd import fine_tune
from bench.matrix import plan
from bench.matrix.methods import every_method
from bench.matrix.parquet_files import read_checks
from bench.matrix.plots import write_plots
from bench.matrix.probes import ProbeSet
from bench.matrix.record import MORE, Place, record
from bench.matrix.scoring import falls_short, result_of, score_tracks
from bench.matrix.table import markdown, summary
from bench.measures import machine
from bench.packaged import packaged_model
from quality_lib import settings
from quality_lib.adapters.files.cases import load_cases
from quality_lib.adapters.model.cached_similarity import CachedSimilarity
from quality_lib.errors import BadInput

RESULT = Path(__file__).parents[1] / "results" / "matrix.json"
TUNED_STEPS = {"medium": (1, 8, 64), "full": (1, 8, 64, 512)}
"""Steps of real fine-tuning; a step takes seconds on two cores."""
FORM = "form.json"
FORMS = {
    "short": "a few faults on four server starts",
    "medium": "every fault with fewer draws and repeats",
    "full": "the whole protocol: days on two cores",
}
SIZES = {"short": plan.SHORT, "medium": plan.MEDIUM, "full": plan.Size()}
DRAWS = {"medium": MEDIUM, "full": FULL}


def main(argv: Sequence[str] | None = None) -> None:
    args = _parser().parse_args(argv)
    with errors_told():
        sys.exit(args.act(args))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.matrix",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    acts = parser.add_subparsers(required=True)
    recording = acts.add_parser("record", help="record what is missing")
    recording.add_argument("--minutes", type=float, default=10_000.0)
    recording.add_argument("--model", type=Path)
    recording.add_argument(
        "--part",
        type=_part,
        default=(1, 1),
        metavar="K/N",
        help="only the K-th of N shares of the server starts, beside other recorders in the same folder",
    )
    recording.add_argument("--only", nargs="*", default=[], help="names of faults")
    recording.set_defaults(act=_record)
    scoring = acts.add_parser("score", help="score the recordings")
    scoring.add_argument("--out", type=Path, help="default: bench/results/matrix[_short].json")
    scoring.add_argument("--json", action="store_true")
    scoring.add_argument(
        "--demand",
        action="store_true",
        help="exit code 1 unless the product finds every gross fault of the deterministic track in one check, or at "
        "least puts it above all of health, and its procedure pages nobody in health",
    )
    scoring.set_defaults(act=_score)
    listing = acts.add_parser("list", help="name the faults")
    listing.set_defaults(act=_list)
    for one in (recording, scoring, listing):
        forms = one.add_mutually_exclusive_group()
        for form, told in FORMS.items():
            forms.add_argument(
                f"--{form}", dest="form", action="store_const", const=form, help=told
            )
        one.set_defaults(form="full")
    for one in (recording, scoring):
        one.add_argument("--work", type=Path, help="folder of the recordings")
    return parser


def _record(args: argparse.Namespace) -> int:
    model = args.model or packaged_model()
    is_short, size = args.form == "short", SIZES[args.form]
    work = _work(args)
    _keep_form(work, args.form)
    given = Given((model / "chat_template.jinja").read_text(encoding="utf-8"))
    faults = _chosen(_faults(given, args.form), args.only)
    if not is_short and not args.only:
        given = replace(given, tuned=fine_tune(model, work / "tuned", TUNED_STEPS[args.form]))
        faults = _faults(given, args.form)
    healthy_looking = () if args.only else controls()
    alone = [] if is_short else plan.restarted(faults, healthy_looking)
    place = Place(
        model,
        work,
        ProbeSet.of(load_cases("builtin:core"), size.scored_cases),
        time.monotonic() + args.minutes * 60,
    )
    is_whole = record(
        place,
        plan.share_of(plan.units(size, faults, healthy_looking), *args.part),
        plan.share_of(plan.restarted_units(size, alone), *args.part),
    )
    return 0 if is_whole else MORE


def _part(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"'{text}' is no share like 1/2")
    return int(part), int(parts)


def _score(args: argparse.Namespace) -> int:
    work = _work(args)
    usual = RESULT if args.form == "full" else RESULT.with_stem(f"matrix_{args.form}")
    out = args.out or usual
    checks = read_checks(work / "recordings")
    scored = score_tracks(checks, every_method(CachedSimilarity()), _say)
    result = {
        **machine(),
        "form": _form(work),
        "recordings": {"checks": len(checks), "probes": sum(len(c.rows) for c in checks)},
        **result_of(scored),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(markdown(result), encoding="utf-8")
    write_plots(result, out.parent, out.stem)
    print(json.dumps(result) if args.json else "\n".join(summary(result)))
    short_of = falls_short(result) if args.demand else []
    for told in short_of:
        _say(told)
    return 1 if short_of else 0


def _list(args: argparse.Namespace) -> int:
    given = Given("{% if loop.first %}{% endif %}<|im_start|>assistant\n")
    for fault in _faults(given, args.form):
        places = ", ".join(fault.change.places)
        print(f"{fault.number:2} {fault.name:24} {fault.kind:22} {fault.expected:9} {places}")
    return 0


def _faults(given: Given, form: str) -> tuple[Fault, ...]:
    return short_form(given) if form == "short" else catalogue(given, DRAWS[form])


def _chosen(faults: tuple[Fault, ...], only: list[str]) -> tuple[Fault, ...]:
    if unknown := sorted(set(only) - {fault.name for fault in faults}):
        raise BadInput(
            f"there is no fault called {', '.join(unknown)}", fix="python -m bench.matrix list"
        )
    return tuple(fault for fault in faults if not only or fault.name in only)


def _work(args: argparse.Namespace) -> Path:
    return Path(args.work or settings.home() / f"bench-matrix-{args.form}")


def _keep_form(work: Path, form: str) -> None:
    """Refuse to mix two forms in one folder: they ask different prompts and split faults otherwise."""
    file, told = work / FORM, f"{form} form"
    if file.exists() and _form(work) != told:
        raise BadInput(
            f"holds recordings of the {_form(work)}", file=work, fix="give another --work"
        )
    work.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"form": told}), encoding="utf-8")


def _form(work: Path) -> str:
    file = work / FORM
    return str(json.loads(file.read_text("utf-8"))["form"]) if file.exists() else "unknown form"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
