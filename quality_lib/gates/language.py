"""Level 4: the answer is in another language than was asked for. Pure.

Told by function words alone, so only clear cases are: an answer of several sentences in another
language than the one that the prompt names, or in English to a prompt that is clearly not.
"""

from __future__ import annotations

import re

from quality_lib.gates.answer_view import AnswerView, View, words_of
from quality_lib.gates.function_words import OF_LANGUAGE
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import output_gate, suspect
from quality_lib.gates.scripts_of import LATIN, foreign_runs, letters_by_script
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "language_not_as_asked",
        Outcome.SUSPECT,
        "The prompt names the language of the answer, and the answer is in another.",
        source="vllm#40725, tensai#244",
    ),
    Reason(
        "language_unasked",
        Outcome.SUSPECT,
        "The answer is in English though the prompt is clearly in another language, or the other way round.",
        source="vllm#40725, tensai#244",
    ),
)
_NAMED = {
    "en": "english englisch anglais inglés inglese inglês 英语 英文 英語",
    "de": "german deutsch allemand alemán tedesco 德语",
    "fr": "french französisch français francese francés 法语",
    "es": "spanish spanisch espagnol español castellano spagnolo 西班牙语",
    "it": "italian italienisch italien italiano",
    "pt": "portuguese português portugiesisch",
    "nl": "dutch niederländisch nederlands",
    "pl": "polish polsku",
    "cs": "czech česky tschechisch",
    "sv": "swedish svenska",
    "CJK": "chinese chinesisch chinois chino cinese 中文 汉语 japanese 日本語 japonais japanisch",
    "Cyrillic": "russian russisch russe ruso русски ukrainian українською",
    "Hangul": "korean 한국어",
    "Arabic": "arabic العربية",
    "Greek": "ελληνικά",
    "Hebrew": "hebrew",
    "Devanagari": "hindi हिन्दी हिंदी",
    "Thai": "thai ภาษาไทย",
}
_NAMES = {name: code for code, names in _NAMED.items() for name in names.split()}
_ASKS = re.compile(
    r"(?:answer|reply|respond|write|antworte|schreib\w*|réponds|répondez|écris|responde|contesta|escribe|rispondi|scrivi|responda|escreva"
    r"|odpowiedz|odpověz|svara|antwoord|ответь|отвечай)\b[^.?!\n]{0,24}?\b(?:only )?(?:in|auf|en|em|po|på|in het|по-)[ -]?(?:simple |plain )?(?P<name>[^\W\d_]+)"
    r"|用(?P<han>中文|英文|英语|日本語|法语|德语|西班牙语|汉语)|(?P<kana>日本語|英語|中文)で|(?P<hangul>한국어)로",
    re.IGNORECASE,
)
_READ = 600
"""Characters at either end of a prompt that may name the language."""
_LEAST_WORDS = 20
_GLANCE = 24
_CLEAR = 0.25
"""Share of function words that running text in a language has at the least."""
_HARDLY = 0.1
"""Share of English function words from which a prompt may be English."""


def language(view: View) -> Gate:
    """Suspect answers in a language that was not asked for."""
    return output_gate("language", view, _look, REASONS)


def _look(answer: AnswerView) -> Verdict | None:
    if len(answer.tokens) < _LEAST_WORDS:
        return None
    asked = answer.exchange.last_asked
    if len(asked) > 2 * _READ:
        asked = f"{asked[:_READ]}\n{asked[-_READ:]}"
    prompt = words_of(asked.lower())
    # Looking up its words is far cheaper than the pattern, and mostly settles it.
    may_name = not _NAMES.keys().isdisjoint(prompt) or (
        not asked.isascii() and ("用" in asked or "で" in asked or "로" in asked)
    )
    named = _named(asked) if may_name else None
    words = answer.small_tokens
    if named is not None:
        return _against(answer, words, named, is_english=_share(words, "en") >= _CLEAR)
    if _may_be_english(prompt):
        return None
    return _english_to_others(answer, asked, prompt) if _share(words, "en") >= _CLEAR else None


def _may_be_english(prompt: list[str]) -> bool:
    # Its first words mostly hold enough for all of them.
    found = sum(map(OF_LANGUAGE["en"].__contains__, prompt[:_GLANCE]))
    return found >= _HARDLY * len(prompt) > 0 or _share(prompt, "en") >= _HARDLY


def _named(asked: str) -> str | None:
    match = _ASKS.search(asked)
    if match is None:
        return None
    name = match["name"] or match["han"] or match["kana"] or match["hangul"]
    return _NAMES.get(name.lower())


def _against(
    answer: AnswerView, words: list[str], named: str, *, is_english: bool
) -> Verdict | None:
    if named in OF_LANGUAGE:
        own = _share(words, named)
        is_other = named != "en" and is_english and own < 0.6 * _share(words, "en")
        counts = letters_by_script(answer.prose, foreign_runs(answer.prose))
        is_other = is_other or counts[LATIN] < 0.3 * counts.total()
    else:
        counts = letters_by_script(answer.prose, foreign_runs(answer.prose))
        is_other = counts[named] < 0.1 * counts.total()
    if not is_other or answer.wishes.languages:
        return None
    return suspect(
        "language_not_as_asked",
        f"{named} was asked for, and the answer is not in it.",
        asked=named,
        english=is_english,
    )


def _english_to_others(answer: AnswerView, asked: str, prompt: list[str]) -> Verdict | None:
    """Judge an English answer to a prompt that is clearly in another language."""
    if not _is_foreign(asked, prompt):
        return None
    wishes = answer.wishes
    if wishes.languages or wishes.code or "english" in wishes.small:
        return None
    return suspect(
        "language_unasked", "An English answer to a prompt in another language.", asked="prompt"
    )


def _is_foreign(asked: str, words: list[str]) -> bool:
    """Whether a prompt is clearly in another language than English."""
    if not asked.isascii():
        counts = letters_by_script(asked, foreign_runs(asked))
        if counts[LATIN] < 0.3 * counts.total() and counts.total() >= 6:
            return True
    if len(words) < 5:
        return False
    return max(_share(words, code) for code in OF_LANGUAGE if code != "en") >= 0.4


def _share(words: list[str], code: str) -> float:
    return sum(map(OF_LANGUAGE[code].__contains__, words)) / max(1, len(words))
