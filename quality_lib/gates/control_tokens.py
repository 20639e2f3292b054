"""Level 4: control tokens and pieces of the tokenizer that leaked into the text. Pure."""

from __future__ import annotations

import re

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, suspect
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "control_token",
        Outcome.FAILED,
        "A control token of the chat format stands in the text.",
        source="vllm#4180, MiniCPM-V#373, llama.cpp#9788, TensorRT-LLM#9256",
    ),
    Reason(
        "channel_word",
        Outcome.FAILED,
        "Channel names of the harmony format stand in the text, their markers stripped.",
        source="TensorRT-LLM#9256, vllm#32587",
    ),
    Reason(
        "pad_token",
        Outcome.FAILED,
        "Pad, unknown or reserved tokens stand in the text.",
        source="vllm#18733, vllm#40290, vllm#13035",
    ),
    Reason(
        "tokenizer_pieces",
        Outcome.FAILED,
        "Pieces of the tokenizer were not turned back into text.",
        source="llama.cpp#6920, vllm-mlx#109",
    ),
    Reason(
        "html_strike_or_token",
        Outcome.SUSPECT,
        "A lone <s> or </s> stands in the text: an end token, or half of a struck-out passage.",
        source="vllm#4180",
    ),
)
_CONTROL = re.compile(
    r"<[|｜][^<>|｜\n]{1,48}[|｜]>|<[|｜](?:im_start|im_end|endoftext|eot_id|end|user|assistant|system)\b"
    r"|</?[a-z]{2,12}_of_(?:turn|image|audio)>|<(?:bos|eos|sop|eop|EOT|BOT)>"
    r"|\[/?INST\]|<</?SYS>>|\[gMASK\]|\[/?(?:AVAILABLE_TOOLS|TOOL_RESULTS|SYSTEM_PROMPT)\]"
    r"|<\uff5c?(?:begin|end)▁of▁sentence\uff5c?>|<(?:unused|reserved|extra_id_|extra_token_|dummy)_?\d+>"
    r"|<(?:e|s)o(?:t|h|s)>|<_(?:user|bot|system|end)>|<\/?(?:human|bot)>:?"
)
_PAD = re.compile(
    r"<\|?(?:pad|padding|unk|mask|reserved_special_token_\d+|vision_pad|image_pad|video_pad|fim_pad)\|?>|\[(?:PAD|UNK|unused\d+)\]"
)
_PIECES = re.compile(r"(?:[ĠĊ▁][A-Za-z]|[A-Za-z](?:Ġ|Ċ|▁)|(?<!\S)##[a-z]+)")
_BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")
_CHANNEL = re.compile(
    r"\A\s*(?:analysis|commentary)(?=[A-Z{\"'])|\bassistant(?:final|commentary|analysis)(?=\b|[A-Z])"
    r"|\bassistant ?to=functions\.|\bcommentary to=functions\."
)
_BRACKETS = (
    "INST]",
    "[PAD]",
    "[UNK]",
    "[unused",
    "[gMASK]",
    "_TOOLS]",
    "TOOL_RESULTS]",
    "_PROMPT]",
)
_STRIKE = re.compile(r"</?s>")


def control_tokens(view: View) -> Gate:
    """Fail leaked control tokens outside code marks, unless the prompt speaks of them."""
    return output_gate("control_tokens", view, _look, REASONS)


def _look(answer: AnswerView) -> Verdict | None:
    text = answer.text
    if "<" in text or ("[" in text and any(mark in text for mark in _BRACKETS)):
        verdict = _markers(answer)
        if verdict is not None:
            return verdict
    if "assistant" in text or text.lstrip()[:8] in {"analysis", "commenta"}:
        match = _CHANNEL.search(answer.plain)
        if match is not None and not answer.wishes.markers:
            return _found("channel_word", "The channel name", match, 1)
    if (
        ("#" in text and "##" in text)
        or ("<" in text and "<0x" in text)
        or (not answer.is_ascii and ("Ġ" in text or "▁" in text))
    ):
        return _pieces(answer)
    return None


def _markers(answer: AnswerView) -> Verdict | None:
    plain = answer.plain
    for pattern, reason, name in (
        (_PAD, "pad_token", "The pad or reserved token"),
        (_CONTROL, "control_token", "The control token"),
    ):
        found = [m for m in pattern.finditer(plain) if m[0] not in answer.asked]
        if found and not (answer.wishes.markers and len(found) < 20):
            return _found(reason, name, found[0], len(found))
    return _strike(answer)


def _strike(answer: AnswerView) -> Verdict | None:
    marks = _STRIKE.findall(answer.plain)
    if not marks or marks.count("<s>") == marks.count("</s>"):
        return None
    if (
        "<s>" in answer.asked
        or "</s>" in answer.asked
        or answer.wishes.markers
        or answer.wishes.code
    ):
        return None
    return suspect(
        "html_strike_or_token", f"{marks[0]!r} stands alone.", marker=marks[0], count=len(marks)
    )


def _pieces(answer: AnswerView) -> Verdict | None:
    plain = answer.plain
    found = list(_BYTE_PIECE.finditer(plain)) or list(_PIECES.finditer(plain))
    least = 2 if found and found[0][0].startswith("<0x") else max(3, len(plain) // 60)
    if len(found) < least or answer.wishes.markers:
        return None
    return _found("tokenizer_pieces", "The tokenizer's piece", found[0], len(found))


def _found(reason: str, name: str, match: re.Match[str], count: int) -> Verdict:
    return failed(
        reason,
        f"{name} {match[0]!r} stands in the text, {count} time(s) its kind.",
        marker=match[0],
        start=match.start(),
        count=count,
    )
