"""The guard's parts as the configuration of this server's service wants them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib import settings
from quality_lib.errors import BadInput
from quality_lib.exchanges.exchange import Exchange
from quality_lib.exchanges.masking import mask_text
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.catalogue import gates_of
from quality_lib.gates.gate import Level
from quality_lib.gates.level_stream import GATE as STREAM_GATE
from quality_lib.gates.level_stream import StreamMonitor
from quality_lib.gates.parameter_finding import context_of
from quality_lib.gates.parameters import Adjusted, adjust
from quality_lib.serving.admission import Admitter
from quality_lib.serving.choice_state import Monitor
from quality_lib.serving.detail_share import DetailShare
from quality_lib.serving.engine_features import (
    EngineFeatures,
    engine_features,
    with_repetition_detection,
)
from quality_lib.serving.entropy_feed import EntropyFeed
from quality_lib.serving.entropy_reader import anchor_process, entropy_reader
from quality_lib.serving.entropy_turn import EntropyTurn
from quality_lib.serving.failure_log import FailureLog
from quality_lib.serving.guard_parts import GuardLimits, GuardParts, MonitorOf
from quality_lib.serving.guard_ports import ExchangeSink, GateCounters, NoSink
from quality_lib.serving.judge_pool import JudgePool
from quality_lib.serving.learned_bounds import read_bounds
from quality_lib.serving.metrics import GuardMetrics
from quality_lib.serving.recording import start_recording
from quality_lib.serving.server_tokenizer import ServerTokenizer, server_tokenizer
from quality_lib.serving.spans import configured_spans
from quality_lib.settings import GateSettings

SNAPSHOT_ENV = "QUALITY_SNAPSHOT"
"""Id of the snapshot that this server serves, for its records; set by whoever starts it."""

SCOPE_GATE = "input_scope"

AFTERWARDS = frozenset({"prompt_accounting", "prompt_start"})
"""Gates of level 1 that need what the server counted."""

THREADS = 2
QUEUE_JOBS = 2048
QUEUE_BYTES = 64 * 2**20
HUNG_AFTER_S = 10.0


@dataclass(frozen=True)
class GuardSetup:
    """A checked configuration, before the server is there."""

    service: str
    snapshot_id: str
    gates: GateSettings
    bounds: LearnedBounds
    env: Mapping[str, str]

    def parts(self, state: Any = None) -> GuardParts:
        """Make the parts for an application's state, and start to record."""
        metrics = GuardMetrics.of()
        recording = start_recording(self.gates.log, self.service, metrics)
        reader = entropy_reader()
        turn = EntropyTurn(anchor_process())
        feed = EntropyFeed(reader.counts, metrics, time.monotonic, turn.is_ours)
        return make_parts(
            self,
            server_tokenizer(state),
            # Looking for features imports them, which only a vLLM that runs anyway may cost.
            engine_features() if "vllm" in sys.modules else EngineFeatures(),
            metrics,
            sink=recording,
            on_close=(lambda: None) if recording is None else recording.close,
            entropies=reader,
            on_finished=feed.pump,
        )


def read_setup(env: Mapping[str, str] | None = None) -> GuardSetup:
    """Read ``QUALITY_CONFIG`` and ``QUALITY_SERVICE``, and everything they name.

    Without a configuration: the defaults, which observe and record nothing.

    Raises:
        BadInput: the configuration cannot be used.
    """
    env = os.environ if env is None else env
    name, gates = _service(env)
    if gates.input.scope_examples and SCOPE_GATE not in gates.disabled:
        raise BadInput(
            "prompts are compared with examples by a model that no server loads",
            file=env.get(settings.CONFIG_ENV),
            field="gates.input.scope_examples",
            fix="leave it to `quality check`, with a configuration of its own, "
            f"or disable the gate '{SCOPE_GATE}' here",
        )
    bounds = LearnedBounds() if gates.bounds is None else read_bounds(gates.bounds)
    key = {"VLLM_API_KEY": env.get("VLLM_API_KEY", "")}
    return GuardSetup(name, env.get(SNAPSHOT_ENV, ""), gates, bounds, key)


def make_parts(
    setup: GuardSetup,
    tokenizer: ServerTokenizer,
    features: EngineFeatures,
    counters: GateCounters,
    *,
    sink: ExchangeSink | None = None,
    **more: Any,
) -> GuardParts:
    """Put the parts of one service together."""
    gates, limits = setup.gates, GuardLimits()
    enforces = gates.reaction == "enforce"
    made = gates_of(gates, setup.bounds, count_tokens=tokenizer.count, facts=tokenizer.facts)
    watches = STREAM_GATE not in gates.disabled
    reacts = enforces and watches and gates.stream.reaction != "observe"
    return GuardParts(
        service=setup.service,
        snapshot_id=setup.snapshot_id,
        limits=limits,
        admitter=Admitter(
            input_gates=tuple(
                g for g in made if g.level is Level.INPUT and g.name not in AFTERWARDS
            ),
            parameter_gates=tuple(g for g in made if g.level is Level.PARAMETERS),
            counters=counters,
            clock=time.monotonic,
            adjust=lambda exchange: _adjusted(exchange, gates),
            enforces=enforces,
            mode=gates.parameters.mode,
            budget_s=limits.gate_budget_s,
        ),
        finished_gates=tuple(g for g in made if g.level is Level.OUTPUT or g.name in AFTERWARDS),
        monitor=_monitors(gates, setup.bounds, tokenizer.suspicious) if watches else None,
        stops=reacts and gates.stream.reaction == "stop",
        engine_fields=(with_repetition_detection({}, gates.stream, features) if reacts else {}),
        detail=DetailShare(gates.log.detail_share if sink is not None else 0.0),
        sink=NoSink() if sink is None else sink,
        counters=counters,
        failures=FailureLog(time.monotonic, lambda text: mask_text(text).text),
        spans=configured_spans(),
        pool=_pool("output", counters),
        admission_pool=_pool("input", counters),
        env=setup.env,
        **more,
    )


def _pool(judges: str, counters: GateCounters) -> JudgePool:
    return JudgePool(
        THREADS,
        QUEUE_JOBS,
        QUEUE_BYTES,
        HUNG_AFTER_S,
        time.monotonic,
        on_hung=lambda: counters.gate_skipped(judges, "gate_hung"),
    )


def _service(env: Mapping[str, str]) -> tuple[str, GateSettings]:
    if not env.get(settings.CONFIG_ENV):
        return env.get(settings.SERVICE_ENV, ""), GateSettings()
    config = settings.load(settings.config_path(None, env))
    name = env.get(settings.SERVICE_ENV)
    if not name:
        if len(config.services) > 1:
            raise BadInput(
                f"{settings.SERVICE_ENV} is not set, and the configuration has several services",
                file=env[settings.CONFIG_ENV],
                fix=f"set it to one of: {', '.join(sorted(config.services))}",
            )
        name = next(iter(config.services))
    return name, config.service(name).gates


def _adjusted(exchange: Exchange, gates: GateSettings) -> Adjusted:
    return adjust(exchange.params, gates.parameters, context_of(exchange))


def _monitors(gates: GateSettings, bounds: LearnedBounds, suspicious: frozenset[int]) -> MonitorOf:
    def make(exchange: Exchange) -> Monitor:
        return StreamMonitor(gates.stream, bounds, suspicious, exchange.asked)

    return make
