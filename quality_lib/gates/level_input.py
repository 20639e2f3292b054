"""The gates of level 1, in the order they are asked. Pure."""

from __future__ import annotations

from quality_lib.gates.gate import Gate
from quality_lib.gates.input_accounting import TokenizerFacts, prompt_accounting, prompt_start
from quality_lib.gates.input_cleaning import input_cleaning
from quality_lib.gates.input_limits import InputLimits
from quality_lib.gates.input_nonsense import input_nonsense
from quality_lib.gates.input_rules import input_rules
from quality_lib.gates.input_scope import Similarity, input_scope
from quality_lib.gates.input_size import CountTokens, input_size, input_tokens


def input_gates(
    limits: InputLimits,
    *,
    count_tokens: CountTokens | None = None,
    facts: TokenizerFacts | None = None,
    similarity: Similarity | None = None,
) -> tuple[Gate, ...]:
    """Return every gate of level 1 that these limits switch on.

    Without ``count_tokens`` and ``facts`` the gates that need them are UNJUDGED; the scope check takes
    part only with examples and a similarity.
    """
    gates = [input_size(limits), input_tokens(limits, count_tokens), input_cleaning()]
    if limits.nonsense:
        gates.append(input_nonsense(limits))
    gates.append(input_rules(limits))
    if limits.scope_examples and similarity is not None:
        gates.append(input_scope(limits, similarity))
    gates += [prompt_accounting(limits, count_tokens), prompt_start(facts, count_tokens)]
    return tuple(gates)
