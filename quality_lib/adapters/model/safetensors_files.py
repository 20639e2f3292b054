"""Where each tensor of a safetensors folder lies, read from the headers alone."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quality_lib.errors import BadInput, OutsideFailure

INDEX = "model.safetensors.index.json"
MAX_HEADER = 100_000_000
"""Bytes; the same limit as the safetensors library."""

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64,
}  # fmt: skip
"""Size of one element; a type that is not here is compared byte by byte."""


@dataclass(frozen=True)
class TensorPlace:
    """One tensor in a file."""

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int
    """First byte in the file."""
    size: int
    """Bytes."""


def tensors_of(folder: Path) -> dict[str, TensorPlace]:
    """Return every tensor of a folder by name: the index's shards, else all ``*.safetensors``.

    Raises:
        BadInput: there are none, or a header or the index is malformed or cut off.
    """
    if not folder.is_dir():
        raise BadInput("is no folder", file=folder, fix="name the model's folder")
    index = folder / INDEX
    listed = _read_index(index) if index.exists() else None
    shards = (
        sorted(folder / name for name in set(listed.values()))
        if listed is not None
        else sorted(folder.glob("*.safetensors"))
    )
    if not shards:
        raise BadInput("holds no *.safetensors file", file=folder)
    places: dict[str, TensorPlace] = {}
    for shard in shards:
        for place in read_header(shard):
            if place.name in places:
                other = places[place.name].file.name
                raise BadInput(f"tensor '{place.name}' is in {other} too", file=shard)
            places[place.name] = place
    for name, shard_name in (listed or {}).items():
        if name not in places or places[name].file.name != shard_name:
            raise BadInput(f"tensor '{name}' is not in {shard_name}", file=index)
    return places


def read_header(file: Path) -> list[TensorPlace]:
    """Return the tensors of one file in the order of its header.

    Raises:
        BadInput: the file is cut off or no safetensors file.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > min(size - 8, MAX_HEADER):
                raise _malformed(
                    file, f"the header should have {length} bytes, the file has {size}"
                )
            header = json.loads(stream.read(length))
    except FileNotFoundError:
        raise BadInput("is missing", file=file, fix="copy the whole model folder") from None
    except ValueError:
        raise _malformed(file, "the header is no JSON") from None
    except OSError as error:
        raise OutsideFailure(f"{file}: cannot be read: {error.strerror or error}") from error
    if not isinstance(header, dict):
        raise _malformed(file, "the header is no JSON object")
    return [
        _place(file, name, entry, 8 + length, size)
        for name, entry in header.items()
        if name != "__metadata__"
    ]


def _place(file: Path, name: str, entry: Any, data_start: int, file_size: int) -> TensorPlace:
    try:
        dtype = str(entry["dtype"])
        shape = tuple(int(n) for n in entry["shape"])
        begin, end = (int(n) for n in entry["data_offsets"])
    except (KeyError, TypeError, ValueError):
        raise _malformed(file, f"the entry of tensor '{name}' is incomplete") from None
    if not 0 <= begin <= end or min(shape, default=0) < 0:
        raise _malformed(file, f"the entry of tensor '{name}' has impossible numbers")
    if data_start + end > file_size:
        missing = data_start + end - file_size
        raise _malformed(file, f"is cut off: tensor '{name}' ends {missing} bytes after the file")
    if dtype in BITS and math.prod(shape) * BITS[dtype] != (end - begin) * 8:
        raise _malformed(file, f"tensor '{name}' has {end - begin} bytes, its shape needs others")
    return TensorPlace(name, file, dtype, shape, data_start + begin, end - begin)


def _read_index(index: Path) -> dict[str, str]:
    try:
        listed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        pairs = {str(name): str(file) for name, file in listed.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadInput("is no index of shards", file=index, fix="copy the file again") from None
    for name in pairs.values():
        if Path(name).name != name:
            raise BadInput(f"names a file outside the folder: {name}", file=index)
    return pairs


def _malformed(file: Path, problem: str) -> BadInput:
    return BadInput(
        f"is no whole safetensors file: {problem}", file=file, fix="copy the file again"
    )
