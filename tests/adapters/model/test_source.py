from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from quality_lib.adapters.model.source import DEFAULT_SOURCE, in_a_process, prepare
from quality_lib.errors import BadInput, OutsideFailure


class Converter:
    """Stands for the conversion, which takes half a minute: upper-cases the file."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.calls = 0
        self._delay_s = delay_s

    def __call__(self, gguf: Path, out: Path) -> None:
        self.calls += 1
        (out / "config.json").write_text("{}")
        time.sleep(self._delay_s)
        (out / "model.safetensors").write_text(gguf.read_text().upper())
        (out / "model.safetensors").chmod(0o600)


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_text("weights")
    return path


def test_a_conversion_is_made_once(gguf: Path, tmp_path: Path) -> None:
    convert = Converter()
    first = prepare(str(gguf), tmp_path / "cache", convert=convert)
    second = prepare(str(gguf), tmp_path / "cache", convert=convert)
    assert first.path == tmp_path / "cache" / "tiny"
    assert (first.path / "model.safetensors").read_text() == "WEIGHTS"
    assert (first.reused, second.reused, convert.calls) == (False, True, 1)
    assert first.root_sha256 == second.root_sha256
    assert first.files == second.files
    assert set(first.files) == {"config.json", "model.safetensors"}
    assert {file.stat().st_mode & 0o777 for file in first.path.iterdir()} == {0o644}


def test_another_source_or_a_changed_result_is_converted_again(gguf: Path, tmp_path: Path) -> None:
    convert = Converter()
    first = prepare(str(gguf), tmp_path / "cache", convert=convert)
    (first.path / "model.safetensors").write_text("WEIGHTz")
    assert prepare(str(gguf), tmp_path / "cache", convert=convert).files == first.files
    gguf.write_text("other")
    changed = prepare(str(gguf), tmp_path / "cache", convert=convert)
    assert (changed.path / "model.safetensors").read_text() == "OTHER"
    assert convert.calls == 3


def test_a_failed_conversion_leaves_nothing(gguf: Path, tmp_path: Path) -> None:
    def full(_: Path, out: Path) -> None:
        (out / "config.json").write_text("{}")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OutsideFailure, match="the disk is full"):
        prepare(str(gguf), tmp_path / "cache", convert=full)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".tiny.lock"]


KILLED = """
import sys, time
from pathlib import Path
from quality_lib.adapters.model.source import prepare
from tests.adapters.test_model_source import Converter
print("started", flush=True)
prepare(sys.argv[1], Path(sys.argv[2]), convert=Converter(delay_s=60))
"""


def test_a_killed_conversion_looks_unfinished_and_is_cleared_away(
    gguf: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", KILLED, str(gguf), str(cache)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 60
    while not list(cache.glob(".tiny.partial-*/config.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (cache / "tiny").exists()
    assert prepare(str(gguf), cache, convert=Converter()).reused is False
    assert not list(cache.glob("*partial*"))


def test_concurrent_calls_convert_once(gguf: Path, tmp_path: Path) -> None:
    convert = Converter(delay_s=0.3)

    def call() -> None:
        prepare(str(gguf), tmp_path / "cache", convert=convert)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert convert.calls == 1


def test_foreign_files_are_not_replaced(gguf: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("only copy")
    with pytest.raises(BadInput, match="in the way"):
        prepare(str(gguf), tmp_path / "cache", out=tmp_path / "mine", convert=Converter())
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_folder_is_used_where_it_lies(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text("w")
    model = prepare(str(folder), tmp_path / "cache")
    assert (model.path, model.reused, model.source_sha256) == (folder, True, None)
    assert not (tmp_path / "cache").exists()
    with pytest.raises(BadInput, match="leave out --out"):
        prepare(str(folder), tmp_path / "cache", out=tmp_path / "copy")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("builtin:gpt-9", "use one of: builtin:smollm2-135m"),
        ("/nowhere/x.gguf", "no such model file"),
        ("someone/some-model", r"no config\.json.*model folder on this machine"),
    ],
)
def test_bad_sources(source: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message):
        prepare(source, tmp_path / "cache")


def test_a_folder_without_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BadInput, match=r"no \*\.safetensors"):
        prepare(str(tmp_path), tmp_path / "cache")


def test_a_file_that_is_no_gguf_is_bad_input(gguf: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"tiny\.gguf: cannot be converted"):
        prepare(str(gguf), tmp_path / "cache", convert=in_a_process)


@pytest.mark.vllm
def test_the_packaged_model_converts_to_the_same_bytes_every_time(
    model_folder: Path, tmp_path: Path
) -> None:
    again = prepare(DEFAULT_SOURCE, tmp_path / "cache")
    first = prepare(str(model_folder), tmp_path / "cache")
    assert again.reused is False
    assert again.files == first.files
    assert {"model.safetensors", "tokenizer.json", "chat_template.jinja"} <= set(again.files)
