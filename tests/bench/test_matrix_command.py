"""The command line of the matrix: lists, refuses, and never mixes two forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.matrix.__main__ import main


def _code(*argv: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    return int(ended.value.code or 0)


def test_the_list_names_every_fault_of_a_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert _code("list", "--short") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 17
    assert lines[0].split()[:2] == ["1", "top-flip-0"]


def _model(tmp_path: Path) -> Path:
    (tmp_path / "chat_template.jinja").write_text(
        "{% if loop.first %}{% endif %}<|im_start|>assistant\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("only", "told"), [(("nonsense",), "there is no fault called nonsense"), (("rope-config",), "rope-config")]
)  # fmt: skip
def test_unknown_faults_are_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], only: tuple[str, ...], told: str
) -> None:
    model = _model(tmp_path)
    code = _code(
        "record", "--short", "--model", str(model), "--work", str(tmp_path / "w"), "--only", *only
    )
    assert code == 2
    assert told in capsys.readouterr().err


def test_nothing_to_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _code("score", "--work", str(tmp_path)) == 2
    assert "record first" in capsys.readouterr().err


def test_two_forms_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "form.json").write_text('{"form": "full form"}')
    assert (
        _code("record", "--short", "--model", str(_model(tmp_path)), "--work", str(tmp_path)) == 2
    )
    assert "recordings of the full form" in capsys.readouterr().err


def test_without_time_nothing_starts_and_more_is_left(tmp_path: Path) -> None:
    work = str(tmp_path / "w")
    code = _code(
        "record", "--short", "--model", str(_model(tmp_path)), "--work", work, "--minutes", "0"
    )
    assert code == 75


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "1/", "a/b", "-1/2"])
def test_a_share_that_is_none_is_refused(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["record", "--short", f"--part={part}"])
    assert ended.value.code == 2
    assert f"'{part}' is no share like 1/2" in capsys.readouterr().err
