"""``quality weights …``: hashes of a model folder, the difference of two, and weights in memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from quality_lib import settings
from quality_lib.adapters.model.weights_diff import TensorDiff, WeightsDiff, diff_folders
from quality_lib.adapters.model.weights_files import hash_folder
from quality_lib.adapters.vllm.live_weights import TIMEOUT_S, LiveFingerprint, take_fingerprint
from quality_lib.commands.byte_progress import byte_progress, tell
from quality_lib.commands.output import AsJson, emit_json, plain, stdout
from quality_lib.errors import EXIT_BAD_QUALITY, EXIT_INCONCLUSIVE
from quality_lib.records import Outcome
from quality_lib.snapshots.startup_check import judge_fingerprint

app = typer.Typer(
    no_args_is_help=True, help="Weights: hashes and differences of folders, and those in memory."
)

Folder = Annotated[Path, typer.Argument(help="A model's folder.")]


@app.command("hash")
def hash_command(
    folder: Folder,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Files read at a time; default: one per core.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Hash every file of a model folder."""
    with byte_progress("hashing") as progress:
        record = hash_folder(folder, progress, workers, tell)
    if as_json:
        emit_json(record)
        return
    digest = Column("SHA-256", no_wrap=True, min_width=64)
    table = Table(Column("file", overflow="fold"), "bytes", digest)
    for file in record.files:
        table.add_row(escape(file.path), f"{file.size:,}", file.sha256)
    stdout.print(table)
    stdout.print(
        f"root  {record.root_sha256}  ({len(record.files)} files)", highlight=False, soft_wrap=True
    )


@app.command("diff")
def diff_command(
    a: Folder,
    b: Folder,
    top: Annotated[int, typer.Option(min=1, help="How many tensors to show.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Compare two model folders tensor by tensor. Exit code 1 when they differ."""
    with byte_progress("comparing") as progress:
        diff = diff_folders(a, b, progress)
    if as_json:
        emit_json({
            "same": diff.is_same,
            "equal_tensors": diff.equal,
            "different_tensors": len(diff.different),
            "different": [_finite(plain(tensor)) for tensor in diff.different[:top]],
            "other_files": diff.other_files,
        })
    else:
        _print(diff, top)
    if not diff.is_same:
        raise typer.Exit(EXIT_BAD_QUALITY)


@app.command("live")
def live_command(
    url: Annotated[str, typer.Argument(help="Base address of a running vLLM server.")],
    expect: Annotated[
        str | None,
        typer.Option(help="A fingerprint that it must have, such as the one of a snapshot."),
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Variable that holds the server's key.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait.")] = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Read the weights in a running server's memory and compare them with those after loading.

    Exit code 1 when a tensor has changed; 4 when the server cannot read its weights, or when the
    expected fingerprint is of another layout (hardware, sharding, vLLM) and says nothing.
    """
    taken = take_fingerprint(url, settings.secret(api_key_env), timeout_s=timeout)
    verdict = None if expect is None else judge_fingerprint(expect, taken.fingerprint)
    if as_json:
        emit_json({
            **plain(taken),
            "is_changed": taken.is_changed,
            "expected": None if verdict is None else plain(verdict),
        })
    else:
        _print_live(taken)
        if verdict is not None:
            stdout.print(verdict.sentence, highlight=False, markup=False, soft_wrap=True)
    if taken.is_changed or (verdict is not None and verdict.outcome is Outcome.FAILED):
        raise typer.Exit(EXIT_BAD_QUALITY)
    if verdict is not None and verdict.outcome is Outcome.UNJUDGED:
        raise typer.Exit(EXIT_INCONCLUSIVE)


def _print_live(taken: LiveFingerprint) -> None:
    stdout.print(taken.fingerprint, highlight=False, soft_wrap=True)
    stdout.print(
        f"{taken.tensors} tensors, {taken.size / 1e6:,.1f} MB, read in {taken.seconds:.2f} s; "
        f"requests waited {taken.longest_call_s * 1000:.0f} ms at most",
        highlight=False,
        soft_wrap=True,
    )
    for one in taken.unseen:
        stdout.print(f"not seen: {one['name']}: {one['reason']}", highlight=False, markup=False)
    if not taken.is_changed:
        stdout.print("as after loading", highlight=False)
        return
    table = Table("rank", "tensor", "kind", "after loading", "now")
    for one in taken.changed:
        table.add_row(*(escape(str(one[key])) for key in ("rank", "name", "kind", "loaded", "now")))
    stdout.print(table)
    stdout.print(f"{taken.changed_tensors} tensors have changed", highlight=False)


def _print(diff: WeightsDiff, top: int) -> None:
    stdout.print(f"{diff.equal} tensors equal, {len(diff.different)} different", highlight=False)
    if diff.different:
        table = Table("tensor", "type", "found", "‖a−b‖/‖a‖", "max |a−b|", "elements changed")
        for tensor in diff.different[:top]:
            table.add_row(*_row(tensor))
        stdout.print(table)
    if len(diff.different) > top:
        stdout.print(f"… and {len(diff.different) - top} more (--top)", highlight=False)
    for name in diff.other_files:
        stdout.print(f"{name}: differs or lacks on one side", highlight=False, markup=False)


def _row(tensor: TensorDiff) -> tuple[str, ...]:
    found = {
        "changed": "changed",
        "missing": "only in A",
        "extra": "only in B",
        "shape": f"shape {tensor.shape} → {tensor.other}",
        "dtype": f"type → {tensor.other}",
    }[tensor.status]
    if tensor.non_finite:
        found += f", {tensor.non_finite} became NaN or Inf"
    return (
        escape(tensor.name),
        tensor.dtype,
        found,
        "" if tensor.relative_l2 is None else f"{tensor.relative_l2:.3g}",
        "" if tensor.max_abs is None else f"{tensor.max_abs:.3g}",
        f"{tensor.changed_elements:,} of {tensor.elements:,}" if tensor.changed_elements else "",
    )


def _finite(tensor: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: ``null`` beside a ``non_finite`` above zero stands for it."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in tensor.items()
    }
