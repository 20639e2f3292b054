"""What is masked in evidence, and what must stay readable."""

from __future__ import annotations

import json

import pytest

from quality_lib.adapters.evidence.secrets import (
    SecretMask,
    is_secret_name,
    secret_values,
    shown_environment,
)


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("VLLM_API_KEY", True),
        ("HF_TOKEN", True),
        ("AWS_ACCESS_KEY_ID", True),
        ("DB_PASSWORD", True),
        ("DB_PASSWD", True),
        ("GOOGLE_APPLICATION_CREDENTIALS", True),
        ("client_secret", True),
        ("VLLM_CPU_KVCACHE_SPACE", False),
        ("max_tokens", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("KEYBOARD", False),
    ],
)
def test_names_that_hold_secrets(name: str, is_secret: bool) -> None:
    assert is_secret_name(name) is is_secret


def test_the_secrets_of_a_process() -> None:
    env = {"VLLM_API_KEY": "key-of-env", "PATH": "/usr/bin", "HF_TOKEN": "abc"}
    args = ["server", "--api-key", "first-key", "second-key", "--port", "1", "--token=third-key"]
    args += ["--url", "http://user:fourth-key@host/"]
    found = secret_values(env, args)
    assert {"key-of-env", "first-key", "second-key", "third-key"} <= found
    # A part of a longer argument is masked by its shape.
    mask = SecretMask(found)
    assert "fourth-key" not in mask.text(" ".join(args))
    assert "abc" not in found, "too short to be searched for"


def test_a_known_secret_goes_in_every_spelling() -> None:
    mask = SecretMask(['p"ss/w rd', "p"])
    for text in ('p"ss/w rd', json.dumps({"a": 'p"ss/w rd'}), "http://h/?k=p%22ss%2Fw%20rd"):
        assert "***" in mask.text(text)
        assert "rd" not in mask.text(text)
    assert mask.text("paper") == "paper"


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdefgh12345678",
        "sk-abcdefghijklmnop1234",
        "hf_" + "a1" * 17,
        "postgres://user:hunter22@db/x",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nMIIEow\n",
        "AKIA" + "ABCDEFGHIJKLMNOP",
    ],
)
def test_what_looks_like_a_secret_goes(text: str) -> None:
    masked = SecretMask().text(f"before {text}")
    assert "***" in masked
    assert masked.startswith("before ")


def test_numbers_and_addresses_of_facts_stay() -> None:
    text = 'vllm:prompt_tokens_total{model="m"} 1.7644752e+09\n127.0.0.1:8000 4155550123456'
    assert SecretMask().text(text) == text


def test_personal_data_goes_from_what_users_wrote() -> None:
    assert "ada@example.com" not in SecretMask().spoken("write to ada@example.com")


def test_values_go_by_their_name_too() -> None:
    found = SecretMask().value({
        "a": [{"api_key": "x", "port": 1, "max_tokens": 3}],
        "password": "",
    })
    assert found == {"a": [{"api_key": "***", "port": 1, "max_tokens": 3}], "password": ""}


def test_of_an_unknown_variable_only_the_name_is_kept() -> None:
    env = {
        "VLLM_LOGGING_LEVEL": "INFO",
        "VLLM_API_KEY": "key-of-env",
        "HF_TOKEN": "hf_x",
        "OUR_OWN": "who knows",
        "VLLM_PROXY": "http://u:key-of-proxy@h",
    }
    shown = shown_environment(env, SecretMask(secret_values(env)))
    assert shown["VLLM_LOGGING_LEVEL"] == "INFO"
    assert shown["VLLM_API_KEY"] is shown["HF_TOKEN"] is shown["OUR_OWN"] is None
    assert "key-of-proxy" not in str(shown["VLLM_PROXY"])
