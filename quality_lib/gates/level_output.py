"""All gates of level 4. Pure."""

from __future__ import annotations

from quality_lib.gates.answer_view import shared_view
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.code_syntax import code_syntax
from quality_lib.gates.coherence import coherence
from quality_lib.gates.confidence import confidence
from quality_lib.gates.control_tokens import control_tokens
from quality_lib.gates.cut_tail import cut_tail
from quality_lib.gates.damaged_text import damaged_text
from quality_lib.gates.echo import echo
from quality_lib.gates.emptiness import emptiness
from quality_lib.gates.ending import ending
from quality_lib.gates.gate import Gate
from quality_lib.gates.keywords import Expected, keywords
from quality_lib.gates.language import language
from quality_lib.gates.length import length
from quality_lib.gates.letters import letters
from quality_lib.gates.loop import loop
from quality_lib.gates.nonce import nonce
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.reading import Alike, Gains, Readings
from quality_lib.gates.reasoning_tags import reasoning_tags
from quality_lib.gates.recent_answers import Embed, recent_meaning, recent_words
from quality_lib.gates.relevance import relevance
from quality_lib.gates.repetition import repetition
from quality_lib.gates.role_markers import role_markers
from quality_lib.gates.script import script
from quality_lib.gates.soup import soup
from quality_lib.gates.spacing import spacing
from quality_lib.gates.stop_words import stop_words
from quality_lib.gates.structure_json import structure_json
from quality_lib.gates.stutter import stutter
from quality_lib.gates.tool_calls import tool_calls
from quality_lib.gates.unfinished import unfinished
from quality_lib.gates.variety import variety
from quality_lib.gates.whitespace import whitespace
from quality_lib.gates.word_order import word_order


def output_gates(limits: OutputLimits, bounds: LearnedBounds) -> tuple[Gate, ...]:
    """Make the gates of a finished answer that need no model; they share one reading of it."""
    view = shared_view()
    return (
        emptiness(view),
        ending(view),
        length(bounds, view),
        loop(limits, view),
        cut_tail(limits, view),
        repetition(limits, view),
        variety(limits, view),
        stutter(limits, view),
        whitespace(limits, view),
        soup(limits, view),
        letters(limits, view),
        word_order(limits, view),
        spacing(limits, view),
        script(limits, view),
        language(view),
        damaged_text(limits, view),
        control_tokens(view),
        stop_words(view),
        role_markers(view),
        reasoning_tags(view),
        echo(limits, view),
        structure_json(view),
        tool_calls(view),
        code_syntax(view),
        nonce(view),
        recent_words(limits, view),
        confidence(limits, bounds, view),
    )


def model_gates(
    limits: OutputLimits,
    bounds: LearnedBounds,
    *,
    readings: Readings | None = None,
    gains: Gains | None = None,
    alike: Alike | None = None,
    embed: Embed | None = None,
    expected: Expected | None = None,
) -> tuple[Gate, ...]:
    """Make the gates of a finished answer whose measures come from outside; only those that are given."""
    view = shared_view()
    gates: list[Gate] = []
    if readings is not None:
        gates.append(coherence(limits, bounds, view, readings))
        gates.append(unfinished(limits, view, readings))
    if gains is not None and alike is not None:
        gates.append(relevance(limits, view, gains, alike))
    if embed is not None:
        gates.append(recent_meaning(limits, bounds, view, embed))
    if expected is not None:
        gates.append(keywords(limits, view, expected))
    return tuple(gates)
