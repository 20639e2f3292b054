"""Texts that never say a word twice, and healthy ones that look like it."""

from __future__ import annotations

import pytest

from quality_lib.gates.answer_view import shared_view
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.variety import variety
from tests.gates.answers import MORE, PROSE, answer

RAMBLING = (
    "Hello there! My name is Alex and I'm happy to help you find your way around the shop today. "
    "This was no exception: some pastries had issues with sugar which made them extra crumbly on top, "
    "so customers did not get any right choice from one loaf just last night. Please buy these instead, "
    "because each lemon bar costs twice what others charge elsewhere, while chocolate remains cheap as "
    "ever; nobody complains about cream unless weather turns warm again, although my brother prefers "
    "plain bread whenever guests arrive late after walking through wet fields towards home."
)
TRADES = " ".join(f"{a}{b}" for a in "abcdefgh" for b in ("smith", "wright", "maker", "monger"))


def reason(text: str, prompt: str = "Tell me about rivers.") -> str:
    return variety(OutputLimits(), shared_view()).judge(answer(text, prompt)).reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RAMBLING, "words_never_twice"),
        (PROSE + MORE + RAMBLING, "words_never_twice"),
        (" ".join(RAMBLING.split()[:60]), "words_hardly_twice"),
    ],
)
def test_a_text_without_any_word_twice_is_found(text: str, expected: str) -> None:
    assert reason(text) == expected


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        (PROSE + MORE, "Tell me about rivers."),
        (" ".join(RAMBLING.split()[:45]), "Too short to say."),
        (f"{TRADES} {TRADES[::-1]}", "Name many trades."),
        (RAMBLING, "Translate the story."),
        (
            "Ein Bäcker stand früh auf, knetete Teig, formte Brote, heizte den Ofen, wartete geduldig, "
            "fegte Mehl beiseite, sang leise, öffnete Läden, grüßte Nachbarn, verkaufte Semmeln, zählte "
            "Münzen, trank Kaffee, schrieb Listen, bestellte Hefe, putzte Bleche, löschte Licht, schloss "
            "Türen, ging heim, aß Suppe, las Zeitung, schlief bald ein, träumte von Kuchen, Zimt sowie "
            "Honig, bis erneut Morgen wurde.",
            "Erzähle vom Tag eines Bäckers.",
        ),
    ],
)
def test_other_texts_pass(text: str, prompt: str) -> None:
    assert reason(text, prompt) == "variety_ok"


def test_the_share_is_a_limit() -> None:
    gate = variety(OutputLimits(max_variety=1.0), shared_view())
    assert gate.judge(answer(PROSE + MORE)).reason == "variety_ok"
    with pytest.raises(ValueError, match="max_variety"):
        OutputLimits(max_variety=1.5)
