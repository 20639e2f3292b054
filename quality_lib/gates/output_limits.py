"""Limits of level 4, with their defaults. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class OutputLimits:
    """When a finished answer is suspect or bad."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    min_characters: int = 40
    """Below this length no statistic is taken (guardrails#1281: short replies were called gibberish)."""
    loop_copies: int = 8
    """Copies of a short unit that make a loop, when they reach at least ``loop_characters``."""
    loop_characters: int = 24
    """Characters that the copies of a short unit must cover."""
    loop_long_characters: int = 100
    """A loop of half as many copies must cover this; one of three copies two and a half times this."""
    loop_row_copies: int = 12
    """Equal rows of a table, list or program that make a loop when the limit ended them; 14 equal
    rows of a finished answer are healthy (evener#94)."""
    loop_ended_share: float = 0.4
    """A loop that ended by itself is suspect only when it covers this share of the answer."""
    cut_phrases: float = 0.4
    """Share of word triples that come again in an answer that the limit ended; healthy ones stay
    below 0.34."""
    same_rows: int = 6
    """Rows in a row that say the same, or differ in a number, before the limit ended the answer."""
    run_characters: int = 12
    """Copies of one letter or mark up to the limit that make a dead tail (vllm#54235: twelve marks)."""
    ruler_characters: int = 120
    """Dividers, leaders and borders up to this length are drawing (gemini-cli#6893, evener#94)."""
    repeated_share: float = 0.6
    """Share of the text in sentences that come three times or more."""
    repeated_phrases: float = 0.34
    """Share of the words inside a phrase of four words that came before; healthy prose of a small model
    stays below 0.22."""
    min_variety: float = 0.38
    """Share of different words in the poorest stretch of 48 words; healthy prose stays above 0.5."""
    max_variety: float = 0.96
    """Share of different words in 50 of English prose from which nothing is ever said twice; in 80 words
    0.03 less. Healthy prose stays below 0.91 and 0.82."""
    stutter_share: float = 0.3
    """Share of words that equal the one before, in the worst stretch of 24 words (llm-scaler#721)."""
    blank_run: int = 200
    """Blanks in a row inside an answer; padding of columns stays below (gemini-cli#28877)."""
    blank_tail: int = 16
    """Blanks in a row at the end of an answer that the limit ended (vllm#38696, vllm#4093)."""
    odd_word_share: float = 0.34
    """Share of words that no language writes so (glued names, letters with digits, marks inside) in
    a window of prose that make it token soup."""
    function_word_share: float = 0.06
    """Share of function words below which a stretch without punctuation is a word list (tale#88)."""
    letter_share: float = 0.7
    """Share of single letters among the words of an answer that nobody asked letters of."""
    salad_pairs: int = 2
    """Pairs of English function words in an impossible order within 80 words that make a text
    suspect; twice as many make it bad."""
    glued_characters: int = 70
    """Characters of sentences without a blank that make a text bad; the longest words stay below."""
    glued_words: int = 2
    """Different pairs of small words glued together that make a text suspect; twice as many, bad
    (vllm#40725)."""
    foreign_runs: int = 2
    """Unasked pieces in another script inside the sentences of an answer that make it bad; one makes
    it suspect (Anthropic, September 2025)."""
    replacement_marks: int = 1
    """U+FFFD inside a finished text; at the very end of an answer that was cut it is allowed."""
    echo_share: float = 0.85
    """Share of an answer's five-word sequences that stand in the prompt (vllm#52617)."""
    min_keyword_share: float = 0.5
    """Share of the expected keywords that an answer must hold."""
    min_word_overlap: float = 0.05
    """Share of words in common with at least one recent answer to the same request (Jaccard)."""
    min_similarity: float = 0.2
    """Embedding cosine with recent answers to the same request; used until a band was learned."""
    max_perplexity: float = 500.0
    """Of 32 tokens under the reference model; used until a bound was learned. Prose that people wrote
    reaches 230 in English and 400 in languages that a small model knows less of; what large models write
    stays far below."""
    max_perplexity_odd: float = 110.0
    """The same of what holds words that no language writes, or many numbers."""
    max_excess: float = 3.2
    """Mean surprise of 32 tokens beyond the reference model's own doubt, nats a token. Healthy prose reaches
    2.7."""
    min_gain: float = -5.0
    """Nats that the prompt adds at least to the log-probability of the answer's head under the reference
    model. Healthy English answers to questions with a subject mostly add 10 to 40, and -4 at the least: in
    pictures and figures of speech."""
    min_prompt_similarity: float = 0.2
    """Embedding cosine of prompt and answer from which a low gain is no longer held against it."""
    min_closing: float = -6.0
    """Log-probability under the reference model that a text which ended by itself ends there, or its line or sentence.
    Healthy English prose reaches -5.1, without a full stop too."""
    min_logprob: float = -4.0
    """Mean log-probability of a window's chosen tokens, nats; used until a bound was learned."""
    max_logprob: float | None = None
    """The same from above: a window in which nothing is ever in doubt is a loop or a corrupt context.
    None: judged only against a learned bound, for right answers can be beyond doubt too."""
    max_entropy: float = 5.0
    """Mean entropy of a window's next-token distribution, nats; used until a bound was learned."""

    def __post_init__(self) -> None:
        """Refuse limits that cannot be meant."""
        for names, is_meant, rule in _RULES:
            for name in names.split():
                if not is_meant(getattr(self, name)):
                    raise ValueError(f"{name} must be {rule}")


_RULES: tuple[tuple[str, Callable[[float], bool], str], ...] = (
    (
        "loop_ended_share repeated_share stutter_share odd_word_share echo_share max_variety cut_phrases "
        "letter_share",
        lambda value: 0 < value <= 1,
        "above 0 and at most 1",
    ),
    (
        "loop_copies loop_characters loop_long_characters loop_row_copies same_rows run_characters",
        lambda value: value >= 3,
        "at least 3",
    ),
    (
        "min_characters ruler_characters blank_run blank_tail glued_characters foreign_runs replacement_marks "
        "salad_pairs glued_words",
        lambda value: value >= 1,
        "at least 1",
    ),
    (
        "max_perplexity max_perplexity_odd",
        lambda value: value > 1,
        "above 1",
    ),
    ("max_excess", lambda value: value > 0, "above 0"),
    ("min_gain min_closing", lambda value: value <= 0, "at most 0"),
    ("min_prompt_similarity", lambda value: -1 <= value <= 1, "between -1 and 1"),
)
