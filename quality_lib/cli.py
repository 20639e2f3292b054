"""The command ``quality``: composes the command groups and turns errors into exit codes."""

from __future__ import annotations

import importlib
import sys
import traceback

import typer
from rich.markup import escape

from quality_lib.commands.check import check_command
from quality_lib.commands.decide import decide_command
from quality_lib.commands.demo import demo
from quality_lib.commands.output import stderr
from quality_lib.commands.prune import prune
from quality_lib.errors import EXIT_OUTSIDE, QualityError

app = typer.Typer(
    name="quality",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help=(
        "Find silent quality degradation of vLLM services.\n\n"
        "Exit codes: 0 good, 1 bad quality found, 2 wrong use or bad input, "
        "3 something outside failed (server, store, disk), 4 inconclusive (no data is never a pass)."
    ),
)

GROUPS = (
    "golden",
    "snapshot",
    "weights",
    "model",
    "engine",
    "stack",
    "logs",
    "route",
    "rollback",
    "incident",
)
for _name in GROUPS:
    _module = importlib.import_module(f"quality_lib.commands.{_name}")
    app.add_typer(_module.app, name=_name)
app.command("check")(check_command)
app.command("decide")(decide_command)
app.command("demo")(demo)
app.command("prune")(prune)


def main() -> None:
    """Run the command line and end with the documented exit code.

    An error the library knows is one sentence. A defect of our own shows its traceback and ends with
    3, never with 1: a broken checker must not look like bad quality.
    """
    try:
        app()
    except QualityError as error:
        stderr.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except Exception:  # noqa: BLE001 - the outermost frame
        traceback.print_exc()
        stderr.print("[bold red]this is a defect of vllm-quality:[/] nothing was judged")
        sys.exit(EXIT_OUTSIDE)
