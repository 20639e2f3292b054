from __future__ import annotations

import pytest

from tests.gates.answers import PROSE, answer, found, verdict_of

SOUP = "=i1>0**/0g\n\tx\tw\tv\tx\tv\tv\tv\tu\tu\tt\tt\tt\ts\tr\n\tr\tq\tp\to\tn\tn\tm\tl\tl"
BARE = "D D r k. D D, s D f D\nD D k D r D D D"


@pytest.mark.parametrize("text", [SOUP, BARE])
@pytest.mark.parametrize(
    "prompt",
    [
        "Translate into German: I have a red car.",
        "Write a Python function.",
        "Why is the sky blue?",
    ],
)
def test_letters_without_end_are_suspect(text: str, prompt: str) -> None:
    assert verdict_of(answer(text, prompt), "letters").verdict.reason == "letter_soup"


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("a b c d e f g h i j k l m n o p q r s t u v w x y z", "What do children learn first?"),
        ("B A D C A A B D C C A B D A B C", "Give me the answer key of the multiple choice test."),
        ("C D E C C D E C E F G E F G G A G F E C", "Write the notes of Frère Jacques."),
        ("x o x o o x x o x o x o x x o o x o", "Draw a board of noughts and crosses."),
        ("s u p e r c a l i f r a g i l i s t i c", "Spell it letter by letter: supercalifragilistic"),
        ("G A T T A C A G A T T A C A G A T", "A short DNA sequence, please."),
        ("t e a c h e r s a n d p u p i l s", "Return this unchanged: t e a c h e r s a n d p u p i l s"),
        ("```\nx y z x y z x y z x y z x y z x y z\n```", "Why is the sky blue?"),
        ("А Б В Г Д Е Ж З И Й К Л М Н О П Р С Т", "Why is the sky blue?"),
        ("I saw a dog", "Why is the sky blue?"),
        ("A B C D", "Which answers are right?"),
        (PROSE, "Tell me about rivers."),
    ],
)  # fmt: skip
def test_letters_that_were_asked_for_pass(text: str, prompt: str) -> None:
    assert verdict_of(answer(text, prompt), "letters").verdict.reason == "letters_ok"


def test_the_whole_answer_is_suspect() -> None:
    assert found(answer(SOUP, "Translate into German: I have a red car."))[0] == "SUSPECT"
