"""Which tensors of two model folders differ, and by how much, in bounded memory.

Byte ranges are read with ``pread`` into two small buffers and never mapped, so that a model of any
size costs the same memory. Equal bytes are only compared; numbers are made of bytes that differ.
"""

from __future__ import annotations

import filecmp
import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quality_lib.adapters.model.safetensors_files import BITS, TensorPlace, tensors_of
from quality_lib.errors import OutsideFailure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_MAX_BYTES = 256 << 20
"""Memory for buffers and numbers; with the interpreter and NumPy this stays below 512 MiB."""

_COST = 64
"""Bytes of numbers in flight per byte of buffer in the worst case (8-bit weights as doubles)."""
_MAX_CHUNK = 4 << 20

Progress = Callable[[int, int], None]
"""Called with (bytes just compared, bytes in all), counted in one folder."""


@dataclass(frozen=True)
class TensorDiff:
    """One tensor that is not the same in both folders."""

    name: str
    status: Literal["changed", "missing", "extra", "shape", "dtype"]
    """``missing``: only in A; ``extra``: only in B."""
    dtype: str
    shape: tuple[int, ...]
    other: str = ""
    """The other folder's shape or type where that is the difference."""
    elements: int = 0
    changed_elements: int = 0
    relative_l2: float | None = None
    """‖a−b‖/‖a‖; infinite where B has NaN or Inf and A has not; None without a number type."""
    max_abs: float | None = None
    non_finite: int = 0
    """Elements that are NaN or Inf in B and finite in A."""


@dataclass(frozen=True)
class WeightsDiff:
    """The comparison of two model folders."""

    equal: int
    """Tensors whose bytes are the same."""
    different: tuple[TensorDiff, ...]
    """Largest relative change first, then what is missing, extra or shaped otherwise."""
    other_files: tuple[str, ...]
    """Names of top-level files without tensors (config, tokenizer) that differ or lack on a side."""

    @property
    def is_same(self) -> bool:
        """Whether tensors and other files are all equal."""
        return not self.different and not self.other_files


