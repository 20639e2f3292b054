"""How likely a small reference language model finds texts: its log-probability of every token, and its doubt.

The answer is read with its prompt before it. An answer that merely does what was asked (a list of
numbers, another language, one line repeated ten times) is then as likely as prose; without the prompt
it would look like noise, and harmless oddity costs more than a missed fault.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quality_lib.adapters.model.source import prepare
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.gates.reading import Reading

CONTEXT_TOKENS = 256
"""Tokens read before the ones that are judged: the prompt's end, or the text so far."""
SEGMENT_TOKENS = 512
LONGEST_ANSWER = 4096
"""Tokens of an answer that are judged; of a longer one its two ends, for answers go bad at their end."""
_BYTES_PER_LOGIT = 4
_COPIES = 4  # the outputs, their 32-bit copy, the normalised ones, and what entropies need
_Values = list[tuple[float, float]]
_CLOSING = ("\n", ".", "!", "?", "…", "。")
_Scored = tuple[_Values, float]
"""Of each token, and of the end of a sentence, line or text behind the last."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class _Segment:
    answer: int
    context: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def length(self) -> int:
        return len(self.context) + len(self.target)


class ReferenceModel:
    """A Hugging Face causal language model on this machine; it loads on the first call."""

    def __init__(
        self,
        source: str,
        cache: Path,
        *,
        memory_mb: int = 512,
        say: Callable[[str], None] = lambda _: None,
        progress: Progress = lambda stage, done, total: None,
    ) -> None:
        self._source, self._cache, self._say = source, cache, say
        self._progress = progress
        self._budget = memory_mb * 2**20
        self._model: Any = None
        self._tokenizer: Any = None
        self._closers: list[int] = []
        """Tokens that end a text, a line or a sentence."""

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[Reading]:
        """Read every (prompt, answer): the answer's tokens after the prompt.

        The tokens are the reference's own. An empty answer has none. Memory is bounded by
        ``memory_mb`` beside the weights, whatever the number and length of the texts.
        """
        self._load()
        segments = [
            segment
            for number, (prompt, answer) in enumerate(pairs)
            for segment in self._segments(number, prompt, answer)
        ]
        scored: list[_Values] = [[] for _ in pairs]
        closing: list[float | None] = [None for _ in pairs]
        found: dict[int, _Scored] = {}
        # Segments of one length cost no padding; the order of the result is restored below.
        order = sorted(range(len(segments)), key=lambda n: segments[n].length)
        done = 0
        for batch in self._batches(order, segments):
            for place, said in zip(batch, self._score([segments[n] for n in batch]), strict=True):
                found[place] = said
            done += len(batch)
            self._progress("reference perplexity", done, len(segments))
        for place, segment in enumerate(segments):
            values, closing[segment.answer] = found[place]
            scored[segment.answer].extend(values)
        return [
            Reading(tuple(v for v, _ in values), tuple(e for _, e in values), end)
            for values, end in zip(scored, closing, strict=True)
        ]

    def _load(self) -> None:
        if self._model is not None:
            return
        folder = prepare(self._source, self._cache, say=self._say).path
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        on_gpu = torch.cuda.is_available()
        if not on_gpu:
            # Others run beside us. On a busy machine threads that wait for each other spin: two took
            # three times the processor time of one.
            torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))
        logging.disable_progress_bar()
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=torch.bfloat16 if on_gpu or _has_fast_bfloat16() else torch.float32,
                local_files_only=True,
            )
        except (OSError, ValueError, KeyError) as error:
            raise BadInput(
                f"cannot be loaded as a language model: {str(error).splitlines()[0][:200]}",
                file=folder,
                field="scoring.reference_model",
            ) from error
        self._model = model.to("cuda" if on_gpu else "cpu").eval()
        self._closers = _closers(self._tokenizer)
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters

    def _segments(self, number: int, prompt: str, answer: str) -> list[_Segment]:
        ids = self._encode(answer)
        before = self._prompt_ids(prompt)
        if len(ids) <= LONGEST_ANSWER:
            return _cut(number, before, ids)
        half = LONGEST_ANSWER // 2
        return [
            *_cut(number, before, ids[:half]),
            *_cut(number, ids[-half - CONTEXT_TOKENS : -half], ids[-half:]),
        ]

    def _prompt_ids(self, prompt: str) -> tuple[int, ...]:
        if getattr(self._tokenizer, "chat_template", None):
            text = self._tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
            )
        else:
            text = f"{prompt}\n\n"
        first = self._tokenizer.bos_token_id
        # Something must stand before the first token, or it has no probability.
        return self._encode(text) or ((first if first is not None else 0),)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _batches(self, order: Sequence[int], segments: Sequence[_Segment]) -> list[list[int]]:
        per_token = self._model.config.get_text_config().vocab_size * _BYTES_PER_LOGIT * _COPIES
        most = max(1, self._budget // per_token)
        batches: list[list[int]] = []
        for place in order:
            longest = segments[place].length  # ascending: the newest is the longest
            if not batches or (len(batches[-1]) + 1) * longest > most:
                batches.append([])
            batches[-1].append(place)
        return batches

    def _score(self, batch: Sequence[_Segment]) -> list[_Scored]:
        import torch

        longest = max(segment.length for segment in batch)
        ids = torch.zeros((len(batch), longest), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, segment in enumerate(batch):
            ids[row, : segment.length] = torch.tensor([*segment.context, *segment.target])
            mask[row, : segment.length] = 1
        # Outputs at the prompts' places would be thrown away, and cost as much as the others.
        first = min(len(segment.context) for segment in batch) - 1 if self._keeps else 0
        keep = {"logits_to_keep": longest - first} if self._keeps else {}
        device = self._model.device
        try:
            with torch.inference_mode():
                logits = self._model(
                    input_ids=ids.to(device),
                    attention_mask=mask.to(device),
                    use_cache=False,
                    **keep,
                ).logits
                return [
                    self._chosen(logits[row], segment, first) for row, segment in enumerate(batch)
                ]
        except torch.OutOfMemoryError as error:
            raise OutsideFailure(
                "the reference model ran out of memory: lower scoring.reference_memory_mb"
            ) from error

    def _chosen(self, logits: Any, segment: _Segment, first: int) -> _Scored:
        import torch

        # The output at one place speaks of the token at the next.
        start, end = len(segment.context) - 1 - first, segment.length - 1 - first
        target = torch.tensor(segment.target, device=logits.device).unsqueeze(1)
        every = torch.log_softmax(logits[start:end].float(), dim=-1)
        chosen = every.gather(1, target).squeeze(1)
        entropies = -(every.exp() * every).sum(dim=-1)
        behind = torch.log_softmax(logits[end].float(), dim=-1)
        closing = torch.logsumexp(behind[self._closers], dim=0)
        return list(zip(chosen.tolist(), entropies.tolist(), strict=True)), float(closing)


def _closers(tokenizer: Any) -> list[int]:
    """Return the tokens with which a text, line or sentence ends: all special ones, and those that begin so."""
    texts = tokenizer.batch_decode([[number] for number in range(len(tokenizer))])
    ends = {number for number, text in enumerate(texts) if text.startswith(_CLOSING)}
    return sorted(ends | set(tokenizer.all_special_ids))


def _has_fast_bfloat16() -> bool:
    """Whether this CPU multiplies 16-bit matrices in hardware; elsewhere 32 bits are faster."""
    import torch

    return bool(torch.cpu.get_capabilities().get("amx_bf16"))


def _cut(number: int, before: Sequence[int], ids: Sequence[int]) -> list[_Segment]:
    """Cut a text into segments, each with what stands before it as its context."""
    whole = [*before, *ids]
    segments = []
    for start in range(0, len(ids), SEGMENT_TOKENS):
        place = len(before) + start
        segments.append(
            _Segment(
                number,
                tuple(whole[max(0, place - CONTEXT_TOKENS) : place]),
                tuple(ids[start : start + SEGMENT_TOKENS]),
            )
        )
    return segments
