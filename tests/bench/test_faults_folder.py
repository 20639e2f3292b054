"""Faults of the small files of a model folder, and the copy that they are written into."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.faults.engine_changes import Flags
from bench.faults.fault import Change, Fault, Target
from bench.faults.folder_changes import Config, Template, Tokenizer, permuted
from bench.faults.model_copy import model_copy
from bench.faults.template_edits import EDITS, edited_template
from quality_lib.errors import BadInput

TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe kind<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HEALTHY = (
    "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
)
VOCABULARY = {
    "a": 0,
    "b": 1,
    "the": 2,
    "Ġof": 3,
    "Ġ": 4,
    "and": 5,
    "é1": 6,
    "Ġhello": 7,
    "<|im_end|>": 8,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"rope_parameters": {"rope_theta": 100000.0}, "x": 1}')
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    tokenizer = {"model": {"vocab": VOCABULARY}, "added_tokens": [{"content": "<|im_end|>"}]}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def _content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ("doubled_bos", f"<|im_start|>{HEALTHY}"),
        ("no_system_prompt", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"),
        ("missing_newline", "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>userHi<|im_end|>\n<|im_start|>assistant"),
        ("alpaca", "### User:\nHi\n\n### Response:\n"),
    ],
)  # fmt: skip
def test_template_edits_as_jinja_renders_them(edit: str, expected: str) -> None:
    import jinja2

    def rendered(text: str) -> str:
        environment = jinja2.Environment(trim_blocks=False, keep_trailing_newline=True)
        return environment.from_string(text).render(
            messages=[{"role": "user", "content": "Hi"}], add_generation_prompt=True
        )

    assert rendered(TEMPLATE) == HEALTHY
    assert rendered(edited_template(TEMPLATE, edit)) == expected


def test_an_edit_that_changes_nothing_or_is_unknown_is_refused() -> None:
    for text, edit in (("{{ messages }}", "no_system_prompt"), ("{{ messages }}", "upside_down")):
        with pytest.raises(BadInput):
            edited_template(text, edit)
    assert set(EDITS) == {"doubled_bos", "no_system_prompt", "missing_newline", "alpaca"}


@pytest.mark.parametrize(
    ("change", "file"),
    [
        (Config({"rope_parameters.rope_theta": 9.0}), "config.json"),
        (Template("doubled_bos"), "chat_template.jinja"),
        (Tokenizer(3), "tokenizer.json"),
    ],
)
def test_one_file_changes_and_comes_back(model: Path, change: Change, file: str) -> None:
    before = _content(model)
    undo = Fault(9, "f", "k", change, seed=2).apply(Target(folder=model))
    after = _content(model)
    assert [name for name in before if before[name] != after[name]] == [file]
    assert set(after) == set(before)
    undo()
    assert _content(model) == before


def test_the_source_of_a_linked_copy_is_never_touched(model: Path, tmp_path: Path) -> None:
    before = _content(model)
    with model_copy(model, tmp_path / "copy") as copy:
        assert (copy / "model.safetensors").stat().st_ino == (
            model / "model.safetensors"
        ).stat().st_ino
        Config({"x": 2}).apply(Target(folder=copy), 0)
        assert json.loads((copy / "config.json").read_text())["x"] == 2
        assert _content(model) == before
    assert not copy.exists()
    with model_copy(model, copy, (".safetensors",)) as copy:
        assert (copy / "model.safetensors").stat().st_ino != (
            model / "model.safetensors"
        ).stat().st_ino


def test_a_copy_is_removed_after_a_crash_and_of_no_model_refused(
    model: Path, tmp_path: Path
) -> None:
    with pytest.raises(ZeroDivisionError), model_copy(model, tmp_path / "copy"):
        raise ZeroDivisionError
    assert not (tmp_path / "copy").exists()
    with pytest.raises(BadInput, match="no model folder"), model_copy(tmp_path, tmp_path / "copy"):
        pass


def test_permuted_ids_are_a_permutation_of_merged_ascii_tokens() -> None:
    text = json.dumps({"model": {"vocab": VOCABULARY}, "added_tokens": [{"content": "<|im_end|>"}]})
    after = json.loads(permuted(text, 4, 1))["model"]["vocab"]
    assert sorted(after.values()) == sorted(VOCABULARY.values())
    moved = {token for token in VOCABULARY if VOCABULARY[token] != after[token]}
    assert moved == {"the", "Ġof", "and", "Ġhello"}
    assert permuted(text, 4, 1) == permuted(text, 4, 1)


@pytest.mark.parametrize("count", [1, 5])
def test_too_few_tokens_to_permute(count: int) -> None:
    text = json.dumps({"model": {"vocab": VOCABULARY}})
    with pytest.raises(BadInput):
        permuted(text, count, 1)


def test_a_field_that_the_config_lacks_is_refused(model: Path) -> None:
    with pytest.raises(BadInput, match="no field"):
        Config({"rope.theta": 1.0}).apply(Target(folder=model), 0)


def test_flags_are_added_last_and_taken_away() -> None:
    flags = ["--max-model-len", "2048"]
    undo = Flags(("--max-model-len", "256")).apply(Target(flags=flags), 0)
    assert flags == ["--max-model-len", "2048", "--max-model-len", "256"]
    undo()
    assert flags == ["--max-model-len", "2048"]
