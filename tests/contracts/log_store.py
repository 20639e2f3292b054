"""What every store of logs must do; run on a folder and on S3."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from quality_lib.errors import BadInput
from quality_lib.exchanges.ports import LogStore, ObjectGone

Put = Callable[[str, bytes], None]

KEYS = ("a-1/x.json", "a/b/y.json", "a/b/z.json", "a/c.json", "b.json", "ä/ü 1+%.json")


class LogStoreContract:
    """Subclasses give the fixtures ``store`` and ``put``, which writes an object into it."""

    def test_an_empty_store_holds_nothing(self, store: LogStore) -> None:
        assert list(store.objects()) == []
        assert list(store.objects("2026-11-29/")) == []

    def test_objects_come_in_order_of_key(self, store: LogStore, put: Put) -> None:
        for key in reversed(KEYS):
            put(key, key.encode())
        found = list(store.objects())
        assert [o.key for o in found] == sorted(KEYS, key=str.encode)
        assert [o.size for o in found] == [len(o.key.encode()) for o in found]

    @pytest.mark.parametrize(
        ("prefix", "found"),
        [
            ("a/", ["a/b/y.json", "a/b/z.json", "a/c.json"]),
            ("a", ["a-1/x.json", "a/b/y.json", "a/b/z.json", "a/c.json"]),
            ("a/b/z", ["a/b/z.json"]),
            ("ä/ü", ["ä/ü 1+%.json"]),
            ("c", []),
            ("a/b/y.json/", []),
        ],
    )
    def test_a_prefix_need_not_end_at_a_folder(
        self, store: LogStore, put: Put, prefix: str, found: list[str]
    ) -> None:
        for key in KEYS:
            put(key, b"x")
        assert [o.key for o in store.objects(prefix)] == found

    def test_the_time_is_that_of_arrival_in_utc(self, store: LogStore, put: Put) -> None:
        put("now.json", b"x")
        (found,) = store.objects()
        assert found.changed_at.utcoffset() == timedelta()
        assert abs(found.changed_at - datetime.now(UTC)) < timedelta(minutes=5)

    @pytest.mark.parametrize("size", [0, 1, (1 << 20) + 1, (5 << 20) + 7])
    def test_content_comes_back_in_blocks(self, store: LogStore, put: Put, size: int) -> None:
        content = bytes(i % 251 for i in range(1009)) * (size // 1009 + 1)
        put("x/big.bin", content[:size])
        blocks = list(store.blocks("x/big.bin"))
        assert b"".join(blocks) == content[:size]
        assert all(0 < len(block) <= 1 << 20 for block in blocks)

    def test_many_objects_are_listed_page_by_page(self, store: LogStore, put: Put) -> None:
        keys = [f"2026-11-29/time-{i:05d}.json" for i in range(1100)]
        for key in keys:
            put(key, b"{}")
        assert [o.key for o in store.objects("2026-11-29/")] == keys

    def test_an_object_that_is_gone_says_so(self, store: LogStore, put: Put) -> None:
        put("here.json", b"x")
        with pytest.raises(ObjectGone, match=r"gone\.json is not"):
            list(store.blocks("gone.json"))

    @pytest.mark.parametrize("key", ["../outside.json", "a/../../outside.json"])
    def test_a_key_cannot_leave_the_root(self, store: LogStore, key: str) -> None:
        with pytest.raises(BadInput, match="leaves"):
            list(store.blocks(key))
