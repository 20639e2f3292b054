"""A checksum of a tensor's bytes, computed where the tensor lies, with torch's integer operations.

The bytes are read as 64-bit words ``w``; each is mixed by a bijection and weighted by its place:

    t = w · C mod 2⁶⁴        C odd
    u = t xor (t >>> 32)
    block = Σ u · r[place]    over 32,768 words, r odd and random-looking
    sum = sum · C + block     over the blocks, in order

A change inside one word, any single bit flip above all, always changes the sum: every step is a
bijection of that word. Changes of several words, and words that changed places, go unseen with a
chance of about 2⁻³². It finds faults; against an attacker it is no protection.

Temporary memory is bounded by the slice, and the result does not depend on slice, device or threads.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterator
from typing import Any

MULTIPLIER = 0x9E3779B97F4A7C15
BLOCK_WORDS = 32_768
BLOCK_BYTES = BLOCK_WORDS * 8
HOST_SLICE = BLOCK_BYTES
"""On a CPU one block at a time: it and its temporaries stay in the second-level cache."""
DEVICE_SLICE = 64 * 2**20
"""Elsewhere large kernels, small beside the memory of a device."""
_MASK = 2**64 - 1


def checksum_slices(tensor: Any, slice_bytes: int | None = None) -> Generator[int, None, str]:
    """Read a tensor slice by slice, yielding the bytes of each; return 16 hexadecimal digits.

    The bytes are those of the elements in their logical order, whatever the strides. An empty tensor
    yields nothing.
    """
    if slice_bytes is None:
        slice_bytes = HOST_SLICE if tensor.device.type == "cpu" else DEVICE_SLICE
    pieces = byte_pieces(tensor.detach(), max(slice_bytes, BLOCK_BYTES))
    return (yield from hash_pieces(pieces))  # noqa: B901  the checksum is the generator's value


def hash_pieces(pieces: Iterator[Any]) -> Generator[int, None, str]:
    """Hash one-dimensional byte tensors as one stream, wherever it is cut; yield bytes per piece."""
    total, left, size = 0, None, 0
    for piece in pieces:
        size += piece.numel()
        if left is not None:
            piece = _join(left, piece)  # noqa: PLW2901  what the last piece left goes before it
        whole = piece.numel() // BLOCK_BYTES * BLOCK_BYTES
        if whole:
            total = _add_blocks(total, _words(piece[:whole]))
        left = piece[whole:] if whole < piece.numel() else None
        yield piece.numel()
    if left is not None:
        total = _add_blocks(total, _words(_padded(left)))
    # The length tells zeros at the end from nothing.
    return f"{(total * MULTIPLIER + size) & _MASK:016x}"  # noqa: B901  see above


def checksum(tensor: Any, slice_bytes: int | None = None) -> str:
    """Return the checksum of a tensor at once."""
    steps = checksum_slices(tensor, slice_bytes)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return str(end.value)


def byte_pieces(tensor: Any, slice_bytes: int) -> Iterator[Any]:
    """Cut a tensor into one-dimensional byte tensors of at most ``slice_bytes``, in logical order."""
    import torch

    if tensor.numel() == 0:
        return
    if tensor.is_contiguous():
        flat = tensor.reshape(-1)
        if flat.dtype.is_complex:
            flat = torch.view_as_real(flat).reshape(-1)
        flat = flat.view(torch.uint8)
        for start in range(0, flat.numel(), slice_bytes):
            yield flat[start : start + slice_bytes]
    elif tensor.dim() == 1:
        step = max(1, slice_bytes // tensor.element_size())
        for start in range(0, tensor.numel(), step):
            yield from byte_pieces(tensor[start : start + step].contiguous(), slice_bytes)
    else:
        rows = slice_bytes // max(1, tensor[0].numel() * tensor.element_size())
        if rows == 0:
            for row in tensor:
                yield from byte_pieces(row, slice_bytes)
        else:
            for start in range(0, tensor.shape[0], rows):
                yield from byte_pieces(tensor[start : start + rows].contiguous(), slice_bytes)


def _words(piece: Any) -> Any:
    import torch

    if piece.storage_offset() % 8 or piece.data_ptr() % 8:
        piece = piece.clone()
    return piece.view(torch.int64)


def _add_blocks(total: int, words: Any) -> int:
    """Add whole blocks, or one that is shorter: words of zero, which it lacks, would add nothing."""
    mixed = words * _signed(MULTIPLIER)
    high = mixed >> 32
    high &= 0xFFFFFFFF  # torch's shift keeps the sign
    mixed ^= high
    width = min(words.numel(), BLOCK_WORDS)
    blocks = mixed.view(-1, width)
    blocks *= _places(str(words.device))[:width]
    for block in blocks.sum(1).tolist():
        total = (total * MULTIPLIER + block) & _MASK
    return total


@functools.lru_cache(maxsize=16)
def _places(device: str) -> Any:
    """Return the odd weight of every place in a block: splitmix64 of the place."""
    import numpy as np
    import torch

    with np.errstate(over="ignore"):
        z = (np.arange(1, BLOCK_WORDS + 1, dtype=np.uint64)) * np.uint64(MULTIPLIER)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = (z ^ (z >> np.uint64(31))) | np.uint64(1)
    return torch.from_numpy(z.view(np.int64)).to(device)


def _padded(piece: Any) -> Any:
    """Return a piece filled up with zeros to whole words."""
    import torch

    whole = torch.zeros(-(-piece.numel() // 8) * 8, dtype=torch.uint8, device=piece.device)
    whole[: piece.numel()] = piece
    return whole


def _join(left: Any, piece: Any) -> Any:
    import torch

    return torch.cat((left, piece))


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word
