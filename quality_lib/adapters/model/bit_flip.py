"""Flip one bit of one weight in a model folder: the smallest silent fault, for demo and benchmarks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from quality_lib.adapters.model.safetensors_files import BITS, tensors_of
from quality_lib.errors import BadInput


@dataclass(frozen=True)
class BitFlip:
    """What was flipped; flipping it again undoes it."""

    file: Path
    tensor: str
    element: int
    bit: int
    """0 is the lowest; 14 is the highest exponent bit of bfloat16."""
    byte_offset: int
    """In the file."""


def flip_bit(folder: Path, tensor: str, element: int, bit: int) -> BitFlip:
    """Flip a bit in place and flush it to disk; the file keeps size and name.

    Raises:
        BadInput: no such tensor, element or bit.
    """
    places = tensors_of(folder)
    if tensor not in places:
        raise BadInput(f"there is no tensor '{tensor}'", file=folder)
    place = places[tensor]
    width = BITS.get(place.dtype, 8)
    count = place.size * 8 // width
    if not 0 <= element < count or not 0 <= bit < width:
        raise BadInput(
            f"'{tensor}' has {count} elements of {width} bits; element {element}, bit {bit} is outside",
            file=place.file,
        )
    # safetensors is little-endian: bit 8 lies in the second byte of the element.
    offset = place.offset + element * width // 8 + bit // 8
    descriptor = os.open(place.file, os.O_RDWR)
    try:
        (old,) = os.pread(descriptor, 1, offset)
        os.pwrite(descriptor, bytes([old ^ (1 << bit % 8)]), offset)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return BitFlip(place.file, tensor, element, bit, offset)
