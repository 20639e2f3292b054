"""Limits of level 3, with their defaults. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

REACTIONS = ("observe", "stop", "correct")


@dataclass(frozen=True)
class StreamLimits:
    """When a stream that is still being generated has gone bad.

    Where no other source is given, a default is our own choice: well above every healthy text of
    ``tests/gates/stream_samples.py`` and below what the reported incidents show (single marks to
    the token limit, vllm#14126; one phrase ten thousand times, claude-code#65823).
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    reaction: str = "observe"
    """``observe``, ``stop`` (end the stream with its own finish reason) or ``correct`` (re-draw the
    step at a lower temperature; needs our logits processor)."""

    max_mean_entropy: float = 6.0
    """Nats, mean over a window: above it the next token is all but a guess, and the stream FAILED.
    Inside it a learned bound can still make a stream SUSPECT. A uniform guess over the 49,152
    tokens of SmolLM2 is 10.8."""
    min_mean_entropy: float = 1e-4
    """Nats, mean over a window: below it nothing but one token is possible. Copying and counting
    come close to it, so only ``confident_windows`` of them in a row count, as SUSPECT."""
    min_mean_logprob: float = -7.0
    """Nats per token, mean over a window of the chosen tokens: below it even the chosen ones were
    all but impossible."""
    bad_windows: int = 2
    """Windows in a row that must lie beyond a bound: production answers have more windows than the
    golden ones that bounds are learned from."""
    confident_windows: int = 8
    """The same on the side of too much confidence (256 tokens of 32-token windows): copying,
    counting and boilerplate are confident for a while."""

    max_step_entropy: float = 6.5
    """Nats, of one step at the request's own temperature: above it ``correct`` draws that step at a
    lower temperature. Used where ``step_entropy`` was not learned."""
    correct_temperature: float = 0.3
    """The temperature of a corrected step; requests below it keep their own."""

    loop_repeats: int = 24
    """A unit that comes so often in a row, and ``loop_characters`` long, is a loop. "Say it ten
    times" and "twenty times" pass."""
    loop_characters: int = 200
    long_loop_repeats: int = 8
    """The same for long units: so often, and ``long_loop_characters`` long."""
    long_loop_characters: int = 600
    max_period_characters: int = 600
    """The longest unit looked for."""
    mark_run_characters: int = 60
    """One mark that rules no line, such as ``!``, so often in a row is a loop (vllm#13035)."""
    plain_run_characters: int = 400
    """A run of letters or digits with one or two different signs, such as the base64 of zeros."""
    structure_loop_characters: int = 600
    """A loop of rulers, zeros, emoji or other units without a letter must be so long."""
    row_loop_characters: int = 1500
    """A loop of table rows, list items or code-like lines must be so long (evener#94: 14 equal
    rows are healthy)."""
    fenced_loop_characters: int = 4000
    """Inside a code fence a loop must be so long, and is SUSPECT at most (gemini-cli#5144)."""

    token_loop_repeats: int = 24
    """For token streams without text: the smallest unit comes so often in a row …"""
    token_loop_tokens: int = 64
    """… and the loop is so many tokens long."""
    stutter_pairs: int = 12
    """Different tokens or words that each come exactly twice in a row, among the last 64
    (intel/llm-scaler#721: every second token repeats the one before)."""

    suspicious_run: int = 4
    """Suspicious tokens in a row: pad, unused, reserved (vllm#18733, vllm#13035)."""
    suspicious_share: float = 0.25
    """Share of suspicious tokens among the last 64."""
    replacement_characters: int = 6
    """U+FFFD among the last 200 characters; one or two can be a cut emoji or a quotation."""
    whitespace_run: int = 512
    """Whitespace characters in a row (vllm#38696); padding of 70 blanks is healthy."""
    empty_tokens: int = 256
    """Tokens in a row that added no text (sglang#34852)."""

    engine_repeats: int = 128
    """``repetition_detection.min_count`` where the engine has it. Far above the stream's own limit,
    because the engine sees no fences, tables or rulers; it saves the rest of the token budget."""
    engine_max_pattern: int = 32
    """``repetition_detection.max_pattern_size`` in tokens. The engine compares that many patterns
    at every token."""

    def __post_init__(self) -> None:
        if self.reaction not in REACTIONS:
            raise ValueError(f"reaction must be one of {', '.join(REACTIONS)}")
        for spec in fields(self):
            value = getattr(self, spec.name)
            if spec.name in {"reaction", "min_mean_logprob"}:
                continue
            if not value > 0:
                raise ValueError(f"{spec.name} must be above 0")
        if self.min_mean_logprob >= 0:
            raise ValueError("min_mean_logprob must be below 0")
        if self.min_mean_entropy >= self.max_mean_entropy:
            raise ValueError("min_mean_entropy must be below max_mean_entropy")
        if self.suspicious_share > 1:
            raise ValueError("suspicious_share must be at most 1")
        if self.engine_repeats < 2:
            raise ValueError("engine_repeats must be at least 2")
