"""What is done with an exchange when its answer is over: judged at level 4, counted, recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from quality_lib.exchanges.exchange import Exchange
from quality_lib.exchanges.record import record_of
from quality_lib.gates.gate import GateVerdict, Level
from quality_lib.serving.admission import Admission
from quality_lib.serving.answer_json import UsagePart, tells_nan
from quality_lib.serving.asked import Asked
from quality_lib.serving.choice_state import ChoiceState
from quality_lib.serving.gate_run import count_failures, outcome_of, run_gates
from quality_lib.serving.guard_parts import GuardParts
from quality_lib.serving.guard_ports import skipped
from quality_lib.serving.recorded_parts import dropped, matters, told, without_media
from quality_lib.serving.response_path import ResponsePath
from quality_lib.serving.response_state import ResponseState
from quality_lib.serving.stream_rewrite import STOP_REASON
from quality_lib.serving.watch import Settles

STREAM_GATE = "stream"
INPUT, OUTPUT = "input", "output"
"""The names under which a whole judgement, of levels 1 and 2 or of level 4, is counted as skipped."""


@dataclass
class Finished:
    """One request that is over, however it ended."""

    parts: GuardParts
    asked: Asked
    request_id: str
    started_at: datetime
    headers: Sequence[Any]
    admission: Admission
    state: ResponseState
    unread: Settles | None = None
    status: int | None = None
    """``None``: no answer began."""
    seconds: float = 0.0
    first_byte_s: float | None = None
    disconnected: bool = False
    is_probe: bool = False
    endpoint: str = ""
    usage: UsagePart | None = None
    used: Asked | None = None
    """The request as it was sent, where level 2 has changed it; the answer is to this one."""
    saw_nan: bool = False
    """Whether the server could not write the answer's numbers down because of a NaN."""
    detail: bool = False
    """Whether token ids and log-probabilities are recorded."""
    followed: str | None = None
    """The name under which the answer's entropies are measured."""
    is_admission_due: bool = False
    """Whether levels 1 and 2 are still to be asked."""
    request_size: int = 0
    """Bytes of the request's body."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Further fields of the record."""

    def admitted(self) -> Admission:
        """Ask levels 1 and 2; nothing is counted yet, because nobody may wait for the answer."""
        parts = self.parts
        if parts.admitter is None:
            return self.admission
        began = parts.now()
        admission = parts.admitter.admit(self.asked)
        said = admission.verdicts
        parts.spans.record(
            "quality.input", self.headers, _ns(began), _ns(parts.now()), self.request_id, said
        )
        return admission

    def tell_admission(self) -> None:
        """Count and log what levels 1 and 2 have said."""
        if self.is_probe:
            return
        said = self.admission.verdicts
        count_failures(said, self.parts.counters)
        if self.parts.failures is not None:
            asked = self.asked.exchange().last_asked
            self.parts.failures.failed(self.request_id, said, asked)

    @property
    def sent(self) -> Asked:
        """Return the request that the server has answered."""
        return self.used or self.asked

    def take(self, path: ResponsePath) -> None:
        """Take over what is known of the answer."""
        self.unread = path.unread
        self.status = path.status
        self.first_byte_s = path.first_byte_s
        self.disconnected = path.disconnected
        self.usage = path.usage()

    @property
    def size(self) -> int:
        """Return how many bytes the exchange holds in memory, roughly."""
        unread = self.unread.size if self.unread is not None else 0
        # Text is kept as characters of up to four bytes, numbers as objects of about thirty.
        kept = sum(4 * c.kept_characters + 64 * c.kept_tokens for c in self.state.choices.values())
        return 4 * self.request_size + unread + kept

    def forget(self) -> tuple[float, ...]:
        """Let go of what is kept elsewhere for this request: the entropies of its answer."""
        if self.followed is None or self.parts.entropies is None:
            return ()
        name, self.followed = self.followed, None
        return tuple(self.parts.entropies.leave(name))

    def lose(self, cause: str) -> None:
        """Let go of the exchange unread, and count what is lost."""
        try:
            self.forget()
            if not self.is_probe:
                self.parts.counters.gate_skipped(OUTPUT, cause)
            self.parts.counters.records_lost(cause, max(1, len(self.state.choices)))
        except Exception:  # noqa: BLE001  as below
            skipped(self.parts.counters, "record", "gate_crashed")

    def settle_and_record(self, skip: str | None = None) -> None:
        """Read what is left, judge it, count, log and record it; a crash is counted.

        Args:
            skip: why nothing more is judged; ``None``: it is.
        """
        try:
            self._settle_and_record(skip)
            self.parts.on_finished()
        except Exception:  # noqa: BLE001  nothing here may reach a request or end a thread
            skipped(self.parts.counters, "record", "gate_crashed")

    def _settle_and_record(self, skip: str | None) -> None:
        if self.is_admission_due and skip is not None:
            self.parts.counters.gate_skipped(INPUT, skip)
        elif self.is_admission_due:
            self.admission = self.admitted()
            self.tell_admission()
        if self.unread is not None:
            self.unread.settle()
        measured = self.forget()
        error = self.state.error
        if self.saw_nan or (error is not None and tells_nan(error.message or "")):
            self.notes["nan_logits"] = True
        for choice in self.state.choices.values():
            choice.entropies = measured
            if self.saw_nan and self.sent.choices == 1:
                choice.saw_nan()
        usage = self.usage or self.state.usage
        if not self.state.choices or (self.status or 0) >= 400:
            self._record(self._exchange(0, None, usage), self.admission.verdicts, None)
            return
        for index, choice in sorted(self.state.choices.items()):
            exchange = self._exchange(index, choice, usage)
            said = self._judged(exchange, choice, skip)
            self._record(exchange, (*self.admission.verdicts, *said), choice, index)

    def _judged(
        self, exchange: Exchange, choice: ChoiceState, skip: str | None
    ) -> tuple[GateVerdict, ...]:
        if self.is_probe:
            return ()
        counters = self.parts.counters
        found, suspicious = choice.finish_monitor()
        said = [GateVerdict(STREAM_GATE, Level.STREAM, one) for one in found]
        if choice.monitor_crashed:
            counters.gate_skipped(STREAM_GATE, "gate_crashed")
        if suspicious:
            counters.suspicious_tokens(suspicious)
        skip = skip or self._why_not(choice)
        if skip == STOP_REASON and found:
            counters.stream_stopped(found[0].reason)
        if skip is None:
            clock, now = self.parts.clock, self.parts.now
            began = now()
            output = run_gates(
                self.parts.finished_gates,
                exchange,
                self.parts.limits.gate_budget_s,
                counters,
                clock,
            )
            said += output
            self.parts.spans.record(
                "quality.output", self.headers, _ns(began), _ns(now()), self.request_id, output
            )
        elif skip != STOP_REASON:
            counters.gate_skipped(OUTPUT, skip)
        count_failures(said, counters)
        if self.parts.failures is not None and exchange.answer is not None:
            self.parts.failures.failed(self.request_id, said, exchange.answer.text)
        return tuple(said)

    def _why_not(self, choice: ChoiceState) -> str | None:
        """Say why a choice is no finished answer that level 4 could judge."""
        if choice.finish_reason == STOP_REASON:
            return STOP_REASON
        if self.disconnected or self.state.error is not None or "raised" in self.notes:
            return "unfinished"
        return None if choice.complete else "answer_too_long"

    def _exchange(
        self, index: int, choice: ChoiceState | None, usage: UsagePart | None
    ) -> Exchange:
        asked = self.sent.exchange(index)
        echoed = asked.prompt if self.sent.echoes else None
        alone = self.sent.choices == 1
        tokens = choice.tokens if choice is not None and choice.tokens else None
        if alone and usage is not None:
            tokens = usage.completion_tokens
        one_prompt = len(self.sent.prompts) <= 1
        prompt_ids = self.state.prompt_token_ids or (choice.prompt_token_ids if choice else None)
        return replace(
            asked,
            id=self.request_id if alone else f"{self.request_id}-{index}",
            answer=None if choice is None else choice.answer(echoed),
            prompt_tokens=usage.prompt_tokens if usage is not None and one_prompt else None,
            completion_tokens=tokens,
            prompt_token_ids=prompt_ids or asked.prompt_token_ids,
            service=self.parts.service,
            snapshot_id=self.parts.snapshot_id,
            endpoint=self.endpoint,
            started_at=self.started_at.isoformat(timespec="milliseconds"),
        )

    def _record(
        self,
        exchange: Exchange,
        said: Sequence[GateVerdict],
        choice: ChoiceState | None,
        index: int | None = None,
    ) -> None:
        adjustment = self.admission.adjustment
        error = self.state.error
        more: dict[str, Any] = {
            "request_id": self.request_id,
            "choice": index,
            "model": _text(self.asked.body.get("model")),
            "detail": self.detail,
            "status": self.status,
            "seconds": round(self.seconds, 6),
            "first_byte_s": None if self.first_byte_s is None else round(self.first_byte_s, 6),
            "stream": self.asked.streams or None,
            "probe": self.is_probe or None,
            "disconnected": self.disconnected or None,
            "outcome": outcome_of(said).value,
            "error": error and {"type": error.type, "message": error.message},
            "unreadable": self.state.unreadable or None,
            **self.notes,
        }
        if adjustment is not None:
            more["asked_params"] = self.asked.params
            more["changes"] = [
                {"field": c.name, "asked": c.before, "used": c.after, "reason": c.reason}
                for c in adjustment.changes
            ]
        if choice is not None:
            more["refusal"] = choice.refusal
            more["dropped"] = dropped(choice)
        self.parts.sink.append(
            record_of(without_media(exchange), [told(one) for one in said if matters(one)], **more)
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _ns(moment: datetime) -> int:
    return int(moment.timestamp() * 1e9)
