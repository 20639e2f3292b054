"""The faults under which the real model is asked: data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.exchanges.damage import EMBEDDING, HEAD

LAYER = "model.layers.{}.{}.weight"


@dataclass(frozen=True)
class Fault:
    """One way to break the service; ``kind`` is the family that results are told by."""

    name: str
    kind: str
    why: str
    harms: tuple[Mapping[str, Any], ...] = ()
    """Applied to the server by ``damage.Damage.harm`` before anything is asked."""
    cache: Mapping[str, Any] | None = None
    """Applied by ``harm_cache`` again and again while the answers are generated."""
    cache_delay_s: float = 0.0
    request: Mapping[str, Any] = field(default_factory=dict)
    """Fields set in the request, over those of the prompt."""
    client: str = ""
    """What happens between the server and the record; see ``collect.TWISTS``."""
    prompts: int = 7
    """How many prompts are asked under it."""
    only: tuple[str, ...] = ()
    """These prompts and no others."""


def _t(layer: int, part: str) -> str:
    return LAYER.format(layer, part)


def _flips(part: str, layer: int, elements: int, bit: int = 14, seed: int = 1) -> Mapping[str, Any]:
    return {
        "op": "flip", "tensor": _t(layer, part), "elements": elements, "bit": bit, "seed": seed,
    }  # fmt: skip


def _cooler(by: float) -> Mapping[str, Any]:
    return {"op": "scale", "tensor": "model.norm.weight", "by": 1 / by}


SAMPLED = {"temperature": 0.7, "top_p": 0.95}

TEMPLATES = {
    "llama3": "{{ '<|begin_of_text|>' }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content }}<|eot_id|>{% endfor %}<|start_header_id|>assistant<|end_header_id|>\n\n",
    "llama2": "{{ '<s>' }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}",
    "alpaca": "{% for m in messages %}### {{ m.role | capitalize }}:\n{{ m.content }}\n\n{% endfor %}### Response:\n",
    "harmony": "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"
    "<|start|>assistant<|channel|>final<|message|>",
    "gemma": "<bos>{% for m in messages %}<start_of_turn>{{ m.role }}\n{{ m.content }}<end_of_turn>\n{% endfor %}"
    "<start_of_turn>model\n",
    "none": "{% for m in messages %}{{ m.content }}{% endfor %}",
    "no-generation-prompt": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}",
}


FAULTS: tuple[Fault, ...] = (
    # Bits: 14 is the highest exponent bit of bfloat16.
    Fault("flip-down-l12", "bit_flip", "top exponent bits flipped in one down projection",
          (_flips("mlp.down_proj", 12, 4),)),
    Fault("flip-q-l3", "bit_flip", "top exponent bits flipped in one query projection",
          (_flips("self_attn.q_proj", 3, 8),)),
    Fault("flip-o-l20", "bit_flip", "top exponent bits flipped in one output projection",
          (_flips("self_attn.o_proj", 20, 6),)),
    Fault("flip-head", "bit_flip", "top exponent bits flipped in the output head",
          ({"op": "flip", "tensor": HEAD, "elements": 60, "bit": 14, "seed": 2},)),
    Fault("flip-embedding-bit13", "bit_flip", "second exponent bits flipped all over the embedding table",
          ({"op": "flip", "tensor": EMBEDDING, "elements": 9000, "bit": 13, "seed": 3},)),
    Fault("flip-gate-bit12", "bit_flip", "exponent bits flipped in several gate projections",
          tuple(_flips("mlp.gate_proj", n, 300, 12, n) for n in (4, 9, 15))),
    Fault("flip-norm", "bit_flip", "an exponent bit flipped in one normalisation weight",
          (_flips("input_layernorm", 6, 2),)),
    Fault("flip-v-many", "bit_flip", "low exponent bits flipped all over the value projections",
          tuple(_flips("self_attn.v_proj", n, 6000, 10, n) for n in range(0, 30, 2))),
    # One tensor harmed.
    Fault("scale-up-l8", "tensor", "one down projection four times too large",
          ({"op": "scale", "tensor": _t(8, "mlp.down_proj"), "by": 4.0},
           {"op": "scale", "tensor": _t(14, "mlp.down_proj"), "by": 4.0})),
    Fault("zero-attention", "tensor", "the attention of five layers is zero",
          tuple({"op": "scale", "tensor": _t(n, "self_attn.o_proj"), "by": 0.0} for n in (2, 7, 12, 17, 22))),
    Fault("zero-mlp", "tensor", "the feed-forward part of four layers is zero",
          tuple({"op": "scale", "tensor": _t(n, "mlp.down_proj"), "by": 0.0} for n in (5, 10, 15, 20))),
    Fault("negate-o", "tensor", "one output projection has the wrong sign",
          ({"op": "scale", "tensor": _t(10, "self_attn.o_proj"), "by": -2.0},)),
    Fault("noise-layer", "tensor", "noise as large as the weights on two layers",
          tuple({"op": "noise", "tensor": _t(n, p), "by": 1.0, "seed": n}
                for n in (9, 10) for p in ("mlp.down_proj", "self_attn.o_proj"))),
    Fault("noise-all", "quantisation", "noise on every feed-forward weight, as after a bad quantisation",
          tuple({"op": "noise", "tensor": _t(n, "mlp.down_proj"), "by": 0.55, "seed": n} for n in range(30))),
    Fault("noise-all-mild", "quantisation", "noise on every up projection, as after a bad quantisation",
          tuple({"op": "noise", "tensor": _t(n, "mlp.up_proj"), "by": 0.45, "seed": n} for n in range(30))),
    Fault("noise-head", "quantisation", "noise on the output head",
          ({"op": "noise", "tensor": HEAD, "by": 0.9, "seed": 5},)),
    Fault("scale-norm", "tensor", "the last normalisation a quarter of its size, so that the choice is almost free",
          ({"op": "scale", "tensor": "model.norm.weight", "by": 0.3},), request=SAMPLED),
    Fault("nan-mlp", "nan", "one tensor is not a number", ({"op": "nan", "tensor": _t(11, "mlp.down_proj")},), prompts=4),
    Fault("nan-norm", "nan", "the last normalisation is not a number", ({"op": "nan", "tensor": "model.norm.weight"},),
          request={"skip_special_tokens": False}, prompts=4),
    # Layout.
    Fault("swap-layers", "layout", "the feed-forward parts of layers 3 and 21 are exchanged",
          ({"op": "swap", "tensor": _t(3, "mlp.down_proj"), "with": _t(21, "mlp.down_proj")},
           {"op": "swap", "tensor": _t(21, "mlp.down_proj"), "with": _t(3, "mlp.down_proj")})),
    Fault("swap-attention", "layout", "the output projections of three pairs of layers are exchanged",
          tuple({"op": "swap", "tensor": _t(a, "self_attn.o_proj"), "with": _t(b, "self_attn.o_proj")}
                for a, b in ((1, 28), (28, 1), (6, 19), (19, 6), (11, 13), (13, 11)))),
    Fault("roll-heads", "layout", "the query heads are one place off in a third of the layers",
          tuple({"op": "roll", "tensor": _t(n, "self_attn.q_proj"), "by": 1} for n in range(0, 30, 3))),
    Fault("roll-kv", "layout", "the key heads are one place off, as with a wrong number of key heads",
          tuple({"op": "roll", "tensor": _t(n, "self_attn.k_proj"), "by": 1} for n in range(0, 30, 5))),
    Fault("head-rows", "layout", "the rows of the output head are some places off",
          ({"op": "shift_rows", "tensor": HEAD, "by": 3},), request={"ignore_eos": True}),
    Fault("embedding-rows", "layout", "the rows of the embedding table are one place off",
          ({"op": "shift_rows", "tensor": EMBEDDING, "by": 1},)),
    # Positions.
    Fault("rope-small", "rope", "rotary base 500 instead of 100000", ({"op": "rope", "theta": 500.0},)),
    Fault("rope-tiny", "rope", "rotary base 20 instead of 100000", ({"op": "rope", "theta": 20.0},)),
    Fault("rope-sampled", "rope", "rotary base 3000 instead of 100000", ({"op": "rope", "theta": 3000.0},), request=SAMPLED),
    # Cache.
    Fault("cache-noise-late", "kv_cache", "noise on the whole KV cache after a good start",
          cache={"how": "noise", "by": 0.7}, cache_delay_s=1.6),
    Fault("cache-noise", "kv_cache", "noise on the whole KV cache again and again",
          cache={"how": "noise", "by": 0.35, "times": 6}, cache_delay_s=0.4),
    Fault("cache-zero", "kv_cache", "the KV cache is emptied while the answer is written",
          cache={"how": "zero"}, cache_delay_s=1.2),
    Fault("cache-roll", "kv_cache", "the values of the KV cache move by one place",
          cache={"how": "roll", "by": 1}, cache_delay_s=1.2),
    Fault("cache-scale", "kv_cache", "the KV cache is read with a wrong scale, as with uncalibrated FP8",
          cache={"how": "scale", "by": 2.5}, cache_delay_s=0.8),
    # Templates.
    *(Fault(f"template-{name}", "template", f"the chat template of another family ({name})",
            request={"chat_template": TEMPLATES[name], **SAMPLED}, prompts=6)
      for name in ("llama3", "llama2", "alpaca", "harmony", "gemma", "none", "no-generation-prompt")),
    # Sampling.
    # vLLM refuses temperatures above 2. A smaller last normalisation divides the logits just like a temperature.
    Fault("hot-3", "sampling", "drawn at temperature 3 though 1.5 was asked", (_cooler(2.0),),
          request={"temperature": 1.5, "top_p": 1.0}),
    Fault("hot-5", "sampling", "drawn at temperature 5 though 1 was asked", (_cooler(5.0),),
          request={"temperature": 1.0, "top_p": 1.0}, prompts=5),
    Fault("hot-topk", "sampling", "drawn at temperature 8 among the 200 best", (_cooler(8.0),),
          request={"temperature": 1.0, "top_k": 200}, prompts=5),
    Fault("hot-1.7", "sampling", "temperature 1.7 without a nucleus", request={"temperature": 1.7, "top_p": 1.0}),
    Fault("hot-2", "sampling", "temperature 2 without a nucleus", request={"temperature": 2.0, "top_p": 1.0}),
    Fault("frequency-2", "sampling", "frequency penalty 2 over a long answer",
          request={"frequency_penalty": 2.0, "temperature": 0.7, "ignore_eos": True, "max_tokens": 260}, prompts=6),
    Fault("presence-2", "sampling", "presence penalty 2 and no end",
          request={"presence_penalty": 2.0, "temperature": 0.8, "ignore_eos": True, "max_tokens": 260}, prompts=5),
    Fault("repetition-2", "sampling", "repetition penalty 2", request={"repetition_penalty": 2.0, "max_tokens": 160}, prompts=6),
    Fault("repetition-half", "sampling", "repetition penalty 0.5 rewards repetition", request={"repetition_penalty": 0.5}, prompts=8),
    Fault("repetition-0.8", "sampling", "repetition penalty 0.8 rewards repetition", request={"repetition_penalty": 0.8}, prompts=6),
    # Ends.
    Fault("no-eos", "end_of_turn", "the end token is unknown, so control tokens leak and the model plays both roles",
          request={"ignore_eos": True, "skip_special_tokens": False, "max_tokens": 200}, prompts=10),
    Fault("no-eos-stripped", "end_of_turn", "the end token is unknown and control tokens are stripped: role names run on",
          request={"ignore_eos": True, "max_tokens": 240}, prompts=10),
    Fault("greedy-loop", "loop", "no end and greedy: the answer repeats itself to the limit",
          request={"ignore_eos": True, "temperature": 0.0, "max_tokens": 420, "bad_words": ["<|im_end|>", "<|im_start|>"]},
          prompts=10),
    Fault("stops-ignored", "end_of_turn", "the caller's stop words are ignored", client="stops_ignored",
          request={"ignore_eos": True, "max_tokens": 160}, prompts=4, only=("add", "capital", "opposite", "definition")),
    # Tokenizer.
    Fault("shifted-out", "tokenizer", "the ids are decoded one place off", client="decode_shifted", prompts=8),
    Fault("shifted-in", "tokenizer", "the prompt is encoded some places off", client="encode_shifted", prompts=8),
    Fault("per-byte", "detokenize", "every token is decoded by itself", client="decode_each",
          only=("fr", "de", "es", "zh", "it"), prompts=5),
    # Transport.
    Fault("prompt-cut", "truncated_prompt", "a proxy cuts the head of the prompt", client="cut_prompt",
          only=("summary", "question", "keywords", "title"), prompts=4),
    Fault("cross-talk", "cross_talk", "the answers of two callers are exchanged", client="swap",
          only=("repeat-code", "repeat-room", "repeat-train"), prompts=3),
    Fault("null-content", "empty", "tokens are used and nothing is sent", client="drop_text", prompts=5),
    Fault("structured-noise", "structured", "a grammar holds the shape while the weights are harmed",
          tuple({"op": "noise", "tensor": _t(n, "mlp.down_proj"), "by": 0.6, "seed": n} for n in range(30)),
          only=("json-person", "json-book", "json-city", "json-free", "tool-weather", "tool-mail"), prompts=6),
    Fault("structured-head", "structured", "a grammar holds the shape while the head is harmed",
          ({"op": "shift_rows", "tensor": HEAD, "by": 5},),
          only=("json-person", "json-book", "json-city", "json-free", "tool-weather", "tool-mail"), prompts=6),
    Fault("structured-hot", "structured", "a grammar holds the shape at temperature 4", (_cooler(4.0),),
          request={"temperature": 1.0},
          only=("json-person", "json-book", "json-city", "json-free", "tool-weather", "tool-mail"), prompts=6),
)  # fmt: skip
