"""What a word for a snapshot means: alias, number, id, the beginning of an id."""

from __future__ import annotations

import pytest

from quality_lib.errors import BadInput
from quality_lib.snapshots.manifest import ImageRecord
from quality_lib.snapshots.ports import Health, SnapshotEntry, find

ALL_DIGITS = "1" * 64
BEGINS_LIKE_A_NUMBER = "123456" + "f" * 58


def entry(number: int, snapshot_id: str, *aliases: str) -> SnapshotEntry:
    return SnapshotEntry(
        snapshot_id=snapshot_id,
        service="chat",
        number=number,
        created_at="2026-01-01T00:00:00+00:00",
        created_by="ada",
        health=Health.HEALTHY,
        health_at="",
        aliases=aliases,
        weights_root_sha256="",
        args_sha256=None,
        image=ImageRecord(),
        vllm_version=None,
        golden_digest=None,
        files=(),
        url="",
    )


ENTRIES = (
    entry(123456, "a" * 64),
    entry(int(ALL_DIGITS), "b" * 64),
    entry(12, ALL_DIGITS, "serving"),
    entry(2, BEGINS_LIKE_A_NUMBER),
    entry(1, "123457" + "e" * 58),
)


@pytest.mark.parametrize(
    ("ref", "number"),
    [
        ("serving", 12),
        ("2", 2),
        ("#2", 2),
        ("12", 12),
        (ALL_DIGITS, 12),  # a whole id wins over a number that looks like it
        (f"#{ALL_DIGITS}", int(ALL_DIGITS)),
        ("111111", 12),
        ("#123456", 123456),
        ("123456f", 2),
        ("aaaaaa", 123456),
    ],
)
def test_one_is_meant(ref: str, number: int) -> None:
    assert find(ENTRIES, "chat", ref).number == number


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        ("3", "there is no snapshot '3' of 'chat' Fix: the newest are: #123456 aaaaaaaaaaaa,"),
        ("#", "there is no snapshot '#'"),
        ("02", "there is no snapshot '02'"),
        ("12345", "there is no snapshot '12345'"),  # too short to be the beginning of an id
        ("123456", "number of one snapshot of 'chat' and the beginning of another"),
        ("123456", "Fix: write #123456 for the number, or more of the id"),
        ("candidate", "no snapshot of 'chat' carries the alias 'candidate'"),
    ],
)
def test_what_is_unknown_or_ambiguous_is_told(ref: str, told: str) -> None:
    with pytest.raises(BadInput) as error:
        find(ENTRIES, "chat", ref)
    assert told in str(error.value)


def test_several_ids_with_the_same_beginning_are_listed() -> None:
    twins = (entry(1, "c" * 64), entry(2, "c" * 63 + "d"))
    with pytest.raises(BadInput, match="#1 cccccccccccc, #2 cccccccccccc") as error:
        find(twins, "chat", "cccccc")
    assert error.value.fix == "give more of the id"


def test_without_any_snapshot_nothing_is_listed() -> None:
    with pytest.raises(BadInput, match="the newest are: none"):
        find((), "chat", "1")
