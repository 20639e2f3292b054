"""Level 4: the answer has nothing to do with what was asked. Pure.

A fluent answer beside the question is probable text: no rule and no perplexity can tell it. But its
prompt explains nothing of it. The *gain* is what the prompt adds to the log-probability of the
answer's head under a reference language model: far above zero for a right answer, a wrong one about the
subject included, and below zero where another prompt must have been answered.

Right answers may gain nothing as well: a joke, a refusal, a greeting, a text in a language that a small
model hardly knows. So only English prose to English questions with a subject is judged, the reference
must be sure of its reading, and a second witness, likeness of meaning, must agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.answer_view import AnswerView, View, words_of
from quality_lib.gates.english import is_english_prompt, is_english_prose
from quality_lib.gates.function_words import FUNCTION_WORDS
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import output_gate, suspect, unjudged
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.reading import Alike, Gains, Reading
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "beside_the_question",
        Outcome.SUSPECT,
        "The prompt makes the answer less likely, and the two do not speak of the same thing.",
        "gates.output.min_gain",
        "LMCache#4385, tenstorrent/vllm#415",
    ),
    Reason(
        "relevance_unknown",
        Outcome.UNJUDGED,
        "This prompt or answer is of a kind that tells nothing of relevance, or no model was asked.",
    ),
)
HEAD_TOKENS = 48
"""Tokens of an answer that are judged: later ones follow from its own beginning."""
_HEAD_CHARACTERS = 400
_LEAST_TOKENS = 5
_LONGEST_PROMPT = 800
"""Characters that surely fit into what the models see before an answer."""
_SURE = 100.0
"""Perplexity up to which the reference understands what it reads."""
_LEAST_SUBJECT = 3
"""Words with a meaning that make a subject where the assistant itself is spoken to, as in "how was your day"."""
_LEAST_LETTERS = 3
_TO_THE_ASSISTANT = frozenset(("you", "your", "yours", "yourself", "me", "i", "i'm", "my"))
_WARY = 3.0
"""Times the limit: where the answer refuses or asks back, in a conversation, of a half-alike pair."""
_HALF_ALIKE = 0.15
"""Cosine above the limit up to which a pair is half alike."""
_ASKS_BACK = re.compile(
    r"\b(?:can['’]?t|cannot|can not|can only|unable|not able|won['’]t|don['’]t (?:have|see|know|find|understand)"
    r"|do not (?:have|see|know|find|understand)|didn['’]t|haven['’]t|no (?:access|information|mention|attachment)"
    r"|not (?:mentioned|available|provided|specified|sure)|doesn['’]t (?:mention|say|contain)|could you|can you"
    r"|please (?:provide|paste|share|send|tell|clarify|specify|upload)|which (?:one|of)|depends|you mean)\b",
    re.IGNORECASE,
)


def relevance(limits: OutputLimits, view: View, gains: Gains, alike: Alike) -> Gate:
    """Suspect answers that their prompt does not explain and that mean something else.

    ``alike`` is asked of few answers only: those whose gain is low.
    """
    unknown = unjudged("relevance_unknown", "Nothing tells whether it answers the question.")

    def look(answer: AnswerView) -> Verdict | None:
        gain = gains(answer.exchange)
        if gain is None:
            return unknown
        least = limits.min_gain * (_WARY if _is_wary(answer) else 1.0)
        if not gain <= least:  # of NaN another gate speaks
            return None
        similarity = alike(answer.exchange)
        if similarity is None:
            return unknown
        beyond = similarity - limits.min_prompt_similarity
        if beyond > _HALF_ALIKE:
            return None
        if beyond > 0:
            least *= _WARY
        if gain > least:
            return None
        return suspect(
            "beside_the_question",
            f"The prompt adds {gain:.1f} nats to the answer's head, and their similarity is {similarity:.2f}.",
            gain=round(gain, 2),
            least=least,
            similarity=round(similarity, 3),
        )

    return output_gate("relevance", view, look, REASONS)


def may_tell(answer: AnswerView, reading: Reading) -> bool:
    """Whether the gain of such an answer means anything; only then is it worth a second reading."""
    head = reading.logprobs[:HEAD_TOKENS]
    # NaN is not between the two; of it another gate speaks.
    if len(head) < _LEAST_TOKENS or not 0 <= -sum(head) / len(head) <= math.log(_SURE):
        return False
    return _has_subject(answer.exchange) and not _is_free(answer) and is_english_prose(answer)


def head_of(text: str) -> str:
    """Return the part of an answer that is read a second time, cut between words."""
    if len(text) <= _HEAD_CHARACTERS:
        return text
    cut = text[: _HEAD_CHARACTERS + 1]
    end = max(cut.rfind(blank) for blank in " \n\t")
    return cut[: max(end, 0)].rstrip() or text[:_HEAD_CHARACTERS]


def gain_of(prompted: Reading, alone: Reading) -> float:
    """Return what the prompt adds to the log-probability of the head, nats.

    ``alone`` is the reading of ``head_of`` without a prompt.
    """
    pairs = zip(prompted.logprobs[:HEAD_TOKENS], alone.logprobs, strict=False)
    return sum(with_prompt - without for with_prompt, without in pairs)


def _is_wary(answer: AnswerView) -> bool:
    messages = answer.exchange.messages
    if messages is not None and len(messages) > 1:
        return True
    return _ASKS_BACK.search(head_of(answer.text)) is not None


def _is_free(answer: AnswerView) -> bool:
    wishes = answer.wishes
    return wishes.free or wishes.languages or wishes.nonsense


def _has_subject(exchange: Exchange) -> bool:
    """Whether the prompt is a short English text that speaks of something."""
    asked = exchange.asked
    if not 0 < len(asked) <= _LONGEST_PROMPT or _shows_more(exchange):
        return False
    if not is_english_prompt(asked):
        return False
    words = words_of(asked.lower())
    subject = [word for word in words if len(word) >= _LEAST_LETTERS and word not in FUNCTION_WORDS]
    if len(subject) >= _LEAST_SUBJECT:
        return True
    return bool(subject) and _TO_THE_ASSISTANT.isdisjoint(words)


def _shows_more(exchange: Exchange) -> bool:
    """Whether the prompt holds pictures, sounds or files that no language model here can see."""
    for message in exchange.messages or ():
        content = message.get("content")
        if not isinstance(content, list | tuple):
            continue
        if any(
            not isinstance(part, Mapping) or part.get("type", "text") != "text" for part in content
        ):
            return True
    return False
