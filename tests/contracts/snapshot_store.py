"""What every store of snapshots must do; run on the fake and on MLflow."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from quality_lib.errors import BadInput
from quality_lib.snapshots.audit import Action, Result
from quality_lib.snapshots.ports import Health, SnapshotStore
from tests.snapshots.builders import manifest, with_baseline


class SnapshotStoreContract:
    """Subclasses give the fixture ``store``."""

    @pytest.fixture
    def service(self) -> str:
        return f"chat/{uuid.uuid4().hex[:8]}:v1.0"

    def test_a_service_without_snapshots_is_empty(self, store: SnapshotStore, service: str) -> None:
        assert store.list(service) == ()
        assert store.aliases(service) == {}
        assert store.audit(service) == ()

    def test_what_was_created_is_read_back(
        self, store: SnapshotStore, service: str, tmp_path: Path
    ) -> None:
        wanted, files = with_baseline(tmp_path)
        created = store.create(service, wanted, files, Health.HEALTHY)
        read = store.get(service, wanted.snapshot_id)
        assert created == read
        assert read.manifest == wanted
        assert read.entry.health is Health.HEALTHY
        assert read.entry.service == service
        assert read.entry.files == ("baseline/answers/one.txt", "baseline/baseline.json")
        assert store.list(service) == (read.entry,)

    def test_creating_twice_gives_one_snapshot(self, store: SnapshotStore, service: str) -> None:
        first = store.create(service, manifest(), {})
        assert store.create(service, manifest(), {}) == first
        assert len(store.list(service)) == 1
        assert [entry.action for entry in store.audit(service)] == [Action.CREATED]

    def test_the_newest_is_listed_first(self, store: SnapshotStore, service: str) -> None:
        old = store.create(service, manifest(created_by="old"), {})
        new = store.create(service, manifest(created_by="new"), {})
        assert [e.snapshot_id for e in store.list(service)] == [new.snapshot_id, old.snapshot_id]

    def test_services_do_not_see_each_other(self, store: SnapshotStore, service: str) -> None:
        store.create(service, manifest(), {})
        assert store.list(service.replace("/", ".")) == ()

    @pytest.mark.parametrize("length", [6, 12, 64])
    def test_the_beginning_of_an_id_is_enough(
        self, store: SnapshotStore, service: str, length: int
    ) -> None:
        created = store.create(service, manifest(), {})
        assert store.get(service, created.snapshot_id[:length]) == created

    def test_a_number_is_enough_and_is_never_given_twice(
        self, store: SnapshotStore, service: str
    ) -> None:
        made = [store.create(service, manifest(created_by=name), {}) for name in ("a", "b", "c")]
        assert [one.entry.number for one in made] == [1, 2, 3]
        assert store.get(service, "2") == store.get(service, "#2") == made[1]
        store.set_alias(service, "candidate", "2", "by its number", "ada")
        assert store.aliases(service) == {"candidate": made[1].snapshot_id}
        store.remove(service, "1", "too old", "ada")
        store.remove(service, "3", "too old", "ada")
        assert store.create(service, manifest(created_by="d"), {}).entry.number == 4
        assert store.get(service, "2").manifest == made[1].manifest
        for gone in ("1", "#1", "3", "02", "0", "5", "-2", "２"):
            with pytest.raises(BadInput, match="there is no snapshot"):
                store.get(service, gone)

    @pytest.mark.parametrize("ref", ["ffffffffffff", "serving", "", "abc"])
    def test_an_unknown_snapshot_is_bad_input(
        self, store: SnapshotStore, service: str, ref: str
    ) -> None:
        store.create(service, manifest(), {})
        with pytest.raises(BadInput, match="snapshot"):
            store.get(service, ref)

    def test_an_alias_reads_back(self, store: SnapshotStore, service: str) -> None:
        created = store.create(service, manifest(), {})
        store.set_alias(service, "candidate", created.snapshot_id, "new", "ada")
        assert store.aliases(service) == {"candidate": created.snapshot_id}
        assert store.get(service, "candidate").entry.aliases == ("candidate",)

    def test_moving_serving_takes_previous_along(self, store: SnapshotStore, service: str) -> None:
        old = store.create(service, manifest(created_by="old"), {}).snapshot_id
        new = store.create(service, manifest(created_by="new"), {}).snapshot_id
        store.set_alias(service, "serving", old, "first", "ada")
        store.set_alias(service, "serving", old, "again", "ada")
        assert store.aliases(service) == {"serving": old}
        store.set_alias(service, "serving", new, "better", "ada")
        assert store.aliases(service) == {"serving": new, "previous": old}

    def test_an_alias_that_is_not_ours_is_refused(self, store: SnapshotStore, service: str) -> None:
        created = store.create(service, manifest(), {})
        with pytest.raises(BadInput, match="no alias 'champion'"):
            store.set_alias(service, "champion", created.snapshot_id, "", "ada")

    def test_the_trail_tells_who_moved_what(self, store: SnapshotStore, service: str) -> None:
        created = store.create(service, manifest(), {}).snapshot_id
        store.set_alias(service, "serving", created, "first", "bob")
        store.set_health(service, created, Health.DEGRADED, "golden run", "cron")
        trail = store.audit(service)
        assert [(e.by, e.action, e.snapshot_id) for e in trail] == [
            ("ada", Action.CREATED, created),
            ("bob", Action.ALIAS_SET, created),
            ("cron", Action.HEALTH_SET, created),
        ]
        assert trail[1].detail == {"alias": "serving", "from": "", "reason": "first"}
        assert {entry.result for entry in trail} == {Result.DONE}

    def test_health_changes(self, store: SnapshotStore, service: str) -> None:
        created = store.create(service, manifest(), {}).snapshot_id
        store.set_health(service, created, Health.RETIRED, "old", "ada")
        assert store.list(service)[0].health is Health.RETIRED

    def test_a_pinned_snapshot_stays_and_an_unpinned_one_goes(
        self, store: SnapshotStore, service: str
    ) -> None:
        old = store.create(service, manifest(created_by="old"), {}).snapshot_id
        new = store.create(service, manifest(created_by="new"), {}).snapshot_id
        for _ in range(2):
            store.set_pinned(service, old, True, "for the audit", "ada")
        assert [entry.is_pinned for entry in store.list(service)] == [False, True]
        with pytest.raises(BadInput, match="is pinned"):
            store.remove(service, old, "too old", "cron")
        store.set_pinned(service, old, False, "", "ada")
        store.set_alias(service, "previous", old, "", "ada")
        with pytest.raises(BadInput, match="is 'previous' and cannot be removed"):
            store.remove(service, old, "too old", "cron")
        store.set_alias(service, "previous", new, "", "ada")
        store.remove(service, old, "too old", "cron")
        assert [entry.snapshot_id for entry in store.list(service)] == [new]
        with pytest.raises(BadInput, match="there is no snapshot"):
            store.remove(service, old, "too old", "cron")
        did = [entry.action for entry in store.audit(service)]
        assert did.count(Action.PINNED) == did.count(Action.UNPINNED) == 1
        assert did[-1] is Action.REMOVED

    def test_what_was_removed_can_be_made_again(self, store: SnapshotStore, service: str) -> None:
        made = store.create(service, manifest(), {})
        store.remove(service, made.snapshot_id, "by mistake", "ada")
        again = store.create(service, manifest(), {})
        assert again.snapshot_id == made.snapshot_id
        assert store.list(service) == (again.entry,)

    def test_a_file_comes_back(self, store: SnapshotStore, service: str, tmp_path: Path) -> None:
        wanted, files = with_baseline(tmp_path / "in")
        stored = store.create(service, wanted, files)
        got = store.fetch_file(stored, "baseline/answers/one.txt", tmp_path / "out" / "x.txt")
        assert got.read_bytes() == b"Paris"

    def test_a_file_that_is_not_there(
        self, store: SnapshotStore, service: str, tmp_path: Path
    ) -> None:
        stored = store.create(service, manifest(), {})
        with pytest.raises(BadInput, match=r"has no file 'a.txt'"):
            store.fetch_file(stored, "a.txt", tmp_path / "a")

    @pytest.mark.parametrize("name", ["../x", "/x", "a//b", "manifest.json", "a/../b", "a\\b", ""])
    def test_a_name_that_leaves_the_snapshot(
        self, store: SnapshotStore, service: str, name: str, tmp_path: Path
    ) -> None:
        file = tmp_path / "f"
        file.write_bytes(b"")
        with pytest.raises(BadInput, match="cannot be the name"):
            store.create(service, manifest(), {name: file})
        assert store.list(service) == ()

    def test_a_missing_local_file_leaves_no_snapshot(
        self, store: SnapshotStore, service: str, tmp_path: Path
    ) -> None:
        with pytest.raises(BadInput, match="does not exist"):
            store.create(service, manifest(), {"a.json": tmp_path / "nothing"})
        assert store.list(service) == ()
