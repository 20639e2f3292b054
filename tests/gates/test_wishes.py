from __future__ import annotations

import pytest

from quality_lib.gates.wishes import Wishes


@pytest.mark.parametrize(
    ("prompt", "copies"),
    [
        ("Say it ten times.", 10),
        ("Say it 10 times", 10),
        ("请重复十次", 10),
        ("A list of 120 zeros", 120),
        ("It was built in 1871.", 0),
        ("a journey of 500 kilometres", 0),
        ("above 5,000 euros", 5),
        ("nothing", 0),
    ],
)
def test_the_number_of_copies(prompt: str, copies: int) -> None:
    assert Wishes(prompt).copies == copies


@pytest.mark.parametrize(
    ("prompt", "wish"),
    [
        ("Repeat the word.", "repeats"),
        ("Wiederhole das.", "repeats"),
        ("请说三遍", "repeats"),
        ("20 party emojis please", "drawing"),
        ("ASCII art of a cat", "drawing"),
        ("Base64 of 96 zero bytes", "digits"),
        ("What is 1/7?", "digits"),
        ("Translate it", "languages"),
        ("What is mojibake?", "encodings"),
        ("Tell me a joke.", "free"),
        ("Let's play a game!", "free"),
        ("Spell my name.", "letters"),
        ("What is �?", "encodings"),
        ("Which special tokens are there?", "markers"),
        ("What does <think> do?", "reasoning"),
        ("How does a tool call look?", "tools"),
        ("Write a dialogue", "dialogue"),
        ("Fix the spelling", "copying"),
        ('Say "hello"', "copying"),
        ("30 nouns", "word_list"),
        ("Lorem ipsum please", "nonsense"),
        ("a Python function", "code"),
    ],
)
def test_a_wish_is_read(prompt: str, wish: str) -> None:
    assert getattr(Wishes(prompt), wish)


WISHES = [
    "repeats",
    "drawing",
    "digits",
    "languages",
    "encodings",
    "markers",
    "reasoning",
    "tools",
    "dialogue",
    "copying",
    "word_list",
    "nonsense",
    "code",
]


@pytest.mark.parametrize(
    "prompt",
    ["", "Why do leaves fall?", "请用中文回答:天空为什么是蓝色的?", "Write an essay on rivers."],
)
@pytest.mark.parametrize("wish", WISHES)
def test_ordinary_prompts_wish_for_nothing_odd(prompt: str, wish: str) -> None:
    assert not getattr(Wishes(prompt), wish)


def test_languages_and_countries_allow_their_scripts() -> None:
    assert Wishes("Who was Confucius?").scripts == {"CJK"}
    assert Wishes("A trip to Moscow and Athens").scripts == {"Cyrillic", "Greek"}
    assert Wishes("Answer in English.").scripts == frozenset()


def test_a_long_prompt_is_read_at_its_ends() -> None:
    filler = "river " * 10_000
    assert Wishes("Repeat. " + filler).repeats
    assert Wishes(filler + " Repeat.").repeats
    assert len(Wishes(filler).text) < 13_000