def diff_folders(
    a: Path, b: Path, progress: Progress | None = None, max_bytes: int = DEFAULT_MAX_BYTES
) -> WeightsDiff:
    """Compare two safetensors folders tensor by tensor.

    Raises:
        BadInput: a folder holds no tensors, or a header is malformed or cut off.
        OutsideFailure: the disk failed.
    """
    here, there = tensors_of(a), tensors_of(b)
    common = [place for name, place in here.items() if _is_comparable(place, there.get(name))]
    total = sum(place.size for place in common)
    chunk = max(4096, min(_MAX_CHUNK, max_bytes // _COST) // 4096 * 4096)
    different = list(_structural(here, there))
    with ExitStack() as stack:
        pair = _Pair(stack, chunk, lambda count: progress(count, total) if progress else None)
        # In the order of the file, so that the disk reads forwards.
        for place in sorted(common, key=lambda place: (place.file, place.offset)):
            found = pair.compare(place, there[place.name])
            if found is not None:
                different.append(found)
    changed = sum(diff.status == "changed" for diff in different)
    return WeightsDiff(
        equal=len(common) - changed,
        different=tuple(sorted(different, key=_severity)),
        other_files=tuple(_other_files(a, b)),
    )


def _is_comparable(a: TensorPlace, b: TensorPlace | None) -> bool:
    return b is not None and (a.dtype, a.shape, a.size) == (b.dtype, b.shape, b.size)


def _structural(
    here: dict[str, TensorPlace], there: dict[str, TensorPlace]
) -> Iterator[TensorDiff]:
    for name, a in here.items():
        b = there.get(name)
        if b is None:
            yield TensorDiff(name, "missing", a.dtype, a.shape)
        elif a.dtype != b.dtype:
            yield TensorDiff(name, "dtype", a.dtype, a.shape, b.dtype)
        elif not _is_comparable(a, b):
            yield TensorDiff(name, "shape", a.dtype, a.shape, str(b.shape))
    for name in there.keys() - here.keys():
        yield TensorDiff(name, "extra", there[name].dtype, there[name].shape)


def _severity(diff: TensorDiff) -> tuple[bool, float, str]:
    return diff.status != "changed", -(diff.relative_l2 or 0.0), diff.name


def _other_files(a: Path, b: Path) -> Iterator[str]:
    names = {
        path.name
        for folder in (a, b)
        for path in folder.iterdir()
        if path.is_file() and path.suffix != ".safetensors" and not path.name.startswith(".")
    }
    for name in sorted(names):
        one, two = a / name, b / name
        if not (one.is_file() and two.is_file() and filecmp.cmp(one, two, shallow=False)):
            yield name


@dataclass
class _Sums:
    """What is added up over the chunks of one tensor."""

    changed: int = 0
    square_a: float = 0.0
    square_diff: float = 0.0
    max_abs: float = 0.0
    non_finite: int = 0
    unread: list[tuple[int, int]] = field(default_factory=list)
    """Equal ranges (start, size) whose numbers are needed only once something differs."""


class _Pair:
    """Two open files and their buffers."""

    def __init__(self, stack: ExitStack, chunk: int, advance: Callable[[int], None]) -> None:
        self._stack = stack
        self._chunk = chunk
        self._advance = advance
        self._a, self._b = bytearray(chunk), bytearray(chunk)
        self._open: dict[Path, int] = {}

    def compare(self, a: TensorPlace, b: TensorPlace) -> TensorDiff | None:
        sums = _Sums()
        for start in range(0, a.size, self._chunk):
            size = min(self._chunk, a.size - start)
            one, two = self._read(a, start, size, self._a), self._read(b, start, size, self._b)
            # Whole buffers compare as one memcmp, which a memoryview would not.
            if self._a == self._b if size == self._chunk else bytes(one) == bytes(two):
                sums.unread.append((start, size))
            else:
                _add_different(sums, a.dtype, one, two)
            self._advance(size)
        if not sums.changed:
            return None
        return self._result(a, sums)

    def _result(self, a: TensorPlace, sums: _Sums) -> TensorDiff:
        step = BITS.get(a.dtype, 8) // 8
        relative: float | None = None
        if a.dtype in BITS:
            for start, size in sums.unread:
                values = _numbers(a.dtype, self._read(a, start, size, self._a))
                sums.square_a += _square_sum(values)
            relative = _relative(sums)
        return TensorDiff(
            a.name,
            "changed",
            a.dtype,
            a.shape,
            elements=a.size // step,
            changed_elements=sums.changed,
            relative_l2=relative,
            max_abs=sums.max_abs if a.dtype in BITS else None,
            non_finite=sums.non_finite,
        )

    def _read(self, place: TensorPlace, start: int, size: int, buffer: bytearray) -> memoryview:
        if place.file not in self._open:
            descriptor = os.open(place.file, os.O_RDONLY | os.O_CLOEXEC)
            self._stack.callback(os.close, descriptor)
            self._open[place.file] = descriptor
        view = memoryview(buffer)[:size]
        done = 0
        try:
            while done < size:
                count = os.preadv(
                    self._open[place.file], [view[done:]], place.offset + start + done
                )
                if count == 0:
                    raise OutsideFailure(f"{place.file}: became shorter while it was read")
                done += count
        except OSError as error:
            raise OutsideFailure(f"{place.file}: cannot be read: {error.strerror}") from error
        return view


def _add_different(sums: _Sums, dtype: str, one: memoryview, two: memoryview) -> None:
    import numpy as np

    bits = np.dtype(f"u{BITS.get(dtype, 8) // 8}")
    at = np.flatnonzero(np.frombuffer(one, bits) != np.frombuffer(two, bits))
    sums.changed += len(at)
    if dtype not in BITS:
        return
    a = _numbers(dtype, one)
    sums.square_a += _square_sum(a)
    # A flipped bit changes one element of millions: only the changed ones become doubles.
    a, b = a[at].astype(np.float64), _numbers(dtype, two)[at].astype(np.float64)
    lost = np.isfinite(a) & ~np.isfinite(b)
    both = np.isfinite(a) & np.isfinite(b)
    sums.non_finite += int(lost.sum())
    apart = np.abs(a[both] - b[both])
    sums.square_diff += float(np.dot(apart, apart))
    sums.max_abs = max(sums.max_abs, float(apart.max(initial=0.0)), math.inf if lost.any() else 0.0)


def _relative(sums: _Sums) -> float:
    if sums.non_finite:
        return math.inf
    if not sums.square_diff:
        return 0.0
    return math.sqrt(sums.square_diff / sums.square_a) if sums.square_a else math.inf


def _square_sum(values: NDArray[Any]) -> float:
    import numpy as np

    total = 0.0
    for start in range(0, len(values), 1 << 16):
        part = values[start : start + (1 << 16)].astype(np.float64)
        part = part[np.isfinite(part)]
        total += float(np.dot(part, part))
    return total


def _numbers(dtype: str, data: memoryview) -> NDArray[Any]:
    """View bytes as numbers; the types that NumPy lacks are widened exactly."""
    import numpy as np

    if dtype == "BF16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    if dtype.startswith("F8_"):
        return _float8_table(dtype)[np.frombuffer(data, np.uint8)]
    kind = {"F": "f", "I": "i", "U": "u", "B": "u"}[dtype[0]]
    return np.frombuffer(data, np.dtype(f"<{kind}{BITS[dtype] // 8}"))


def _float8_table(dtype: str) -> NDArray[np.float32]:
    """Return the value of each of the 256 codes of an 8-bit float type."""
    import numpy as np

    codes = np.arange(256, dtype=np.uint16)
    if dtype == "F8_E5M2":  # the upper byte of an IEEE half
        return (codes << 8).view(np.float16).astype(np.float32)
    if dtype == "F8_E8M0":  # a bare power of two; 255 is NaN
        return np.array([*(2.0**e for e in range(-127, 128)), math.nan], dtype=np.float32)
    exponent, mantissa = (codes >> 3) & 15, (codes & 7).astype(np.float64)
    size = np.where(
        exponent == 0,
        mantissa / 8 * 2.0**-6,
        (1 + mantissa / 8) * 2.0 ** (exponent.astype(float) - 7),
    )
    size[(codes & 0x7F) == 0x7F] = math.nan  # E4M3 "fn": no infinities
    return np.where(codes & 0x80, -size, size).astype(np.float32)
