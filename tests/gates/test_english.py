from __future__ import annotations

import pytest

from quality_lib.gates.answer_view import AnswerView
from quality_lib.gates.english import is_english_prompt, is_english_prose
from tests.gates.answers import PROSE, answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Why is the sky blue?", True),
        ("Name ten colours.", True),
        ("git: undo the last commit but keep the changes", True),
        ("How do you say thank you in Japanese? Is it ありがとう?", True),
        ("What does café mean?", True),
        ("Warum ist der Himmel blau?", False),
        ("Dime tres cosas que hay en el mar", False),
        ("Почему небо голубое?", False),
        ("banana", False),
        ("17 + 25", False),
        ("", False),
    ],
)
def test_a_prompt_in_english(text: str, expected: bool) -> None:
    assert is_english_prompt(text) is expected


@pytest.mark.parametrize(
    ("text", "prompt", "expected"),
    [
        (PROSE, "Tell me about rivers.", True),
        (PROSE, "Translate the text about the river into English.", False),
        ("Der Fluss entspringt in den Bergen und läuft durch drei Städte.", "Flüsse?", False),
        ('{"river": "the one that runs through the town"}', "Rivers as JSON.", False),
        ("", "Tell me about rivers.", False),
    ],
)
def test_an_answer_in_english_prose(text: str, prompt: str, expected: bool) -> None:
    exchange = answer(text, prompt)
    assert exchange.answer is not None
    assert is_english_prose(AnswerView(exchange, exchange.answer)) is expected
