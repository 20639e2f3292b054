from __future__ import annotations

import hashlib
import os
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quality_lib.adapters.model.weights_files import BLOCK, hash_folder, verify_folder
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.snapshots.manifest import root_hash

CONTENTS = {
    "config.json": b"{}",
    "model-00001.safetensors": os.urandom(BLOCK + 7),
    "model-00002.safetensors": os.urandom(1000),
    "sub/tokenizer.json": b"[1, 2, 3]",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return _write(tmp_path / "model")


def _write(folder: Path) -> Path:
    for name, content in CONTENTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("workers", [None, 1, 3])
def test_every_file_is_hashed(folder: Path, workers: int | None) -> None:
    record = hash_folder(folder, workers=workers)
    expected = [(n, len(c), hashlib.sha256(c).hexdigest()) for n, c in sorted(CONTENTS.items())]
    assert [(f.path, f.size, f.sha256) for f in record.files] == expected
    assert record.root_sha256 == root_hash(record.files)
    assert record.uri == folder.as_uri()
    assert verify_folder(folder, record) == []


def test_progress_adds_up(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    lock = threading.Lock()

    def progress(count: int, total: int) -> None:
        with lock:
            seen.append((count, total))

    size = sum(map(len, CONTENTS.values()))
    hash_folder(folder, progress)
    assert sum(count for count, _ in seen) == size
    assert {total for _, total in seen} == {size}


def test_the_place_does_not_matter(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert hash_folder(copy).root_sha256 == hash_folder(folder).root_sha256


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_names_its_file(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = _write(tmp_path_factory.mktemp("model"))
    record = hash_folder(folder)
    name = data.draw(st.sampled_from(sorted(CONTENTS)))
    offset = data.draw(st.integers(0, len(CONTENTS[name]) - 1))
    flip = data.draw(st.integers(1, 255))
    changed = bytearray(CONTENTS[name])
    changed[offset] ^= flip
    (folder / name).write_bytes(changed)
    (difference,) = verify_folder(folder, record)
    assert (difference.path, difference.kind) == (name, "hash")
    assert difference.expected == hashlib.sha256(CONTENTS[name]).hexdigest()
    assert difference.found == hashlib.sha256(changed).hexdigest()
    assert name in difference.sentence
    shutil.rmtree(folder)


def test_a_cut_off_file_is_named_with_its_sizes(folder: Path) -> None:
    record = hash_folder(folder)
    os.truncate(folder / "model-00002.safetensors", 999)
    (difference,) = verify_folder(folder, record)
    assert difference.sentence == "model-00002.safetensors: has 999 bytes, recorded are 1000 bytes"


def test_sizes_are_compared_before_anything_is_read(folder: Path) -> None:
    record = hash_folder(folder)
    os.truncate(folder / "config.json", 1)
    read: list[int] = []
    assert verify_folder(folder, record, lambda count, _: read.append(count))[0].kind == "size"
    assert read == []


def test_missing_extra_and_wrong_files_come_sorted(folder: Path) -> None:
    record = hash_folder(folder)
    (folder / "model-00001.safetensors").unlink()
    (folder / "added.txt").write_bytes(b"x")
    os.truncate(folder / "sub/tokenizer.json", 0)
    found = verify_folder(folder, record)
    assert [(d.path, d.kind) for d in found] == [
        ("added.txt", "extra"),
        ("model-00001.safetensors", "missing"),
        ("sub/tokenizer.json", "size"),
    ]


def test_an_extra_file_does_not_hide_a_changed_one(folder: Path) -> None:
    record = hash_folder(folder)
    (folder / "added.txt").write_bytes(b"x")
    (folder / "config.json").write_bytes(b"[]")
    assert [d.kind for d in verify_folder(folder, record)] == ["extra", "hash"]


def test_a_folder_without_any_file_lacks_them_all(folder: Path, tmp_path: Path) -> None:
    record = hash_folder(folder)
    (tmp_path / "empty").mkdir()
    assert [d.kind for d in verify_folder(tmp_path / "empty", record)] == ["missing"] * 4


def test_hidden_and_lock_files_are_left_out_aloud(folder: Path) -> None:
    before = hash_folder(folder)
    for name in (".git/config", ".cache/x", "download.lock", ".hidden"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")
    said: list[str] = []
    assert hash_folder(folder, note=said.append) == before
    assert [s.split()[0] for s in said] == [".cache", ".git", ".hidden", "download.lock"]
    assert verify_folder(folder, before) == []


def test_a_cache_of_links_is_read_through(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "b1").write_bytes(b"weights")
    (snapshot / "model.safetensors").symlink_to("../../blobs/b1")
    said: list[str] = []
    (file,) = hash_folder(snapshot, note=said.append).files
    assert (file.path, file.sha256) == ("model.safetensors", hashlib.sha256(b"weights").hexdigest())
    assert "lies outside" in said[0]


def test_a_link_to_a_folder_outside_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "else").mkdir()
    (folder / "link").symlink_to(tmp_path / "else")
    with pytest.raises(BadInput, match=r"link: is a link out of the folder"):
        hash_folder(folder)


def test_a_link_to_nothing_is_named(folder: Path) -> None:
    (folder / "gone.safetensors").symlink_to("nowhere")
    with pytest.raises(BadInput, match=r"gone.safetensors: is a link to nothing"):
        hash_folder(folder)


def test_a_link_in_a_circle_ends(folder: Path) -> None:
    (folder / "loop").symlink_to(".")
    assert len(hash_folder(folder).files) == len(CONTENTS)


def test_a_pipe_does_not_block(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert len(hash_folder(folder).files) == len(CONTENTS)


@pytest.mark.parametrize(
    ("name", "told"),
    [("nowhere", "does not exist"), ("file", "is no folder"), ("empty", "is empty")],
)
def test_what_is_no_model_folder(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=told):
        hash_folder(tmp_path / name)


def test_a_folder_without_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"{}")
    with pytest.raises(BadInput, match="holds no weights"):
        hash_folder(tmp_path)


def test_a_file_name_that_is_no_text(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.safetensors")).write_bytes(b"")
    with pytest.raises(BadInput, match="no valid UTF-8"):
        hash_folder(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(folder: Path) -> None:
    (folder / "config.json").chmod(0)
    with pytest.raises(BadInput, match=r"config.json: may not be read"):
        hash_folder(folder)


def test_a_file_that_grows_while_it_is_hashed(folder: Path) -> None:
    file = folder / "model-00001.safetensors"

    def grow(count: int, total: int) -> None:
        with file.open("ab") as stream:
            stream.write(b"x")

    with pytest.raises(OutsideFailure, match=r"model-00001.safetensors: changed while"):
        hash_folder(folder, grow, workers=1)


def test_a_file_that_vanishes_while_the_folder_is_hashed(folder: Path) -> None:
    def remove(count: int, total: int) -> None:
        (folder / "config.json").unlink(missing_ok=True)

    with pytest.raises(OutsideFailure, match=r"config.json: vanished"):
        hash_folder(folder, remove, workers=1)
