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


STRING = "x9Jk2lQmZ0vTbn83hGq1LrYw7PfEoXcD5sUaNiBt6VyKzMjWR4gHe8dSxQpOuLl2cFvT0aZbXn9k3Jm"


@pytest.mark.parametrize("prompt", ["Describe the taste of lemons.", "Wie spät ist es in Rom?"])
@pytest.mark.parametrize("text", [STRING, f"{STRING[:41]}==\n"])
def test_one_string_of_letters_and_digits_is_suspect(text: str, prompt: str) -> None:
    assert verdict_of(answer(text, prompt), "letters").verdict.reason == "string_soup"
    assert found(answer(text, prompt))[0] == "SUSPECT"


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("aGVsbG8gd29ybGQsIGhvdyBhcmUgeW91PyBJIGFtIGZpbmU=", "Encode it in base64: hello world, how are you? I am fine"),
        (STRING, "Make a random token for my session."),
        (STRING, "Which API key is in this file?"),
        (STRING, f"What comes before the comma? {STRING},7"),
        ("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9eyJzdWIiOiIxMjM0NTY3ODkwIn0", "Show me a JSON web token."),
        ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "What did the last build print?"),
        ("AbstractSingletonProxyFactoryBeanConfigurationProvider2", "What is the longest name there?"),
        ("MVLSPADKTNVKAAWGKVGAHAGEYGAEALERMFLSFPTTKTYFPHF", "How does haemoglobin begin?"),
        ("https://example.com/a8F2kQ9/zT4mB7xLp0WcV3nR6sYd1eHg5jUo", "Where is it?"),
        ("Donaudampfschifffahrtselektrizitätenhauptbetriebswerk", "Das längste Wort?"),
        (f"```\n{STRING}\n```", "What does the file hold?"),
        ("G7kQ2", "What is the locker?"),
    ],
)  # fmt: skip
def test_strings_that_mean_something_pass(text: str, prompt: str) -> None:
    assert verdict_of(answer(text, prompt), "letters").verdict.reason == "letters_ok"


def test_the_whole_answer_is_suspect() -> None:
    assert found(answer(SOUP, "Translate into German: I have a red car."))[0] == "SUSPECT"
