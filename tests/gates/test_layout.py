from __future__ import annotations

import pytest

from quality_lib.gates.layout import (
    blanked,
    code_line_share,
    fences,
    is_ruler,
    is_short_lined,
    prose_of,
    without_code_lines,
    without_inline_code,
)


def test_fences_are_taken_with_their_language_and_place() -> None:
    text = "Look:\n```Python title\na = 1\n```\nand\n~~~\nplain\n~~~\nand\n```js\ncut("
    found = fences(text)
    assert [(f.language, f.code, f.closed) for f in found] == [
        ("python", "a = 1\n", True),
        ("", "plain\n", True),
        ("js", "cut(", False),
    ]
    assert all(text[f.start :].startswith(f.code) for f in found)


@pytest.mark.parametrize(
    ("text", "gone", "kept"),
    [
        ("use `x_y` here", "x_y", "here"),
        ("a\n```\ncode\n```\nb", "code", "b"),
        ("a ``` b", "", "b"),
        ("no marks", "", "no marks"),
    ],
)
def test_code_is_blanked_out_in_place(text: str, gone: str, kept: str) -> None:
    plain = without_inline_code(blanked(text, fences(text)))
    assert len(plain) == len(text)
    assert plain.count("\n") == text.count("\n")
    assert not gone or gone not in plain
    assert text.index(kept) == plain.index(kept)


@pytest.mark.parametrize(
    "text",
    [
        "| a | b |\n|---|---|\n| x_y | 1 |",
        "a | b\n---|---\nx_y | 1",
        "see https://example.org/x_y",
        "see [it](#x_y)",
        "so $x_y = 1$ holds",
        r"so \(x_y\) holds",
    ],
)
def test_what_is_no_prose_is_blanked_out_in_place(text: str) -> None:
    prose = prose_of(text)
    assert len(prose) == len(text)
    assert "x_y" not in prose


def test_a_bar_in_a_sentence_makes_no_table() -> None:
    text = "stands of a {: | | stands of a {: |# |# |# | # |#"
    assert prose_of(text) == text


@pytest.mark.parametrize("unit", ["-", "=", "- ", "─", "|---", "+--", ".", "▓░", "*"])
def test_rulers(unit: str) -> None:
    assert is_ruler(unit)


@pytest.mark.parametrize("unit", ["a", "-a", "0", "!", "的", "🎉"])
def test_what_says_something_is_no_ruler(unit: str) -> None:
    assert not is_ruler(unit)


CODE = "import os\nfrom a import b\nx = os.path.join(a, b)\nfor i in range(3):\n    print(i)\n}"


def test_code_is_known_by_its_lines() -> None:
    assert code_line_share(CODE) == 1
    assert without_code_lines(CODE + "\nThis is a sentence.") == "This is a sentence."
    assert code_line_share("The river rises in the hills.\nIt is long, and it is cold.") == 0
    assert code_line_share("") == 0


def test_lists_and_paragraphs_are_told_apart() -> None:
    assert is_short_lined("one\ntwo\nthree")
    assert not is_short_lined("one\ntwo")
    assert not is_short_lined(
        "\n".join(["a paragraph that goes on for quite a while and then some"] * 3)
    )
