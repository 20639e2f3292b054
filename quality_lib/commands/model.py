"""``quality model``: get a model ready to be served."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quality_lib import settings
from quality_lib.adapters.model import source as model_source
from quality_lib.commands.output import AsJson, emit_json, stderr, stdout

app = typer.Typer(no_args_is_help=True, help="Get a model ready to be served.")


@app.callback()
def _group() -> None:
    """Keep ``prepare`` a command of its own although it is the only one."""


@app.command()
def prepare(
    source: Annotated[
        str, typer.Argument(help="builtin:smollm2-135m, a .gguf file, or a Hugging Face folder.")
    ] = model_source.DEFAULT_SOURCE,
    out: Annotated[
        Path | None, typer.Option(help="Where a conversion goes; default: the cache folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert a model to a safetensors folder, or check one that is there, and print its hashes."""

    def say(line: str) -> None:
        stderr.print(line, highlight=False, soft_wrap=True)

    with stderr.status("preparing the model"):
        model = model_source.prepare(source, settings.home() / "models", out=out, say=say)
    if as_json:
        emit_json(model)
        return
    for name, sha256 in model.files.items():
        stdout.print(f"{sha256}  {name}", highlight=False, soft_wrap=True)
    stdout.print(f"root {model.root_sha256}", highlight=False, soft_wrap=True)
    stdout.print(f"{model.path}", highlight=False, soft_wrap=True)
