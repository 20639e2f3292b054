"""Every short cut of the gates gives what the plain rule gives.

The plain rules stand here, written for reading; the package holds what does the same in less time.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from itertools import pairwise

import pytest
from ftfy.badness import BADNESS_RE, MOJIBAKE_CATEGORIES
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.gates import (
    damaged_text,
    language,
    loop,
    normalise,
    parameter_ranges,
    periodic,
    repetition,
    scripts_of,
    soup,
    stutter,
    wishes,
)
from quality_lib.gates.answer_view import WORDS, AnswerView, are_words, words_of
from quality_lib.gates.function_words import OF_LANGUAGE
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.periodic import Run, closing_run
from quality_lib.gates.stems import StemIndex, Stems, stems
from quality_lib.gates.word_pairs import PAIRS, may_hold_pair
from quality_lib.gates.word_signs import equal_neighbours, signs_of
from quality_lib.records import Verdict

LIMITS = OutputLimits()
PIECES = [
    "the",
    "The",
    "of",
    "is",
    "a",
    "an",
    "was",
    "and",
    "in",
    "to",
    "der",
    "die",
    "und",
    "la",
    "ofthe",
    "inthe",
    "haha",
    "Ro",
    "Roma",
    "Romama",
    "Italia",
    "Italiaè",
    "don't",
    "'tis",
    "dogs'",
    "word",
    "words",
    "wording",
    "bee",
    "bees.",
    "bees,",
    "honey",
    "honey.",
    "12",
    "3,14",
    "v2",
    "x=1",
    "foo_bar",
    "a.b.c",
    "/usr/bin",
    "ABC-DEF-GHI-jkl",
    "the7714",
    "中文",
    "日本語",
    "привет",
    "κόσμος",
    "й",
    "é",
    "ß",
    "İstanbul",
    "Σίσυφος",
    "ΑΣ",
    "Ã©",
    "Â",
    "â€™",
    "ü",
    "„Ü“",
    "ŒUVRE",
    "👍",
    "\u200b",
    "�",
    "\x07",
]
BLANKS = (" ", " ", " ", " ", "  ", "\n", "\n\n", "\t", ". ", "! ", "? ", ", ", ".\n", "\u00a0", "")
RARELY = settings(max_examples=150)


@st.composite
def _texts(draw: st.DrawFn) -> str:
    """Texts of a few words in any order, some of them again and again, with other blanks between."""
    known = draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12))
    parts = draw(st.lists(st.tuples(st.sampled_from(known), st.sampled_from(BLANKS)), max_size=60))
    text = "".join(word + blank for word, blank in parts)
    unit = draw(st.sampled_from(["", "", text[-40:], "honey. ", "7, ", "go\non\n", "a  bee\n"]))
    return text + unit * draw(st.integers(0, 20))


TEXTS = _texts()


def view_of(text: str, asked: str = "Tell me of bees.") -> AnswerView:
    answer = Answer(text=text, finish_reason="length")
    return AnswerView(Exchange(prompt=asked, answer=answer), answer)


EVERY_STEM: list[Stems] = [
    value for value in vars(wishes).values() if isinstance(value, Stems)
] + list(wishes._SCRIPTS.values())
STEM_WORDS = sorted({
    word
    for one in EVERY_STEM
    for part in (*one.starts, *one.words, *one.phrases)
    for word in part.split()
})


@RARELY
@given(
    st.lists(
        st.sampled_from(STEM_WORDS) | st.sampled_from(["in", "a", "row", "x", "of"]), max_size=8
    ),
    st.sampled_from(["", "s", "ing"]),
)
def test_a_prompt_wishes_what_its_words_and_their_starts_say(words: list[str], end: str) -> None:
    read = wishes.Wishes(" ".join(words) + end)
    starts = {word[:size] for word in read.words for size in range(2, len(word) + 1)}
    for one in EVERY_STEM:
        plain = (
            not one.words.isdisjoint(read.words)
            or not one.starts.isdisjoint(starts)
            or any(phrase in read.folded for phrase in one.phrases)
        )
        assert read._has(one) == plain, one


def test_very_long_words_are_read_too_and_not_kept() -> None:
    index = StemIndex([one := stems(starts="repeat")])
    for word in ("repeat" + "x" * 10_000, "x" * 10_000):
        assert index.tells(index.told_by([word]), one) == word.startswith("repeat")
    assert len(index._known) == 0


@RARELY
@given(TEXTS)
def test_words_are_those_of_the_pattern(text: str) -> None:
    small = text.lower()
    assert not are_words(small) or words_of(small) == WORDS.findall(small)


@RARELY
@given(TEXTS)
def test_pairs_of_function_words_are_found_by_their_places(text: str) -> None:
    tokens = text.split()
    assert may_hold_pair(signs_of(tokens).places) == (not PAIRS.isdisjoint(pairwise(tokens)))


@pytest.mark.parametrize("pair", sorted(PAIRS)[::7])
def test_every_pair_has_its_places(pair: tuple[str, str]) -> None:
    assert may_hold_pair(signs_of(["Well", *pair, "so"]).places)


@RARELY
@given(TEXTS)
def test_small_tokens_are_those_of_the_small_text(text: str) -> None:
    assert view_of(text).small_tokens == view_of(text).prose.lower().split()


def _plain_closing_run(text: str) -> Run | None:
    """The longest of the runs that either probe finds."""
    found = []
    for size in periodic.PROBES:
        at = text.rfind(text[-size:], max(0, len(text) - size - 2_000), len(text) - 1)
        if len(text) > size and at >= 0:
            found.append(periodic._run_through(text, at, len(text) - size, size))
    closing = [run for run in found if run is not None and run.end == len(text)]
    return max(closing, key=lambda run: run.length, default=None)


@RARELY
@given(TEXTS)
def test_the_shorter_probe_settles_that_nothing_closes(text: str) -> None:
    assert closing_run(text) == _plain_closing_run(text)


@RARELY
@given(st.text("ab\x00~", max_size=40))
def test_equal_neighbours_are_found(signs: str) -> None:
    plain = [at for at in range(len(signs) - 1) if signs[at] == signs[at + 1]]
    assert equal_neighbours(signs) == plain


@RARELY
@given(TEXTS)
def test_words_that_start_as_the_one_before_are_found(text: str) -> None:
    answer = view_of(text)
    found = stutter._starts(answer)
    plain = {(a, b) for a, b in pairwise(answer.prose.lower().split()) if b.startswith(a)}
    matters = {(a, b) for a, b in plain if a == b or len(a) > 1}
    assert matters <= found <= plain


KINDS = {
    "f": "the",
    "w": "honey",
    "n": "Anna",
    "d": "12",
    "m": "-",
    "o": "foo_bar",
    "g": "the7714",
}


@RARELY
@given(st.text("ffffwwwwnddmog", min_size=10, max_size=60))
def test_no_window_that_says_something_is_passed_over(wanted: str) -> None:
    answer = view_of(" ".join(map(KINDS.__getitem__, wanted)))
    kinds = answer.kinds
    small = kinds.lower()
    told = set(soup._odd_windows(small, LIMITS))
    for start in soup._starts(len(kinds)):
        if kinds and start not in told:
            window = soup._Window(answer, answer.tokens, kinds, small, start)
            assert soup._window(window, LIMITS) is None


@RARELY
@given(TEXTS)
def test_an_end_that_does_not_recur_closes_no_run(text: str) -> None:
    answer = view_of(text)
    if not loop._end_recurs(text):
        assert closing_run(answer.flat) is None
    if not loop._end_recurs(text, or_number=True):
        masked = re.sub(r"00+", "0", answer.flat.translate(loop._COUNTED))
        assert closing_run(masked) is None


@RARELY
@given(TEXTS)
def test_sentences_are_split_as_by_the_pattern(text: str) -> None:
    answer = view_of(text)
    plain = [one for one in map(str.strip, repetition._ENDS.split(answer.prose)) if one]
    assert [one for one in map(str.strip, repetition._split(answer)) if one] == plain


def _plain_sentences(answer: AnswerView) -> float:
    wordy = [
        one
        for one in map(str.strip, repetition._ENDS.split(answer.prose))
        if len(one) >= 16 and sum(map(str.isalpha, one)) > 0.6 * len(one)
    ]
    again = sum(len(one) * n for one, n in Counter(wordy).items() if n >= 3)
    return again / max(1, len(answer.body))


SENTENCES = st.lists(
    st.sampled_from(["The bees bring honey home. ", "1 2 3 4 5 6 7 8 9 10 11. ", "A quiet pond lies there! "]),
    max_size=30,
).map("".join)  # fmt: skip


@RARELY
@given(SENTENCES | TEXTS)
def test_repeated_sentences_are_judged_by_their_share(text: str) -> None:
    answer = view_of(text)
    if repetition._sentences(answer, LIMITS) is not None:
        assert _plain_sentences(answer) >= LIMITS.repeated_share
    elif len(answer.body) >= 6 * LIMITS.min_characters:
        pieces = [p for p in answer.prose.replace("\n", ". ").split(". ") if len(p) >= 16]
        is_varied = len(pieces) - len(set(pieces)) < 2
        assert is_varied or _plain_sentences(answer) < LIMITS.repeated_share


@RARELY
@given(TEXTS, st.sampled_from([0.1, 0.34, 0.7]))
def test_phrases_are_passed_over_only_where_too_few_come_again(text: str, share: float) -> None:
    answer = view_of(text)
    words = words_of(answer.small)
    fours = list(zip(words, words[1:], words[2:], words[3:], strict=False))
    most = 5 * (len(fours) - len(set(fours))) / max(1, len(words))
    exact = repetition._known_share(WORDS.findall(answer.small))
    if not repetition._may_be_known(answer, share):
        assert most < share or exact < share
    elif are_words(answer.small):
        assert most >= share


@RARELY
@given(TEXTS)
def test_runs_of_other_scripts_are_those_of_one_search(text: str) -> None:
    plain = [(m.lastgroup, *m.span()) for m in scripts_of._RUNS.finditer(text)]
    assert [tuple(run) for run in scripts_of.foreign_runs(text)] == plain


def test_every_other_script_is_seen_in_its_bytes() -> None:
    letters = scripts_of._BEYOND_LATIN.findall("".join(map(chr, range(sys.maxunicode + 1))))
    missed = [c for c in letters if not scripts_of._may_go_beyond(f"a{c}") and c.isprintable()]
    assert missed == []


def test_no_run_starts_where_the_search_does_not_look() -> None:
    others = scripts_of._BEYOND_LATIN.sub(" ", "".join(map(chr, range(sys.maxunicode + 1))))
    assert scripts_of._RUNS.search(others) is None


MOJIBAKE = st.sampled_from(sorted({c for signs in MOJIBAKE_CATEGORIES.values() for c in signs}))


@RARELY
@given(st.lists(MOJIBAKE | st.sampled_from([*"aZ .,ÂÃØÙŒβΒвЂ€√ā‚"]), max_size=12).map("".join))
def test_what_ftfy_finds_bad_is_looked_at(text: str) -> None:
    if BADNESS_RE.search(text) is not None:
        assert damaged_text._MAY_BE_BAD.search(text) is not None


@pytest.mark.parametrize("text", ["x\x85", "aÃ ", "a Â ", "Ã x", "Œ ", "œ", "Ø\xa0Ù\xa0"])
def test_a_single_odd_sign_is_looked_at(text: str) -> None:
    assert damaged_text._MAY_BE_BAD.search(f"{text} and") is not None
    assert BADNESS_RE.search(f"{text} and") is not None


def test_nothing_printable_is_a_control_character() -> None:
    printable = "".join(c for c in map(chr, range(sys.maxunicode + 1)) if c.isprintable())
    assert damaged_text._CONTROL.search(printable) is None


@pytest.mark.parametrize("code", range(128))
def test_a_clean_prompt_holds_printable_signs_tabs_and_line_ends_alone(code: int) -> None:
    is_odd = re.search(r"[^\n\t -~]", chr(code)) is not None
    assert normalise.is_clean(f"a{chr(code)}b\nc") == (not is_odd)


@RARELY
@given(st.integers(0, 8), st.integers(0, 90), st.booleans())
def test_english_is_told_by_the_share_of_its_words(english: int, other: int, last: bool) -> None:
    prompt = ["is"] * english + ["honig"] * other
    prompt = prompt[::-1] if last else prompt
    known = sum(word in OF_LANGUAGE["en"] for word in prompt)
    assert language._may_be_english(prompt) == (known / max(1, len(prompt)) >= 0.1)


VALUES = (
    st.sampled_from([None, True, "0.5", "x", float("nan"), float("inf"), 10**30, -1, 0, 1, 2, 0.0, 1.0])
    | st.floats(-3, 3)
    | st.integers(-3, 5000)
)  # fmt: skip


@settings(max_examples=300)
@given(
    st.dictionaries(st.sampled_from([*parameter_ranges._KINDS, "stop"]), VALUES, max_size=4),
    st.sampled_from([ParameterBounds(), ParameterBounds(top_p=(0.0, 1.0))]),
)
@example({"top_p": 0}, ParameterBounds(top_p=(0.0, 1.0)))
def test_plain_parameters_have_no_finding(
    params: dict[str, object], bounds: ParameterBounds
) -> None:
    plain = {k: parameter_ranges._plain(v, bounds) for k, v in parameter_ranges._KINDS.items()}
    if parameter_ranges._are_plain(params, plain):
        assert parameter_ranges.range_findings(params, bounds) == []


def test_a_verdict_keeps_its_names() -> None:
    from quality_lib.gates.gate import Gate, GateVerdict, Level, judge
    from quality_lib.records import Outcome

    fine = Verdict(Outcome.PASSED, "a_ok", "Fine.")
    said = judge(Exchange(), [Gate("a", Level.INPUT, lambda _: fine, ())])
    assert said.gates == (GateVerdict("a", Level.INPUT, fine),)
    assert isinstance(said.gates[0], GateVerdict)
