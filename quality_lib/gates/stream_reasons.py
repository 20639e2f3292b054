"""The reason codes of level 3. Pure."""

from __future__ import annotations

from quality_lib.gates.gate import Reason
from quality_lib.records import Outcome

_S = "gates.stream."

REASONS: tuple[Reason, ...] = (
    Reason("stream_clean", Outcome.PASSED, "Nothing was found while the answer was generated."),
    Reason("stream_too_short", Outcome.UNJUDGED, "Too little came to judge a stream."),
    Reason(
        "stream_entropy_high",
        Outcome.FAILED,
        "The next token is all but a guess over several windows.",
        f"{_S}max_mean_entropy",
        "requirement G3.1; sglang#1434",
    ),
    Reason(
        "stream_entropy_low",
        Outcome.SUSPECT,
        "Nothing but one token is possible over many windows.",
        f"{_S}min_mean_entropy",
        "intel/llm-scaler#721",
    ),
    Reason(
        "stream_logprob_low",
        Outcome.FAILED,
        "The chosen tokens were all but impossible over several windows.",
        f"{_S}min_mean_logprob",
        "vllm#53029",
    ),
    Reason(
        "stream_logprob_high",
        Outcome.SUSPECT,
        "The model is surer than in any healthy answer, over many windows.",
        f"{_S}confident_windows",
        "intel/llm-scaler#721",
    ),
    Reason(
        "stream_nan_logits",
        Outcome.FAILED,
        "The logits of a step held NaN or infinity.",
        "",
        "vllm#18777, vllm#27301",
    ),
    Reason(
        "stream_loop",
        Outcome.FAILED,
        "A unit repeats up to where the stream is now.",
        f"{_S}loop_repeats",
        "vllm#35451, claude-code#65823",
    ),
    Reason(
        "stream_loop_in_code",
        Outcome.SUSPECT,
        "A very long repetition inside a code fence, or one that was asked for.",
        f"{_S}fenced_loop_characters",
        "gemini-cli#5144",
    ),
    Reason(
        "stream_stutter",
        Outcome.FAILED,
        "Many different tokens or words come exactly twice.",
        f"{_S}stutter_pairs",
        "intel/llm-scaler#721",
    ),
    Reason(
        "stream_suspicious_tokens",
        Outcome.FAILED,
        "A run of pad, unused, reserved or other control tokens.",
        f"{_S}suspicious_run",
        "vllm#18733, vllm#40290",
    ),
    Reason(
        "stream_broken_characters",
        Outcome.FAILED,
        "Many tokens do not form characters (U+FFFD).",
        f"{_S}replacement_characters",
        "vllm-mlx#109",
    ),
    Reason(
        "stream_whitespace",
        Outcome.FAILED,
        "A very long run of blanks or empty lines.",
        f"{_S}whitespace_run",
        "vllm#38696, vllm#4093",
    ),
    Reason(
        "stream_no_progress",
        Outcome.FAILED,
        "Many tokens came without any text.",
        f"{_S}empty_tokens",
        "sglang#34852",
    ),
    Reason(
        "stream_engine_repetition",
        Outcome.FAILED,
        "The engine's own repetition detection ended the answer.",
        f"{_S}engine_repeats",
        "vllm#35451",
    ),
    Reason("stream_odd_data", Outcome.UNJUDGED, "What came cannot be read as tokens or numbers."),
)
