"""The command ``quality``: composes the command groups and turns errors into exit codes."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections import UserDict
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from quality_lib.commands.output import stderr
from quality_lib.errors import EXIT_OUTSIDE, QualityError

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
COMMANDS = {
    "check": "check_command",
    "decide": "decide_command",
    "demo": "demo",
    "prune": "prune",
}
"""Single commands, each in the module of its name, and the function."""


class _Commands(UserDict[str, Any]):
    """Commands by name, each imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _imported(name)
        return self.data[name]


def _imported(name: str) -> Any:
    module = importlib.import_module(f"quality_lib.commands.{name}")
    parent = typer.Typer(add_completion=False)
    if name in GROUPS:
        parent.add_typer(module.app, name=name)
    else:
        parent.command(name)(getattr(module, COMMANDS[name]))
    return typer.main.get_group(parent).commands[name]


class OnDemand(TyperGroup):
    """Imports what is called and nothing else: a DAG starts a dozen commands, each of one group."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        known = dict.fromkeys((*GROUPS, *COMMANDS))
        self.commands = _Commands({**known, **self.commands})


app = typer.Typer(
    name="quality",
    cls=OnDemand,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help=(
        "Find silent quality degradation of vLLM services.\n\n"
        "Exit codes: 0 good, 1 bad quality found, 2 wrong use or bad input, "
        "3 something outside failed (server, store, disk), 4 inconclusive (no data is never a pass)."
    ),
)


@app.callback()
def _quality() -> None:
    """Typer wants a callback where no command is registered: ours are imported on demand."""


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
