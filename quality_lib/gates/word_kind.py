"""What kind of thing stands between two blanks. Pure.

Every kind is one character: small for the kind alone, capital when a mark such as a comma or full
stop follows it.
"""

from __future__ import annotations

import re

from quality_lib.gates.function_words import FUNCTION_WORDS
from quality_lib.gates.text_fold import listed

FUNCTION, WORD, NAME, NUMBER, MARK, ODD, GLUED, TWICE, FOREIGN = (
    "f",
    "w",
    "n",
    "d",
    "m",
    "o",
    "g",
    "t",
    "x",
)
"""A function word, another word in small letters, one with a capital, a number, a lone mark, what no
language writes so, a word with digits or a list of numbers stuck to it, a word stuck to its own copy, and a word in another script."""

_EDGES = "\"'“”‘’„«»‹›()[]{}<>*_~#…¿¡§†‡•–—-+/|=&"
_ENDINGS = ".,;:!?"
_MARKS = frozenset(
    listed(
        "- -- --- – — * ** *** • · & + = == => -> → ← ↔ | || / // \\ < > <= >= != ~ ≈ × ÷ ± % $ € £ ... … § © ® ™ ✓ ✗ ✅ ❌ = ≤ ≥ ≠ ∈ ∞ ° # ## ### #### :"
    )
)
_NUMBER = re.compile(
    r"[+-]?[\d.,:/'’\-–×x^%°$€£¥+()]*\d[\d.,:/'’\-–×x^%°$€£¥+()]*(?:st|nd|rd|th|s|er|e|ème|º|ª|[kKmMgGtTµμn]?(?:[gbBLlmWVAsJ]|Hz|bit|iB|Pa)"
    r"|am|pm|AM|PM|h|hr|hrs|min|sec|px|em|rem|pt|in|ft|lbs?|oz|cm²|m²|km²|km|kmh|mph|cal|kcal|mol|rpm|dpi|fps|dB|C|F|K|k|M|B|bn|x|°C|°F|D|G|p)?%?"
)
_REAL_DOUBLES = frozenset(
    listed(
        "haha hehe hoho papa mama dodo coco bonbon tutu couscous yoyo chacha cancan beriberi tartar murmur dada nana lala gogo "
        "pompom tomtom dumdum kiki lulu mimi zaza juju bobo caca pipi toto zuzu hahaha blabla froufrou wawa isis alfalfa baba "
        "lele momo nono bibi didi fifi gigi jojo kaka koko lili loulou memo mumu nini popo riri roro sisi soso titi vivi zizi "
        "mahimahi atlatl hotshots tsetse pawpaw bulbul dikdik"
    )
)
_APOSTROPHE = re.compile(r"['’]")
_LOOSE_MARK = re.compile(r"[-–/|&+=<>~^:;,!?]+\w|\w\S*\w(?:[|&=/<>^~]|--+|\.\.)[.,;:]*$")
"""A mark stuck to the wrong side of a word."""
_CHAIN = 3
"""Hyphens in one word, not all in small letters, that no name has."""
_BRAND = re.compile(r"[A-Z][a-z]+[A-Z]{2,4}s?|Mc[A-Z][a-z]+|Mac[A-Z][a-z]+|O[A-Z][a-z]+")
_BRANDS = frozenset(
    listed(
        "GitHub GitLab JavaScript TypeScript CoffeeScript YouTube LinkedIn PayPal WhatsApp iPhone iPhones iPad iPads iPod iOS macOS iPadOS "
        "watchOS eBay LaTeX PyTorch TensorFlow OpenAI ChatGPT NumPy SciPy WordPress PowerPoint OneDrive OneNote SharePoint PlayStation MasterCard "
        "FedEx DeepMind DevOps WebSocket WebSockets AirPods MacBook WiFi AirBnB SpaceX TikTok SnapChat DuckDuckGo StackOverflow VMware "
        "OpenTelemetry OpenStack OpenShift CloudFlare CloudFront CloudWatch ElasticSearch RabbitMQ GraphQL jQuery NodeJS VueJS JUnit "
        "PyCharm IntelliJ WebAssembly BitTorrent LibreOffice OpenOffice FaceTime iCloud iMessage iTunes AliExpress AstraZeneca BioNTech "
        "GlaxoSmithKline JPMorgan HubSpot MailChimp SoundCloud DoorDash PyPI BigQuery SageMaker LangChain LlamaIndex DeepSeek SmolLM HuggingFace "
        "PhD PhDs pH mRNA tRNA kWh mAh MHz GHz kHz eCommerce eBook eBooks eSports LGBTQ"
    )
)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_HASH = re.compile(
    r"[0-9a-fA-F:-]{8,}|0x[0-9a-fA-F]+|(?=\S*\d)(?=\S*[A-Z])[A-Za-z0-9+/]{20,}={0,2}"
)
_STUCK = re.compile(r"[a-z]{3,},\d+[.,]\d")
_PLAIN = re.compile(r"[^\W\d_]+(?:['’\-‑./·&][^\W\d_]+)*['’]?")
_CODE_NAME = re.compile(
    r"[A-Z][A-Za-z]{0,9}[-–]?\d{1,4}[A-Za-z]?|[A-Za-z]{1,3}\d{1,3}[A-Za-z]?|\d{1,4}[-–]?[A-Za-z]+(?:-[A-Za-z]+)*"
)
_CAMEL = re.compile(r"[a-zß-ÿ][A-ZÀ-Þ]|[A-Z]{3}[a-z]{3}")
_DOTTED = re.compile(r"[^\W\d_]{3,}\.[^\W\d_]{3,}")


