"""Finds e-mail addresses, phone numbers, card and account numbers and IP addresses in text. Pure.

Precision matters as much as recall: a version number, a date, an ISBN or a hash that is masked makes
a healthy answer look damaged. So card numbers must pass the Luhn check (ISO/IEC 7812) and carry an
issuer's prefix, IBANs their country's length and ISO 7064 mod 97, and phone numbers must be written
as phone numbers are: with ``+``, with a trunk ``0`` and groups, in North American groups, or after a
word such as *phone*. Every pattern begins at a boundary and is bounded: a search is linear.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class PersonalShape:
    """One kind of personal data, how it looks, and what tells it from look-alikes."""

    kind: str
    pattern: re.Pattern[str]
    """Group ``value``, where there is one, is what must go; else all of the match."""
    is_real: Callable[[re.Match[str]], bool]


def _always(_: re.Match[str]) -> bool:
    return True


def _digits(text: str) -> str:
    return "".join(c for c in text if c in "0123456789")


# --- e-mail -----------------------------------------------------------------------------------------


def _is_address(match: re.Match[str]) -> bool:
    after = match.string[match.end() : match.end() + 1]
    # ``git@host:path`` is a remote; ``q@k.transpose(`` is a matrix product.
    return after != "(" and not (after == ":" and match[0].startswith("git@"))


EMAIL = PersonalShape(
    "email",
    re.compile(
        r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}+@(?:[A-Za-z0-9-]{1,63}+\.){1,8}[A-Za-z]{2,24}+(?![A-Za-z0-9])"
    ),
    _is_address,
)


# --- cards ------------------------------------------------------------------------------------------


def passes_luhn(digits: str) -> bool:
    """Return whether the last digit is the check digit of the rest (ISO/IEC 7812-1)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (1 + place % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


_ISSUERS = re.compile(
    # Visa, Mastercard, American Express, Discover, JCB, UnionPay, Diners Club
    r"4(?:\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}|3(?:0[0-5]|[68]\d)\d{11}"
)


def _is_card(match: re.Match[str]) -> bool:
    digits = _digits(match[0])
    return _ISSUERS.fullmatch(digits) is not None and passes_luhn(digits)


CARD = PersonalShape(
    "card",
    re.compile(
        r"(?<![A-Za-z0-9_.,+-])(?:\d{14,19}+|\d{4}(?P<s>[ -])\d{4}(?P=s)\d{4}(?P=s)\d{4}(?:(?P=s)\d{3})?"
        r"|3\d{3}(?P<t>[ -])\d{6}(?P=t)\d{4,5})(?![A-Za-z0-9_]|[.,-]\d)"
    ),
    _is_card,
)


# --- bank accounts ----------------------------------------------------------------------------------

# Country → length, from the IBAN registry (ISO 13616).
_IBAN_LENGTHS = {
    code: length
    for length, codes in {
        15: "NO", 16: "BE", 18: "DK FO FI GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU XK MN",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR",
        27: "FR GR IT MC MR SM BI DJ", 28: "AL AZ BY CY DO GT HU LB NI PL SV", 29: "BR EG PS QA UA",
        30: "JO KW MU", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for code in codes.split()
}  # fmt: skip


def _is_iban(match: re.Match[str]) -> bool:
    value = match[0].replace(" ", "").upper()
    if _IBAN_LENGTHS.get(value[:2]) != len(value):
        return False
    return int("".join(str(int(c, 36)) for c in value[4:] + value[:4])) % 97 == 1


IBAN = PersonalShape(
    "iban",
    re.compile(
        r"(?<![A-Za-z0-9_-])(?:[A-Z]{2}\d{2}(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?|[A-Za-z]{2}\d{2}[A-Za-z0-9]{11,29}+)"
        r"(?![A-Za-z0-9_-])"
    ),
    _is_iban,
)


# --- phones -----------------------------------------------------------------------------------------


def _is_international(match: re.Match[str]) -> bool:
    value = match[0]
    # One dot and no other separator is a decimal number.
    return not re.fullmatch(r"\+?\d+\.\d+", value) and 8 <= len(_digits(value)) <= 15


def _is_national(match: re.Match[str]) -> bool:
    value = match[0]
    groups = re.findall(r"\d+", value)
    return (
        9 <= sum(map(len, groups)) <= 12
        and any(len(group) >= 3 for group in groups[1:])
        and not re.fullmatch(r"\d{5}-\d{4}", value)  # a ZIP+4 code
    )


def _is_in_chinese(match: re.Match[str]) -> bool:
    # Eleven bare digits are a size in bytes as often as a mobile number elsewhere.
    return re.search(r"[\u4e00-\u9fff]", match.string) is not None


PHONES = (
    PersonalShape(
        "phone",
        re.compile(
            r"(?<![A-Za-z0-9_.+)])(?:\+|00(?=[1-9]\d{0,2}[ /-]))(?!\d{4}-\d\d-\d\d)[1-9](?:[ ().\-/]{0,3}\d){7,14}(?![A-Za-z0-9_])"
        ),
        _is_international,
    ),
    PersonalShape(
        "phone",
        re.compile(
            r"(?<![A-Za-z0-9_.\-/+(])(?:1[ .-])?(?:\([2-9]\d\d\) ?[2-9]\d\d[ .-]|[2-9]\d\d(?P<s>[.-])[2-9]\d\d(?P=s))\d{4}"
            r"(?![A-Za-z0-9_-]|\.\d)"
        ),
        _always,
    ),
    PersonalShape(
        "phone",
        re.compile(
            r"(?<![A-Za-z0-9_.,:\-/+#(])\(?0[1-9]\d{0,4}\)?(?:[ \-/]{1,3}\d{2,8}){1,4}(?![A-Za-z0-9_\-/:]|[.,]\d)"
        ),
        _is_national,
    ),
    PersonalShape(
        "phone",
        re.compile(
            r"(?i:\b(?:tele)?(?:phone|fax|fon)|\btel|\bmobile|\bhandy|\bwhatsapp|电话|手机)(?i:[ _-]?(?:no|number|nummer))?"
            r"[\"'\s:：=.]{1,6}(?P<value>\+?\(?\d(?:[ ().\-/]{0,2}\d){6,13})(?![A-Za-z0-9_]|[.,-]\d)"
        ),
        _always,
    ),
    PersonalShape(
        "phone",
        re.compile(r"(?<![A-Za-z0-9_.-])1[3-9]\d{9}(?![A-Za-z0-9_-]|\.\d)"),
        _is_in_chinese,
    ),
)


# --- internet addresses -----------------------------------------------------------------------------

_VERSION_BEFORE = re.compile(
    r"(?:[=<>~^!/@]|(?i:\bv|version:?|ver\.?|release|build|rev|section|§|chapter|figure))\s{0,2}[\"']?$"
)
_ADDRESS_BEFORE = re.compile(r"(?i:\bip|addr|host|dns|ping|server|from|://|@)[^.\n]{0,16}$")


def _is_ipv4(match: re.Match[str]) -> bool:
    octets = match[0].split(".")
    if any(int(o) > 255 or (len(o) > 1 and o[0] == "0") for o in octets):
        return False
    before = match.string[max(0, match.start() - 24) : match.start()]
    says_address = _ADDRESS_BEFORE.search(before) is not None
    if not before.endswith("://") and _VERSION_BEFORE.search(before) and not says_address:
        return False
    if all(len(o) == 1 for o in octets) and not says_address:
        return False  # a section or version number
    address = ipaddress.IPv4Address(match[0])
    # Loopback, "any" and netmasks name nobody.
    return not (address.is_loopback or address.is_unspecified or octets[0] == "255")


def _is_ipv6(match: re.Match[str]) -> bool:
    value = match[0]
    if sum(map(bool, value.split(":"))) < 3 or not any(c.isdigit() for c in value):
        return False  # ``abc::def`` is code
    try:
        return not ipaddress.IPv6Address(value).is_loopback
    except ValueError:
        return False


IPV4 = PersonalShape(
    "ip",
    re.compile(
        r"(?<![A-Za-z0-9_.])\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![A-Za-z0-9_]|\.\d|-[A-Za-z0-9])"
    ),
    _is_ipv4,
)
IPV6 = PersonalShape(
    "ip",
    re.compile(r"(?<![A-Za-z0-9_:.])[0-9A-Fa-f:]{6,39}+(?![A-Za-z0-9_:])"),
    _is_ipv6,
)
