from __future__ import annotations

import json
from pathlib import Path

import pytest

from quality_lib.adapters.files.cases import (
    builtin_path,
    load_cases,
    read_document,
    read_lines,
    read_records,
    schema_text,
    write_cases,
)
from quality_lib.errors import BadInput, OutsideFailure

LINE = '{"id": "a", "messages": [{"role": "user", "content": "Grüße 北京"}]}\n'


def test_the_built_in_set_and_its_schema_come_with_the_package() -> None:
    assert len(load_cases("builtin:core")) >= 128
    assert load_cases(str(builtin_path("core"))) == load_cases("builtin:core")
    assert json.loads(schema_text())["title"] == "Golden case"


@pytest.mark.parametrize("name", ["cor", "", "../core", "case.schema"])
def test_an_unknown_built_in_set_names_the_known_ones(name: str) -> None:
    with pytest.raises(BadInput, match="builtin:core"):
        load_cases(f"builtin:{name}")


def test_a_bad_line_is_named_by_the_reference_the_user_gave(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes(f"\ufeff{LINE}oops\r\n".encode())
    with pytest.raises(BadInput) as caught:
        load_cases(str(path))
    assert (caught.value.file, caught.value.line) == (str(path), 2)


def test_windows_line_ends_and_unicode_separators_are_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes(f"{LINE.strip()}\r\n".replace("Grüße", "Gr\u2028e").encode())
    (case,) = load_cases(str(path))
    assert case.messages[0]["content"] == "Gr\u2028e 北京"
    assert case.source.endswith("own.jsonl:1")


def test_what_cannot_be_read_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        load_cases(str(tmp_path / "none.jsonl"))
    with pytest.raises(BadInput, match="cannot be read"):
        load_cases(str(tmp_path))
    (tmp_path / "latin.jsonl").write_bytes(b"// ok\n// caf\xe9\n")
    with pytest.raises(BadInput, match="not UTF-8") as caught:
        read_lines(tmp_path / "latin.jsonl")
    assert caught.value.line == 2


def test_cases_are_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    cases = load_cases("builtin:core")
    write_cases(path, cases)
    assert load_cases(str(path)) == cases
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]


def test_an_existing_file_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("mine")
    with pytest.raises(BadInput, match="already exists"):
        write_cases(path, load_cases("builtin:core"))
    assert path.read_text() == "mine"
    write_cases(path, load_cases("builtin:core"), overwrite=True)
    assert len(load_cases(str(path))) >= 128


def test_a_failed_write_is_an_outside_failure(tmp_path: Path) -> None:
    with pytest.raises(OutsideFailure, match="cannot be written"):
        write_cases(tmp_path / "none" / "out.jsonl", load_cases("builtin:core"))


def test_documents_are_yaml_or_json(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("prompts: [a]\n")
    assert read_document(path) == {"prompts": ["a"]}
    path.write_text('{"prompts": ["a"]}')
    assert read_document(path) == {"prompts": ["a"]}
    path.write_text("a: 1\nb: [\n")
    with pytest.raises(BadInput, match="neither YAML nor JSON") as caught:
        read_document(path)
    assert caught.value.line == 3
    path.write_text("- a\n")
    with pytest.raises(BadInput, match="no object"):
        read_document(path)


def test_a_document_cannot_create_objects(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("a: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(BadInput, match="neither YAML nor JSON"):
        read_document(path)


def test_records_are_a_list_or_lines(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text('[{"input": "a"},\n {"input": "b"}]')
    assert [r["input"] for r in read_records(path)] == ["a", "b"]
    path.write_text('{"input": "a"}\n\n{"input": "b"}\n')
    assert [r["input"] for r in read_records(path)] == ["a", "b"]
    path.write_text('{"input": "a"}\n\n{"input"\n')
    with pytest.raises(BadInput, match="no JSON") as caught:
        read_records(path)
    assert caught.value.line == 3
    path.write_text('[{"input": "a"},\n {"input"]')
    with pytest.raises(BadInput, match="no JSON") as caught:
        read_records(path)
    assert caught.value.line == 2
