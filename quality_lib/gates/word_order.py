"""Level 4: English function words in an order that no sentence has. Pure.

Fluent-looking nonsense keeps its small words and loses their order: articles before verbs and
prepositions, prepositions before finite verbs. One such pair happens; several do not. Other
languages, and nonsense that keeps the order, need perplexity.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.text_fold import listed
from quality_lib.gates.word_pairs import PAIRS, may_hold_pair
from quality_lib.records import Outcome, Verdict

_SOURCE = "OpenAI status of February 2024, TensorRT-LLM#11125, vllm#10559"
REASONS = (
    Reason(
        "word_salad",
        Outcome.FAILED,
        "Again and again English function words stand in an order that no sentence has.",
        "gates.output.salad_pairs",
        _SOURCE,
    ),
    Reason(
        "word_salad_some",
        Outcome.SUSPECT,
        "Twice, or once in a short answer, English function words stand in an order that hardly a sentence has.",
        "gates.output.salad_pairs",
        _SOURCE,
    ),
)
_ARTICLES = frozenset(listed("the a an"))
_AFTER_THE = frozenset(
    listed(
        "the is are was were has have had does did would could should of on at to for from with by because than into upon toward during been be"
    )
)
_ON_ERRORS = frozenset(
    listed(
        "typo typos error errors mistake mistakes grammar spelling proofread correct correction duplicate duplicated doubled wrong fix "
        "stammer stutter transcript verbatim"
    )
)
"""Words of a prompt that may ask for faulty sentences, or for talk about them."""
_SHORT = 40
"""Words of an answer in which "the the" or "the is" is enough: it is hardly chance where so little is said."""
WINDOW = 80
_SPEAKS_OF_WORDS = frozenset(
    listed(
        "statement statements loop loops clause clauses keyword operator field condition block parameter option button word words article "
        "conjunction preposition pronoun verb gate column command flag function method expression"
    )
)


def word_order(limits: OutputLimits, view: View) -> Gate:
    """Fail English whose function words are out of order."""

    def look(answer: AnswerView) -> Verdict | None:
        if not may_hold_pair(answer.signs.places):
            return None
        words = answer.tokens
        places = [
            at
            for at, pair in enumerate(pairwise(words))
            if pair in PAIRS and not _is_spoken_of(words, at)
        ]
        most, start = _most_in_window(places)
        if most == 1 < limits.salad_pairs and _is_enough(answer, places[0]):
            pair = " ".join(words[places[0] : places[0] + 2])
            return suspect(
                "word_salad_some",
                f"{pair!r} in an answer of {len(words)} words.",
                word=places[0],
                pairs=[pair],
                count=1,
            )
        least = limits.salad_pairs * (2 if answer.wishes.code else 1)
        if most < least or answer.wishes.nonsense:
            return None
        pairs = [" ".join(words[at : at + 2]) for at in places[start : start + most]]
        evidence = {"word": places[start], "pairs": pairs[:8], "count": most}
        sentence = f"{most} impossible pairs such as {pairs[0]!r} in {WINDOW} words."
        if most >= 2 * least:
            return failed("word_salad", sentence, **evidence)
        return suspect("word_salad_some", sentence, **evidence)

    return output_gate("word_order", view, look, REASONS)


def _is_enough(answer: AnswerView, at: int) -> bool:
    """Whether one pair of "the" and a word that cannot follow it makes a short answer suspect."""
    words = answer.tokens
    if len(words) > _SHORT or words[at] != "the" or words[at + 1] not in _AFTER_THE:
        return False
    wishes = answer.wishes
    if wishes.code or wishes.nonsense or not _ON_ERRORS.isdisjoint(wishes.words):
        return False
    return f"the {words[at + 1]}" not in wishes.folded


def _is_spoken_of(words: list[str], at: int) -> bool:
    """Whether the second word is a name, as in "the if statement"."""
    if words[at + 1] in _ARTICLES:
        return False
    return any(word.strip(".,:;").lower() in _SPEAKS_OF_WORDS for word in words[at + 2 : at + 4])


def _most_in_window(places: list[int]) -> tuple[int, int]:
    """Return how many places lie in the fullest window, and the first of them."""
    best, first = 0, 0
    for start, place in enumerate(places):
        inside = bisect_left(places, place + WINDOW) - start
        if inside > best:
            best, first = inside, start
    return best, first
