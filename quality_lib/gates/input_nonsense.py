"""Level 1: the prompt is no nonsense: symbols alone, mojibake, binary data. Pure."""

from __future__ import annotations

import re

import ftfy.badness
import regex

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate, Level, Reason
from quality_lib.gates.input_limits import InputLimits
from quality_lib.records import Outcome, Verdict

_REASONS = (
    Reason("input_makes_sense", Outcome.PASSED, "The prompt is text, code or signs that mean something."),
    Reason(
        "input_binary",
        Outcome.FAILED,
        "The prompt is binary data: control characters or signs that could not be decoded.",
        "gates.input.max_control_share",
    ),
    Reason(
        "input_symbols_only",
        Outcome.FAILED,
        "The prompt is a jumble of symbols without a letter, digit or picture.",
        "gates.input.min_symbols",
    ),
    Reason(
        "input_mojibake",
        Outcome.FAILED,
        "The prompt was decoded with the wrong character set.",
        "gates.input.max_mojibake_share",
        "ftfy",
    ),
    Reason(
        "input_partly_mojibake",
        Outcome.SUSPECT,
        "Parts of the prompt were decoded with the wrong character set.",
        "gates.input.suspect_mojibake_share",
        "ftfy",
    ),
    Reason("input_has_no_text", Outcome.UNJUDGED, "There is no text to judge."),
)  # fmt: skip
_LOOKED_AT = 20_000
"""Characters from the start; nonsense is nonsense from the start."""
_MEANS_SOMETHING = regex.compile(r"[\p{L}\p{N}\p{Extended_Pictographic}\u2500-\u259f\u2800-\u28ff]")
_ASCII_WORD = re.compile(r"[0-9A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffd]")
_MOJIBAKE_HINT = re.compile(
    # A lead byte of UTF-8 read as Latin-1 and its kin before what a trailing byte becomes there; the same
    # for Windows-1251 and Mac Roman; and what U+FFFD or empty memory become in GBK.
    r"[\xc2-\xf4][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
    r"|[РС][^\x00-\x7fа-яёА-Я«»“”„—–’‘…№]"
    r"|[√¬‚][^\x00-\x7f\s]"
    r"|锟斤拷|烫烫烫|屯屯屯"
)
_GBK = re.compile(r"锟斤拷|烫烫烫|屯屯屯")
_MADE_OF_CODE = re.compile(r"[-+<>.,\[\]\s]*\Z|[ \t|/\\_.:;'`~^*oO(){}<>=+-]*\n[\s\S]*\Z")
"""Programs of eight signs, and drawings of several lines."""
_ASKED_ABOUT = re.compile(
    r"(?i)encod|decod|mojibake|garbl|charset|utf-?8|latin-?1|cp-?125|unicode|乱码|文字化け|кодировк|ftfy"
)
_PASSED = Verdict(Outcome.PASSED, "input_makes_sense", "The prompt is no nonsense.")
_NO_TEXT = Verdict(Outcome.UNJUDGED, "input_has_no_text", "There is no text to judge.")


def input_nonsense(limits: InputLimits) -> Gate:
    """Fail prompts that nobody can answer; short signs, emoji, code, drawings and formulas pass."""

    def judge(exchange: Exchange) -> Verdict:
        text = exchange.last_asked[:_LOOKED_AT]
        if not text or text.isspace():
            return _NO_TEXT
        if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
            return _symbols(text, limits) or _PASSED
        # Wrongly decoded text holds control characters too, so it is asked about first.
        mojibake = _mojibake(text, limits)
        if mojibake is not None and mojibake.outcome is Outcome.FAILED:
            return mojibake
        return _binary(text, limits) or _symbols(text, limits) or mojibake or _PASSED

    return Gate("input_nonsense", Level.INPUT, judge, _REASONS)


def _binary(text: str, limits: InputLimits) -> Verdict | None:
    bad = len(_CONTROL.findall(text))
    share = bad / len(text)
    if bad < 2 or share <= limits.max_control_share:
        return None
    return Verdict(
        Outcome.FAILED,
        "input_binary",
        f"{bad} of {len(text)} characters are control characters or could not be decoded.",
        {"count": bad, "share": round(share, 4), "limit": limits.max_control_share},
    )


def _symbols(text: str, limits: InputLimits) -> Verdict | None:
    if _ASCII_WORD.search(text) or _MEANS_SOMETHING.search(text):
        return None
    symbols = "".join(text.split())
    different = len(set(symbols))
    if len(symbols) < limits.min_symbols or different < 4 or _MADE_OF_CODE.match(text.strip()):
        return None
    return Verdict(
        Outcome.FAILED,
        "input_symbols_only",
        f"The prompt is {len(symbols)} symbols of {different} kinds and nothing else.",
        {"symbols": len(symbols), "kinds": different, "limit": limits.min_symbols},
    )


def _mojibake(text: str, limits: InputLimits) -> Verdict | None:
    if text.isascii() or len(_MOJIBAKE_HINT.findall(text)) < 2:
        return None
    # Half of the sequences are control characters of Latin-1, so the text is asked about as it came.
    bad = ftfy.badness.badness(text) + len(_GBK.findall(text))
    share = bad / len(text)
    if bad < 2 or share <= limits.suspect_mojibake_share or _ASKED_ABOUT.search(text):
        return None
    evidence = {"sequences": bad, "share": round(share, 4), "limit": limits.max_mojibake_share}
    foreign = sum(not character.isascii() for character in text)
    if share > limits.max_mojibake_share and foreign * 2 > len(text):
        sentence = f"{bad} sequences in {len(text)} characters are wrongly decoded."
        return Verdict(Outcome.FAILED, "input_mojibake", sentence, evidence)
    sentence = f"{bad} sequences of the prompt look wrongly decoded."
    return Verdict(Outcome.SUSPECT, "input_partly_mojibake", sentence, evidence)
