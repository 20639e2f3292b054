"""Personal data and secrets go; what only looks like them stays."""

from __future__ import annotations

import json
import time

import pytest

from quality_lib.exchanges.masking import mask_text
from quality_lib.exchanges.personal_data import passes_luhn

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("mail john.doe+x@example.co.uk.", "mail [email]."),
        ("请联系zhang@qq.com谢谢", "请联系[email]谢谢"),
        ("<a@b.de>,c@d.org;", "<[email]>,[email];"),
        ("call +49 (0) 151 2345-6789 now", "call [phone] now"),
        ("+1 (555) 123-4567", "[phone]"),
        ("+33 6 12 34 56 78", "[phone]"),
        ("0049 151 23456789", "[phone]"),
        ("(212) 555-0123 or 212-555-0123", "[phone] or [phone]"),
        ("030/1234567, 0151 23456789", "[phone], [phone]"),
        ("phone: 5551234567", "phone: [phone]"),
        ("Tel. 06 12 34 56 78", "Tel. [phone]"),
        ("手机13812345678请", "手机[phone]请"),
        ("4111 1111 1111 1111", "[card]"),
        ("card 5500005555555559.", "card [card]."),
        ("3782 822463 10005", "[card]"),
        ("IBAN DE89 3704 0044 0532 0130 00", "IBAN [iban]"),
        ("GB82WEST12345698765432", "[iban]"),
        ("nl91abna0417164300", "[iban]"),
        ("from 93.184.216.34 port 80", "from [ip] port 80"),
        ("http://8.8.8.8/", "http://[ip]/"),
        ("at 2001:db8:85a3::8a2e:370:7334", "at [ip]"),
        ("sk-proj-abcDEF1234567890abcd", "[api_key]"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[api_key]"),
        ("Authorization: Bearer abcdef1234567890xyz", "Authorization: Bearer [token]"),
        ('api_key="abcd1234efgh5678"', 'api_key="[token]"'),
        ("AKIAIOSFODNN7EXAMPLE", "[aws_key]"),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "aws_secret_access_key = [aws_key]",
        ),
        (f"token {JWT}!", "token [jwt]!"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- after",
            "[private_key] after",
        ),
        ("cut -----BEGIN PRIVATE KEY-----\nMIIEabc", "cut [private_key]"),
        ("postgres://bob:s3cret@db.example.com/x", "postgres://bob:[password]@db.example.com/x"),
    ],
)
def test_what_is_masked(text: str, masked: str) -> None:
    found = mask_text(text)
    assert found.text == masked
    assert sum(found.kinds.values()) == masked.count("[")


@pytest.mark.parametrize(
    "text",
    [
        "version 1.2.3.4 and v10.0.19.41 and Chrome/120.0.60.109",
        "pip install torch==2.13.0.1",
        "1.2.3.4 Overview, see section 10.2.3.4",
        "OID 1.3.6.1.4.1.311",
        "127.0.0.1:8000, 0.0.0.0 and 255.255.255.0",
        "2026-11-29 23:44:03.123456 and 2026-11-29T23:44:03Z",
        "+2026-11-29 in a diff",
        "29/11/2026 - 30/11/2026 and 01-03-2026 04-05-2026",
        "550e8400-e29b-41d4-a716-446655440000",
        "d41d8cd98f00b204e9800998ecf8427e",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "978-3-16-148410-0 and 0-306-40615-2",
        "4111111111111112 fails Luhn, so does 1234567890123456",
        "0.4111111111111111 is a decimal",
        "3.14159265358979 and +3.14159265358",
        "1764459843123 ms, 1764459843 s, 16106127360 bytes",
        "1,000,000,000 and 1 2 3 4 5 6 7 8 9 10 11 12",
        "00 01 02 03 04 05 06 12 34 56 78 9a bc",
        "00000000 7f45 4c46 0201 0100",
        "lottery 03 12 19 24 33",
        "ZIP 01234-5678, ORCID 0000-0002-1825-0097",
        "std::vector<int> a::b and abc::def, ::1",
        "12:30:45, aa:bb:cc:dd:ee:ff",
        "x = q@k.transpose(0,1) + A@B.T",
        "git@github.com:org/repo.git and react@18.2.0",
        "scikit-learn, sk-learn, risk-averse-investment-strategies-2026-x",
        "token = tokenizer.encode(text_with_long_name_1)",
        "password = os.environ['DATABASE_PASSWORD_1']",
        "a bearer authentication-is-used-here",
        "-----BEGIN CERTIFICATE-----",
        "mobile 2026, tel aviv 1909",
        "",
    ],
)
def test_look_alikes_stay(text: str) -> None:
    found = mask_text(text)
    assert (found.text, dict(found.kinds)) == (text, {})


@pytest.mark.parametrize(
    ("digits", "passes"), [("4111111111111111", True), ("4111111111111112", False), ("0", True)]
)
def test_luhn(digits: str, passes: bool) -> None:
    assert passes_luhn(digits) is passes


@pytest.mark.parametrize(
    "text",
    ['{"phone": 5551234567, "n": [2, true, null]}', '["a@b.de", {"card": "4111111111111111"}]'],
)
def test_json_stays_json(text: str) -> None:
    masked = mask_text(text).text
    assert masked != text
    assert json.loads(masked) is not None


def test_a_broken_surrogate_is_no_reason_to_fail() -> None:
    assert mask_text("\ud83d a@b.de").text == "\ud83d [email]"


@pytest.mark.parametrize(
    "unit", ["a", "a@", "1 ", "0123 ", "a.b@", "1.1.", ":", "sk-", "eyJ", "://a:", "+1", "bearer "]
)
def test_time_grows_with_length_not_with_its_square(unit: str) -> None:
    text = unit * (400_000 // len(unit)) + "@"
    began = time.thread_time()
    mask_text(text)
    # Measured 0.01 to 0.2 s; a quadratic search of 400,000 characters takes hours.
    assert time.thread_time() - began < 3
