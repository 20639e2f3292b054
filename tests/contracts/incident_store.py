"""What every store of incidents must do; run on the fake and on MLflow."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quality_lib.errors import BadInput
from quality_lib.rollout.incident import IncidentRecord
from quality_lib.rollout.ports import IncidentStore
from tests.fakes_incidents import InMemoryIncidents

__all__ = ["InMemoryIncidents", "IncidentStoreContract", "incident"]

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
DECISION = {
    "action": "rollback",
    "conditions": [{"name": "A", "state": "yes", "inputs": [{"run": "g-1", "similarity": 0.31}]}],
}


def incident(service: str, number: int = 0, **more: Any) -> IncidentRecord:
    """An open incident of the service; later numbers are opened later."""
    given: dict[str, Any] = {
        "incident_id": f"{service}-0badc0de-{number}",
        "service": service,
        "state": "open",
        "opened_at": AT + timedelta(minutes=number),
        "closed_at": None,
        "bad_deployment_key": "0badc0de12345678",
        "bad_snapshot_id": None,
        "target_snapshot_id": None,
        "mode": "auto",
        "reason": "two golden runs in a row failed",
        "url": "",
    }
    return IncidentRecord(**given | more)


def without_url(record: IncidentRecord | None) -> IncidentRecord | None:
    return None if record is None else replace(record, url="")


class IncidentStoreContract:
    """Subclasses give the fixture ``store``."""

    @pytest.fixture
    def service(self) -> str:
        return f"chat-{uuid.uuid4().hex[:8]}"

    def test_nothing_is_known_at_first(self, store: IncidentStore, service: str) -> None:
        assert store.history(service) == ()
        assert store.find(f"{service}-unknown-0") is None

    def test_what_was_opened_is_read_back_with_its_decision(
        self, store: IncidentStore, service: str
    ) -> None:
        record = incident(service)
        assert without_url(store.open(record, DECISION)) == record
        assert without_url(store.find(record.incident_id)) == record
        assert store.decision(record.incident_id) == DECISION
        assert [without_url(r) for r in store.history(service)] == [record]

    def test_opening_again_changes_nothing(self, store: IncidentStore, service: str) -> None:
        first = store.open(incident(service), DECISION)
        again = store.open(incident(service, reason="another word", mode="alert-only"), {"x": 1})
        assert again == first
        assert store.decision(first.incident_id) == DECISION
        assert len(store.history(service)) == 1

    def test_two_openers_at_once_open_one(self, store: IncidentStore, service: str) -> None:
        record = incident(service)
        failures: list[BaseException] = []

        def open_it() -> None:
            try:
                store.open(record, DECISION)
            except BaseException as error:
                failures.append(error)

        openers = [threading.Thread(target=open_it) for _ in range(3)]
        for opener in openers:
            opener.start()
        for opener in openers:
            opener.join()
        assert failures == []
        assert [without_url(r) for r in store.history(service)] == [record]

    def test_it_is_updated_and_closed(self, store: IncidentStore, service: str) -> None:
        record = store.open(incident(service), DECISION)
        rolling = replace(record, state="rolling", target_snapshot_id="f" * 64)
        store.update(rolling)
        assert without_url(store.find(record.incident_id)) == without_url(rolling)
        done = replace(rolling, state="done", closed_at=AT + timedelta(hours=1))
        store.update(done)
        store.update(done)
        assert without_url(store.history(service)[0]) == without_url(done)

    @pytest.mark.parametrize("closed", ["done", "aborted", "failed"])
    def test_what_is_closed_is_not_reopened(
        self, store: IncidentStore, service: str, closed: Any
    ) -> None:
        record = store.open(incident(service), {})
        store.update(replace(record, state=closed, closed_at=AT))
        with pytest.raises(BadInput, match="closed"):
            store.update(replace(record, state="rolling"))
        found = store.find(record.incident_id)
        assert found is not None
        assert found.state == closed

    def test_the_newest_comes_first_and_the_limit_holds(
        self, store: IncidentStore, service: str
    ) -> None:
        for number in range(3):
            store.open(incident(service, number, state="done", closed_at=AT), {})
        ids = [r.incident_id for r in store.history(service, limit=2)]
        assert ids == [f"{service}-0badc0de-2", f"{service}-0badc0de-1"]

    def test_services_do_not_see_each_other(self, store: IncidentStore, service: str) -> None:
        store.open(incident(service), {})
        assert store.history(f"{service}-more") == ()

    def test_files_and_numbers_are_published_again_and_again(
        self, store: IncidentStore, service: str, tmp_path: Path
    ) -> None:
        record = store.open(incident(service), {})
        page = tmp_path / "draft.html"
        for text in ("first", "second"):
            page.write_text(text, encoding="utf-8")
            store.publish(
                record.incident_id,
                {"post-mortem.html": page, "evidence/old.tar.gz": page},
                {"minutes_to_recovery": 3.5},
            )
        assert self.content(store, record.incident_id, "post-mortem.html") == b"second"
        assert self.content(store, record.incident_id, "evidence/old.tar.gz") == b"second"
        assert without_url(store.find(record.incident_id)) == without_url(record)

    def content(self, store: IncidentStore, incident_id: str, name: str) -> bytes:
        """Read a published file behind the store's back."""
        raise NotImplementedError

    @pytest.mark.parametrize("name", ["../x", "/x", "a//b", "a/../b", ""])
    def test_a_name_that_leaves_the_incident(
        self, store: IncidentStore, service: str, name: str, tmp_path: Path
    ) -> None:
        record = store.open(incident(service), {})
        file = tmp_path / "f"
        file.write_bytes(b"")
        with pytest.raises(BadInput, match="cannot be the name"):
            store.publish(record.incident_id, {name: file}, {})

    def test_a_file_that_is_not_there(
        self, store: IncidentStore, service: str, tmp_path: Path
    ) -> None:
        record = store.open(incident(service), {})
        with pytest.raises(BadInput, match="does not exist"):
            store.publish(record.incident_id, {"a.html": tmp_path / "nothing"}, {})

    def test_an_unknown_incident_is_bad_input(self, store: IncidentStore, service: str) -> None:
        record = incident(service)
        for act in (
            lambda: store.update(record),
            lambda: store.decision(record.incident_id),
            lambda: store.publish(record.incident_id, {}, {}),
        ):
            with pytest.raises(BadInput, match="there is no incident"):
                act()