def word_kind(token: str) -> str:
    """Return the kind of what stands between two blanks."""
    core = token.strip(_EDGES + _ENDINGS)
    last = token.rstrip("\"'“”‘’»›)]}*_")[-1:]
    ends = bool(last) and last in _ENDINGS
    kind = _kind(core, token)
    return kind.upper() if ends else kind


def _kind(core: str, token: str) -> str:
    if not any(map(str.isalnum, core)):
        return MARK if not token.isascii() or token in _MARKS or len(set(token)) == 1 else ODD
    lowered = core.lower()
    if lowered in FUNCTION_WORDS:
        return FUNCTION
    if _LOOSE_MARK.match(token) and not _NUMBER.fullmatch(core):
        return ODD
    if core.isascii() and core.isalpha():
        return _by_case(core, lowered)
    if _NUMBER.fullmatch(core) or _HASH.fullmatch(core) or _EMAIL.fullmatch(core):
        return NUMBER
    if not core.isascii() and any(map(_is_foreign, core)):
        return FOREIGN
    if _PLAIN.fullmatch(core):
        if core.count("-") >= _CHAIN and core[1:] != lowered[1:]:
            return ODD if core.isupper() else GLUED
        if _DOTTED.search(core):
            return ODD
        if any(piece in FUNCTION_WORDS for piece in _APOSTROPHE.split(lowered)):
            return FUNCTION
        return _by_case(core, lowered)
    if _is_glued(lowered):
        return GLUED
    return NAME if _CODE_NAME.fullmatch(core) else ODD


def _by_case(core: str, lowered: str) -> str:
    half = len(lowered) // 2
    if half > 1 and lowered[:half] == lowered[half:] and lowered not in _REAL_DOUBLES:
        return TWICE
    if core == lowered:
        return WORD
    is_odd = _CAMEL.search(core) and core not in _BRANDS and not _BRAND.fullmatch(core)
    return ODD if is_odd else NAME


def _is_glued(lowered: str) -> bool:
    """Whether a function word has digits stuck to it, or a word a list of numbers: ``the7714``."""
    if _STUCK.search(lowered):
        return True
    lowered = lowered.replace(",", "").replace(".", "")
    letters = lowered.rstrip("0123456789")
    return len(letters) >= 2 and letters in FUNCTION_WORDS and len(lowered) - len(letters) >= 2


def _is_foreign(character: str) -> bool:
    return character > "\u0370" and character.isalpha() and not "\u1e00" <= character <= "\u1eff"
