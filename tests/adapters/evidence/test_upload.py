"""Evidence leaves the machine: to a folder, a bucket or the store of incidents, twice the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quality_lib.adapters.evidence.upload import upload
from quality_lib.errors import OutsideFailure
from quality_lib.rollout.evidence_pack import EvidencePack
from tests.contracts.incident_store import incident
from tests.fakes_incidents import InMemoryIncidents
from tests.s3_server import s3, s3_url

__all__ = ["s3", "s3_url"]


def pack(tmp_path: Path) -> EvidencePack:
    archive = tmp_path / "evidence-abc.tar.gz"
    archive.write_bytes(b"evidence")
    at = "2026-03-01T12:00:00+00:00"
    return EvidencePack("abc", "chat", "chat-0badc0de-0", at, archive, 8, "0" * 64, ())


def test_without_a_place_it_goes_beside_the_incident(tmp_path: Path) -> None:
    store = InMemoryIncidents()
    store.open(incident("chat"), {})
    for _ in range(2):
        kept = upload(pack(tmp_path), store)
    assert store.files["chat-0badc0de-0"] == {"evidence/evidence-abc.tar.gz": b"evidence"}
    assert kept.uri.endswith("/artifacts/evidence/evidence-abc.tar.gz")


def test_a_folder_takes_it(tmp_path: Path) -> None:
    for _ in range(2):
        kept = upload(pack(tmp_path), InMemoryIncidents(), str(tmp_path / "far"))
    assert Path(kept.uri).read_bytes() == b"evidence"
    assert kept.uri == f"{tmp_path}/far/chat/chat-0badc0de-0/evidence-abc.tar.gz"
    assert [p.name for p in Path(kept.uri).parent.iterdir()] == ["evidence-abc.tar.gz"]


def test_a_place_that_does_not_take_it_leaves_it_here(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutsideFailure, match=r"it stays at .*evidence-abc\.tar\.gz"):
        upload(pack(tmp_path), InMemoryIncidents(), str(tmp_path / "file" / "x"))


@pytest.mark.stack
def test_a_bucket_takes_it_and_a_missing_one_is_told(s3: Any, tmp_path: Path) -> None:
    s3.create_bucket(Bucket="evidence-bucket")
    for _ in range(2):
        kept = upload(pack(tmp_path), InMemoryIncidents(), "s3://evidence-bucket/kept/")
    assert kept.uri == "s3://evidence-bucket/kept/chat/chat-0badc0de-0/evidence-abc.tar.gz"
    key = "kept/chat/chat-0badc0de-0/evidence-abc.tar.gz"
    assert s3.get_object(Bucket="evidence-bucket", Key=key)["Body"].read() == b"evidence"
    with pytest.raises(OutsideFailure, match="it stays at"):
        upload(pack(tmp_path), InMemoryIncidents(), "s3://there-is-no-such-bucket/x")
