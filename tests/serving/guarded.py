"""Asking the stand-in server with and without a guard before it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate, Level
from quality_lib.records import Outcome, Verdict
from quality_lib.serving.admission import Admitter
from quality_lib.serving.detail_share import DetailShare
from quality_lib.serving.guard import Guard
from quality_lib.serving.guard_parts import GuardParts
from tests.serving.stand_in_upstream import StandIn

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@dataclass
class Counters:
    """Keeps what is counted."""

    failed: list[tuple[int, str, str, Outcome]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    suspicious: int = 0
    stopped: list[str] = field(default_factory=list)
    lost: list[tuple[str, int]] = field(default_factory=list)

    def gate_failed(self, level: int, gate: str, reason: str, outcome: Outcome) -> None:
        self.failed.append((level, gate, reason, outcome))

    def suspicious_tokens(self, count: int) -> None:
        self.suspicious += count

    def gate_skipped(self, gate: str, cause: str) -> None:
        self.skipped.append((gate, cause))

    def stream_stopped(self, reason: str) -> None:
        self.stopped.append(reason)

    def records_lost(self, cause: str, count: int) -> None:
        self.lost.append((cause, count))


@dataclass
class Records:
    """Keeps what is recorded."""

    kept: list[Mapping[str, Any]] = field(default_factory=list)

    def append(self, record: Mapping[str, Any]) -> None:
        self.kept.append(record)


@dataclass
class Setup:
    """Parts of a guard whose effects can be looked at."""

    counters: Counters = field(default_factory=Counters)
    records: Records = field(default_factory=Records)

    def parts(self, *, detail: float = 0.0, **parts: Any) -> GuardParts:
        return GuardParts(
            service="chat",
            sink=self.records,
            counters=self.counters,
            detail=DetailShare(detail),
            **parts,
        )

    def admitter(self, *gates: Gate, **more: Any) -> Admitter:
        return Admitter(
            input_gates=[g for g in gates if g.level is Level.INPUT],
            parameter_gates=[g for g in gates if g.level is Level.PARAMETERS],
            counters=self.counters,
            clock=lambda: 0.0,
            **more,
        )

    @property
    def record(self) -> Mapping[str, Any]:
        (record,) = self.records.kept
        return record


def gate(
    outcome: Outcome,
    *,
    level: Level = Level.INPUT,
    name: str = "fake",
    when: str = "",
    reason: str = "fake_reason",
) -> Gate:
    """A gate that says ``outcome`` of every exchange whose question or answer holds ``when``."""

    def judge(exchange: Exchange) -> Verdict:
        text = exchange.asked + ((exchange.answer and exchange.answer.text) or "")
        if when in text:
            return Verdict(outcome, reason, "A sentence.")
        return Verdict(Outcome.PASSED, "fake_ok", "Fine.")

    return Gate(name, level, judge, ())


def crashing_gate(level: Level = Level.INPUT) -> Gate:
    def judge(exchange: Exchange) -> Verdict:
        raise ZeroDivisionError

    return Gate("crasher", level, judge, ())


def ask(
    app: Any,
    body: Any = None,
    *,
    path: str = CHAT,
    headers: Mapping[str, str] | None = None,
    method: str = "POST",
    content: bytes | None = None,
    root_path: str = "",
) -> httpx.Response:
    """Send one request; a body that is given as ``content`` is declared as JSON."""

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app, root_path=root_path)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.request(
                method,
                path,
                json=body if content is None else None,
                content=content,
                headers={"content-type": "application/json", **(headers or {})},
            )

    return asyncio.run(run())


def both(
    up: StandIn, parts: GuardParts, body: Any = None, **more: Any
) -> tuple[httpx.Response, httpx.Response]:
    """Ask through the guard and directly, under the same request id."""
    headers = {"x-request-id": "r-1", **more.pop("headers", {})}
    guarded = ask(Guard(up, parts), body, headers=headers, **more)
    return guarded, ask(up, body, headers=headers, **more)
