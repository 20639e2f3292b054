from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.input_limits import InputLimits
from quality_lib.gates.input_nonsense import input_nonsense
from quality_lib.records import Outcome

judge = input_nonsense(InputLimits()).judge


def misread(text: str, charset: str) -> str:
    return text.encode().decode(charset, errors="replace")


NONSENSE = {
    "keys with shift": ("@#$%^&*()_+{}|:<>?~!@#$%^&*", "input_symbols_only"),
    "symbols and blanks": ("?!? // ** ;;; %% $$ ## @@ !!", "input_symbols_only"),
    "symbols in full width": ("！＠＃＄％＾＆＊（）＿＋｛｝｜", "input_symbols_only"),
    "binary": ("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x02\x00\x00\x00", "input_binary"),
    "zeros": ("\x00" * 40, "input_binary"),
    "not decoded": ("\ufffd\ufffd\ufffd\ufffd abc \ufffd\ufffd", "input_binary"),
    "lone surrogates": ("\ud83d\ud83d\ud83d a", "input_binary"),
    "Chinese as Latin-1": (misread("请解释光合作用是如何进行的", "latin-1"), "input_mojibake"),
    "Russian as Windows-1252": (
        misread("Привет, как твои дела сегодня?", "cp1252"),
        "input_mojibake",
    ),
    "Hebrew as Latin-1": (misread("שלום מה שלומך היום", "latin-1"), "input_mojibake"),
    "French as Latin-1": (
        misread("Je voudrais réserver une chambre d'hôtel près de l'océan.", "latin-1"),
        "input_partly_mojibake",
    ),
    "German as Windows-1252": (
        misread("Wie heißt der größte Fluß in Österreich?", "cp1252"),
        "input_partly_mojibake",
    ),
}

HEALTHY = {
    "question marks": "???",
    "many of one sign": "!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!",
    "a ruler": "-" * 60,
    "an operator": "&&",
    "a smiley": ":-) ;-)",
    "a shrug": "¯\\_(ツ)_/¯",
    "thumbs up": "👍",
    "emoji": "🎉🎉🎉😀😃😄😁😆😅🤣😂🙂🙃😉😊",
    "flags and families": "🇩🇪🇫🇷👨‍👩‍👧🏳️‍🌈",
    "one word": "Weather",
    "one letter": "A",
    "a number": "42",
    "a phone number": "+49 (0)30 1234-5678",
    "a sum": "2+2=?",
    "a formula": "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋",
    "symbols of mathematics with a letter": "∑∫∂√∞≈≠≤≥ x",
    "an address": "https://example.org/a?b=c&d=%20#e",
    "base64": "What is " + base64.b64encode(bytes(range(90))).decode(),
    "hex": "DE AD BE EF 00 00 00 00",
    "a regular expression": r"^\s*(?:[^\w]|\d{3})+$",
    "code": "for(;;){if(!a[i]||(b&&~c))break;}",
    "a program of eight signs": "++++[>++++[>++>+++<<-]>-]>>.---.",
    "a drawing": " /\\_/\\\n( o.o )\n > ^ <\n~~~~~~~~~~",
    "boxes": "┌──┬──┐\n│  │  │\n└──┴──┘",
    "blocks": "▁▂▃▄▅▆▇█▇▆▅▄▃▂▁",
    "Braille": "⠓⠑⠇⠇⠕⠀⠺⠕⠗⠇⠙",
    "Chinese": "请解释光合作用",
    "Thai": "สวัสดีครับ",
    "Vietnamese": "Việt Nam đẹp lắm phải không",
    "capitals with accents": "ÀÉÎÕÜ ÇÑ — «Œuvre» © ® ™ ¼ ½ ¾ ±5 µm × 3 °C",
    "Russian of capitals": "СССР РОССИЯ «Роза» Сёстры",
    "Ukrainian": "Рівне, Світ, Річка, Сіль",
    "Icelandic": "Það er ágætt, ÐÞÆÖ",
    "Polish": "Zażółć gęślą jaźń",
    "tabs and line ends": "a\tb\r\nc\td\r\n",
    "terminal colours": "\x1b[31merror:\x1b[0m what does this mean?",
    "one lost sign": "It cost 5 \ufffd yesterday, was that much?",
    "one slip in a pasted text": "The council’s report says it wasnâ€™t ready in time. " * 3,
    "a question about it": "How do I repair the encoding of Ð¿ÑÐ¸Ð²ÐµÑ and Ã©tÃ© in Python?",
    "a question about it in Chinese": "锟斤拷锟斤拷烫烫烫 这些乱码是怎么来的?",
}


@pytest.mark.parametrize(("text", "reason"), NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_recognised(text: str, reason: str) -> None:
    verdict = judge(Exchange(prompt=text))
    assert verdict.reason == reason
    assert verdict.evidence["limit"] is not None


@pytest.mark.parametrize("text", HEALTHY.values(), ids=HEALTHY)
def test_odd_but_healthy_prompts_pass(text: str) -> None:
    assert judge(Exchange(prompt=text)).reason == "input_makes_sense"


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_text_is_not_judged(text: str) -> None:
    assert judge(Exchange(prompt=text)).outcome is Outcome.UNJUDGED


def test_only_the_last_user_message_is_judged() -> None:
    messages = (
        {"role": "user", "content": "Run it."},
        {"role": "tool", "content": "\x00\x01\x02" * 50},
        {"role": "user", "content": "What came out?"},
    )
    assert judge(Exchange(messages=messages)).outcome is Outcome.PASSED


def test_the_limits_decide() -> None:
    symbols = Exchange(prompt="#$%&/()=")
    assert judge(symbols).outcome is Outcome.PASSED
    assert input_nonsense(InputLimits(min_symbols=8)).judge(symbols).outcome is Outcome.FAILED


@given(st.text(max_size=200))
def test_no_text_makes_it_crash(text: str) -> None:
    assert judge(Exchange(prompt=text)).reason
