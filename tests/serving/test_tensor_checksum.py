"""The checksum of tensors: what it must see, and what it must not depend on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from quality_lib.serving.tensor_checksum import (
    BLOCK_BYTES,
    checksum,
    checksum_slices,
    hash_pieces,
)

DTYPES = [
    torch.float64,
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float4_e2m1fn_x2,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,  # int4 weights come packed in these
    torch.uint16,
    torch.bool,
    torch.complex64,
]
bytes_of_tensors = st.binary(min_size=1, max_size=200)


def tensor_of(data: bytes) -> torch.Tensor:
    return torch.tensor(list(data), dtype=torch.uint8)


def pattern(size: int) -> torch.Tensor:
    """Bytes without a period that a block or a word could hide."""
    return (torch.arange(size, dtype=torch.int64) * 2_654_435_761 >> 13).to(torch.uint8)


def run(pieces: Iterator[torch.Tensor]) -> str:
    steps = hash_pieces(pieces)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return str(end.value)


@given(data=bytes_of_tensors, bit=st.integers(min_value=0))
def test_any_single_bit_is_seen(data: bytes, bit: int) -> None:
    flipped = bytearray(data)
    place = bit % (len(data) * 8)
    flipped[place // 8] ^= 1 << (place % 8)
    assert checksum(tensor_of(data)) != checksum(tensor_of(bytes(flipped)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_bit_of_every_type_is_seen(dtype: torch.dtype) -> None:
    raw = pattern(64)
    if dtype is torch.bool:
        raw %= 2
    seen = {checksum(raw.view(dtype))}
    bits = [0] if dtype is torch.bool else range(8)
    for place in range(raw.numel()):
        for bit in bits:
            changed = raw.clone()
            changed[place] ^= 1 << bit
            seen.add(checksum(changed.view(dtype)))
    assert len(seen) == 1 + raw.numel() * len(bits)


@given(data=st.binary(min_size=17, max_size=120), a=st.integers(0), b=st.integers(0))
def test_values_that_changed_places_are_seen(data: bytes, a: int, b: int) -> None:
    a, b = a % len(data), b % len(data)
    swapped = bytearray(data)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    assert (checksum(tensor_of(data)) == checksum(tensor_of(bytes(swapped)))) == (
        bytes(swapped) == data
    )


def test_blocks_that_changed_places_are_seen() -> None:
    blocks = pattern(3 * BLOCK_BYTES).view(3, -1)
    orders = [[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 1, 0]]
    assert len({checksum(blocks[order]) for order in orders}) == len(orders)


@pytest.mark.parametrize("mask", [0x80, 0x8000_0000_0000_0000 - 2**64, 0x0080_0080_0080_0080])
def test_the_same_bits_flipped_everywhere_do_not_cancel_out(mask: int) -> None:
    # Sums cancel what is odd in the top bit; the mixing before them must not let that happen.
    words = pattern(8 * 4096).view(torch.int64)
    for count in (2, 3, 4, 64, 4096):
        flipped = words.clone()
        flipped[:count] ^= mask
        assert checksum(words) != checksum(flipped)


def test_zeros_are_told_by_their_length() -> None:
    sizes = [0, 1, 7, 8, 9, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1]
    assert len({checksum(torch.zeros(n, dtype=torch.uint8)) for n in sizes}) == len(sizes)


def test_an_empty_tensor_has_a_checksum_and_no_slices() -> None:
    assert list(checksum_slices(torch.empty(0))) == []
    assert len(checksum(torch.empty(0, 5))) == 16


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(0, 3 * BLOCK_BYTES), max_size=6))
def test_it_does_not_matter_where_the_stream_is_cut(cuts: list[int]) -> None:
    whole = pattern(3 * BLOCK_BYTES + 5)
    ends = [0, *sorted(cuts), whole.numel()]
    parts = (whole[a:b] for a, b in itertools.pairwise(ends) if a < b)
    assert run(parts) == checksum(whole)


@pytest.mark.parametrize("slice_bytes", [1, BLOCK_BYTES, BLOCK_BYTES + 8, 4 * BLOCK_BYTES])
def test_nor_how_large_the_slices_are(slice_bytes: int) -> None:
    tensor = pattern(5 * BLOCK_BYTES + 2).view(torch.bfloat16)
    assert checksum(tensor, slice_bytes) == checksum(tensor)


def views() -> dict[str, torch.Tensor]:
    base = pattern(40 * 70 * 8).view(torch.int64).view(40, 70)
    return {
        "transposed": base.t(),
        "every second row": base[::2],
        "every third column": base[:, ::3],
        "a window": base[3:30, 5:50],
        "permuted": base.view(4, 10, 70).permute(2, 0, 1),
        "a stepped row": base.view(-1)[::7],
        "repeated": base[:1].expand(9, 70),
        "an odd start": pattern(801)[1:],
    }


@pytest.mark.parametrize("name", views())
def test_a_view_counts_as_its_elements_in_order(name: str) -> None:
    view = views()[name]
    assert checksum(view) == checksum(view.clone(memory_format=torch.contiguous_format))


def test_a_large_view_is_copied_slice_by_slice() -> None:
    base = pattern(16 * BLOCK_BYTES).view(4096, -1)
    sizes = list(checksum_slices(base.t(), BLOCK_BYTES))
    assert max(sizes) <= BLOCK_BYTES
    assert sum(sizes) == base.numel()
    assert checksum(base.t(), BLOCK_BYTES) == checksum(base.t().contiguous())


def by_definition(data: bytes) -> str:
    """The checksum as the module's text defines it, in plain integers."""
    mask, multiplier, total = 2**64 - 1, 0x9E3779B97F4A7C15, 0

    def weight(place: int) -> int:
        z = (place + 1) * multiplier & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return (z ^ z >> 31) | 1

    padded = data + bytes(-len(data) % 8)
    words = [int.from_bytes(padded[i : i + 8], "little") for i in range(0, len(padded), 8)]
    for start in range(0, len(words), BLOCK_BYTES // 8):
        block = 0
        for place, word in enumerate(words[start : start + BLOCK_BYTES // 8]):
            t = word * multiplier & mask
            block += (t ^ t >> 32) * weight(place)
        total = (total * multiplier + block) & mask
    return f"{(total * multiplier + len(data)) & mask:016x}"


@pytest.mark.parametrize("size", [1, 8, 801, BLOCK_BYTES + 12])
def test_the_value_is_what_the_definition_says(size: int) -> None:
    tensor = pattern(size)
    assert checksum(tensor) == by_definition(tensor.numpy().tobytes())


def test_the_value_of_a_known_tensor() -> None:
    # Stored in snapshots: another value is another format, which FORMAT must then tell.
    assert checksum(torch.arange(100_000, dtype=torch.int32)) == "07dfe1a67676f31e"


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_gpu_gives_the_same_value(dtype: torch.dtype) -> None:
    raw = pattern(3 * BLOCK_BYTES + 48)
    if dtype is torch.bool:
        raw %= 2
    host: Any = raw.view(dtype)
    assert checksum(host.to("cuda")) == checksum(host)
