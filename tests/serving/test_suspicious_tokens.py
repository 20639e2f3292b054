"""Suspicious tokens derived from tokenizers of the common kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quality_lib.errors import BadInput
from quality_lib.serving.suspicious_tokens import (
    SuspiciousTokens,
    suspicious_tokens,
    suspicious_tokens_of,
)

SPECIAL = {
    "<pad>": True, "<unk>": True, "<s>": False, "</s>": False, "<unused7>": True,
    "<|reserved_special_token_3|>": True, "<|im_start|>": False, "<|im_end|>": False,
    "<tool_call>": False, "</think>": False, "<extra_id_5>": True, "<|placeholder1|>": True,
    "<|vision_pad|>": True, "<gh_stars>": True, "<|fim_middle|>": False, "[MASK]": True,
}  # fmt: skip
PLAIN = {"hello": False, "pad": False, "Ġreserved": False, "[1]": False, "<div>": False}


def folder(tmp_path: Path, model: dict[str, Any]) -> Path:
    added = [{"id": 1000 + i, "content": text, "special": True} for i, text in enumerate(SPECIAL)]
    data = {"model": model, "added_tokens": added}
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": "<pad>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return tmp_path


def test_control_tokens_are_told_from_markers_that_models_say(tmp_path: Path) -> None:
    vocabulary = {text: i for i, text in enumerate(PLAIN)}
    found = suspicious_tokens_of(folder(tmp_path, {"vocab": vocabulary}))
    expected = {1000 + i for i, bad in enumerate(SPECIAL.values()) if bad}
    assert found.control == expected


def test_an_end_that_pads_too_stays_allowed(tmp_path: Path) -> None:
    place = folder(tmp_path, {"vocab": {"a": 0}})
    config = {"eos_token": "</s>", "pad_token": "</s>"}
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    assert 1003 not in suspicious_tokens_of(place).control


def test_byte_pieces_are_broken_characters(tmp_path: Path) -> None:
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"▁hello": 300}
    found = suspicious_tokens_of(folder(tmp_path, {"vocab": vocabulary}))
    assert found.broken == frozenset(range(0x80, 0x100))


def test_unigram_vocabularies_are_lists(tmp_path: Path) -> None:
    found = suspicious_tokens_of(folder(tmp_path, {"vocab": [["<0xE4>", -1.0], ["a", -2.0]]}))
    assert found.broken == {0}


class Tokenizer:
    """The part of a Hugging Face tokenizer that is asked."""

    all_special_ids = (0, 1)
    eos_token_id = 1
    pad_token_id = 0

    def get_vocab(self) -> dict[str, int]:
        return {"<pad>": 0, "<eos>": 1, "a": 2}


def test_a_tokenizer_object_is_read_too() -> None:
    assert suspicious_tokens(Tokenizer()) == SuspiciousTokens(frozenset({0}), frozenset())


def test_file_and_object_of_the_same_tokenizer_agree(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Backend
    from tokenizers import models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE(vocab={sign: i for i, sign in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>"
    )
    tokenizer.save_pretrained(str(tmp_path))
    found = suspicious_tokens_of(tmp_path)
    assert found == suspicious_tokens(tokenizer)
    assert found.control == {tokenizer.pad_token_id}
    assert set(tokenizer.encode("😀")) <= found.broken
    assert not set(tokenizer.encode("hello")) & (found.broken | found.control)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"model": {"vocab": 3}}'])
def test_what_is_no_tokenizer_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(BadInput, match=r"tokenizer\.json"):
        suspicious_tokens_of(tmp_path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no tokenizer"):
        suspicious_tokens_of(tmp_path)
