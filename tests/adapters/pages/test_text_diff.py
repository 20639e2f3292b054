import time

import pytest

from quality_lib.adapters.pages.text_diff import LONGEST_SHOWN, Side, shorten, side_by_side, visible


def own(side: Side) -> list[str]:
    return [piece.text for piece in side.pieces if piece.is_own]


def whole(side: Side) -> str:
    return "".join(piece.text for piece in side.pieces)


@pytest.mark.parametrize(
    ("before", "after", "only_before", "only_after"),
    [
        ("the same words", "the same words", [], []),
        ("It is Paris.", "It is Rome.", ["Paris"], ["Rome"]),
        ("red green blue", "red blue", ["green"], []),
        ("中国的首都是北京。", "中国的首都是上海。", ["北京"], ["上海"]),
        ("ภาษาไทย", "ภาษาจีน", ["ไทย"], ["จีน"]),
        ("مرحبا بك معنا", "مرحبا بك هنا", ["معنا"], ["هنا"]),
        ("", "now there is text", [], ["now there is text"]),
        ("one, two", "three, four", ["one, two"], ["three, four"]),
    ],
)
def test_what_only_one_side_has_is_marked(
    before: str, after: str, only_before: list[str], only_after: list[str]
) -> None:
    shown = side_by_side(before, after)
    assert own(shown.before) == only_before
    assert own(shown.after) == only_after
    assert (whole(shown.before), whole(shown.after)) == (before, after)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b\x1bc\x7f", "a␀b␛c␡"),
        ("a\u202eb\u2066c", "a⟨U+202E⟩b⟨U+2066⟩c"),
        ("zero\u200bwidth\ufeff", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
        ("half \ud83d pair", "half ⟨U+D83D⟩ pair"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("می\u200cخواهم 👩\u200d🔬 \ufffd", "می\u200cخواهم 👩\u200d🔬 \ufffd"),
        ("a" + "\n" * 3000 + "b", "a\n⟨3,000 line ends⟩\nb"),
        ("a" + " " * 50 + "b", "a ⟨50 blanks⟩ b"),
    ],
)
def test_what_cannot_be_seen_is_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


def test_a_long_text_says_how_much_is_missing() -> None:
    assert shorten("x" * 100, 40) == ("x" * 40, 60)
    shown = side_by_side("short", "y" * 100_000)
    assert shown.after.more == 100_000 - LONGEST_SHOWN


def test_a_difference_far_inside_a_long_text_is_still_shown() -> None:
    common = "the same sentence again and again. " * 400
    shown = side_by_side(common + "apples", common + "oranges")
    assert (own(shown.before), own(shown.after)) == (["apples"], ["oranges"])
    assert shown.before.skipped == len(common) - 200


def test_texts_with_nothing_in_common_share_nothing() -> None:
    assert side_by_side("alpha beta", "gamma delta").shared == 0.0
    assert side_by_side("alpha", "alpha").shared == 1.0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("the " * 30_000, "a the " * 30_000),
        ("ab " * 700, "ba ab " * 500),
        ("的" * 100_000, "的是" * 50_000),
        ("a b c d " * 20_000, "d c b a " * 20_000),
        ("\u0301" * 100_000, "!" * 100_000),
    ],
)
def test_loops_cost_bounded_time(before: str, after: str) -> None:
    start = time.thread_time()
    side_by_side(before, after)
    assert time.thread_time() - start < 2
