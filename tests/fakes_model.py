"""FakeModel: a served model whose health the test decides; kept honest by the contract suite."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from quality_lib.golden.answer import Answer, Channel, Probe
from quality_lib.golden.case import GoldenCase

Change = Callable[[Answer], Answer]


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


@dataclass
class FakeModel:
    """Answers every case the same way each time; ``change`` spoils the answers it is given."""

    change: Change = lambda answer: answer
    facts: Mapping[str, Any] = field(default_factory=lambda: {"max_model_len": 2048})
    asked: list[str] = field(default_factory=list)
    salts: set[str] = field(default_factory=set)
    running: int | None = None

    def take_running(self) -> int | None:
        most, self.running = self.running, None
        return most

    async def decode(self, case: GoldenCase, probe: Probe, cache_salt: str) -> Answer:
        self.asked.append(probe.key)
        self.salts.add(cache_salt)
        words = [f"word{_number(case.id + str(i)) % 97}" for i in range(12)]
        text = " ".join([*words, *(fact.split("|")[0] for fact in case.facts)])
        ids = tuple(_number(word) % 49152 for word in text.split())
        prompt = tuple(_number(case.id + str(i)) % 49152 for i in range(8))
        return self.change(
            Answer(
                probe,
                text=text,
                finish_reason="stop",
                prompt_token_ids=prompt,
                token_ids=ids,
                logprobs=tuple(-0.1 - (i % 5) / 10 for i in ids),
                latency_ms=1.0,
            )
        )

    async def score(
        self, case: GoldenCase, probe: Probe, reference: Answer, cache_salt: str = ""
    ) -> Answer:
        self.asked.append(probe.key)
        self.running = 1
        return self.change(
            Answer(
                probe,
                token_ids=reference.token_ids,
                prompt_token_ids=reference.prompt_token_ids
                if probe.channel is Channel.CHAT_SCORED
                else (),
                logprobs=tuple(-0.1 - (i % 5) / 10 for i in reference.token_ids),
                latency_ms=1.0,
            )
        )

    async def contract(self) -> Mapping[str, Any]:
        return self.facts


class MemoryRecorder:
    """Recorder that a test can look into."""

    def __init__(self, answers: Mapping[str, Answer] | None = None) -> None:
        self.answers = dict(answers or {})

    def recorded(self) -> Mapping[str, Answer]:
        return dict(self.answers)

    def record(self, answer: Answer) -> None:
        self.answers[answer.probe.key] = answer


def shift_scores(by: float, channels: tuple[Channel, ...] = tuple(Channel)) -> Change:
    """Move every scored log-probability; texts stay the same."""

    def change(answer: Answer) -> Answer:
        if answer.probe.channel not in {Channel.CHAT_SCORED, Channel.RAW_SCORED} & set(channels):
            return answer
        return dataclasses.replace(
            answer, logprobs=tuple(None if p is None else p - by for p in answer.logprobs)
        )

    return change


def garble(share: float = 1.0, channels: tuple[Channel, ...] = tuple(Channel)) -> Change:
    """Replace the texts of a share of the cases by garbage."""

    def change(answer: Answer) -> Answer:
        probe = answer.probe
        if probe.channel not in channels or _number(probe.case_id) % 1000 >= share * 1000:
            return answer
        return dataclasses.replace(answer, text="!" * 40) if answer.text else answer

    return change
