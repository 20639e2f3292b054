from __future__ import annotations

import pytest

from quality_lib.gates.word_kind import word_kind


@pytest.mark.parametrize(
    ("tokens", "kind"),
    [
        ("the and Der avec que d'un don't l'eau", "f"),
        ("river häuser well-known naïve", "w"),
        ("Paris Müller-Lüdenscheidt GPT-4 H2O v2", "n"),
        ("12 3.5 1,000 10:30 20% 4th $5 12kg 2024-05-04 8857f9a4-3908-4227-859d-b9165b0ee76f", "d"),
        ("- — * => ☐ │ ═══", "m"),
        ("setTray lantern_px котёл.setTray ==% ::tern x=y tower.setTray -excell stone---", "o"),
        ("the7714 springhandle,4.0,22 The9991,118", "g"),
        ("TheThe riverriver", "t"),
        ("река 雨 σάκκος", "x"),
    ],
)
def test_the_kind_of_a_word(tokens: str, kind: str) -> None:
    expected = dict.fromkeys(tokens.split(), kind)
    if kind == "o":
        # A foreign letter settles it before the glue does.
        expected["котёл.setTray"] = "x"
    assert {token: word_kind(token) for token in expected} == expected


@pytest.mark.parametrize(
    ("token", "kind"), [("river,", "W"), ("the.", "F"), ('"end."', "W"), ("(it)", "f")]
)
def test_a_mark_behind_a_word_makes_a_capital(token: str, kind: str) -> None:
    assert word_kind(token) == kind


@pytest.mark.parametrize("token", ["papa", "haha", "couscous", "Papa"])
def test_real_words_are_no_doubles(token: str) -> None:
    assert word_kind(token).lower() != "t"
