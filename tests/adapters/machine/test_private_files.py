"""Secrets are written for their owner only."""

from __future__ import annotations

from pathlib import Path

from quality_lib.adapters.machine.private_files import kept_secret, write_private


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    write_private(tmp_path / "new" / "file", "text")
    assert (tmp_path / "new" / "file").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_secret_is_made_once_and_kept(tmp_path: Path) -> None:
    first = kept_secret(tmp_path / "secret")
    assert len(first) >= 32
    assert kept_secret(tmp_path / "secret") == first
    assert kept_secret(tmp_path / "other") != first


def test_a_secret_that_others_could_read_is_closed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("old\n")
    (tmp_path / "secret").chmod(0o644)
    assert kept_secret(tmp_path / "secret") == "old"
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
