"""Policies: what may be written, and every truth table against a brute-force evaluator."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.records import Tri
from quality_lib.rollout.policy import evaluate, parse_policy, substituted

Y, N, U = Tri.YES, Tri.NO, Tri.UNKNOWN
ALL = [dict(zip("ABC", states, strict=True)) for states in itertools.product(Tri, repeat=3)]


def brute_force(policy: Any, states: Mapping[str, Tri]) -> Tri:
    """Try every completion of what is unknown, each place where a condition stands by itself.

    Kleene's logic does not see that two places name the same condition, so neither does this.
    """
    options = {Y: (True,), N: (False,), U: (True, False)}

    def values(node: Any) -> frozenset[bool]:
        if isinstance(node, str):
            return frozenset(options[states[node]])
        if node[0] == "not":
            return frozenset(not value for value in values(node[1]))
        join = all if node[0] == "and" else any
        return frozenset(join(pair) for pair in itertools.product(*map(values, node[1:])))

    found = values(policy)
    return U if len(found) == 2 else Y if found == {True} else N


def text_of(node: Any) -> str:
    if isinstance(node, str):
        return node
    if node[0] == "not":
        return f"not ({text_of(node[1])})"
    return f" {node[0]} ".join(f"({text_of(part)})" for part in node[1:])


nodes = st.recursive(
    st.sampled_from("ABC"),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner, inner),
    ),
    max_leaves=8,
).filter(lambda node: len(text_of(node)) <= 200)


@pytest.mark.parametrize("states", ALL, ids=lambda s: "".join(v.value[0] for v in s.values()))
def test_the_default_policy_in_all_27_worlds(states: dict[str, Tri]) -> None:
    found = evaluate(parse_policy("(A and B) or C"), states)
    assert found is brute_force(("or", ("and", "A", "B"), "C"), states)


@pytest.mark.parametrize(
    ("a", "b", "c", "state"),
    [(Y, Y, N, Y), (U, N, N, N), (U, U, Y, Y), (Y, U, N, U), (Y, N, N, N), (N, N, U, U)],
)
def test_the_rows_that_matter_by_hand(a: Tri, b: Tri, c: Tri, state: Tri) -> None:
    assert evaluate(parse_policy("(A and B) or C"), {"A": a, "B": b, "C": c}) is state


@given(nodes, st.sampled_from(ALL))
def test_any_policy_is_what_brute_force_says(node: Any, states: dict[str, Tri]) -> None:
    assert evaluate(parse_policy(text_of(node)), states) is brute_force(node, states)


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("A and B or C", "(A and B) or C"),
        ("A or B and C", "A or (B and C)"),
        ("not A and B", "(not A) and B"),
        ("not not A", "A"),
        ("A AND (B Or C)", "A and (B or C)"),
        ("((A))", "A"),
        ("\tA\nor B ", "A or B"),
    ],
)
def test_what_binds_tighter(text: str, same_as: str) -> None:
    for states in ALL:
        found = evaluate(parse_policy(text), states)
        assert found is evaluate(parse_policy(same_as), states)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "ends where a condition is expected"),
        ("A and", "ends where"),
        ("A B", "'B' at character 3 comes after the end"),
        ("A and or B", "'or' at character 7 stands where"),
        ("(A or B", "not closed"),
        ("A)", "'\\)' at character 2 comes after"),
        ("D", "'D' at character 1 is no condition; there are A, B, C"),
        ("a", "'a' at character 1 is no condition"),
        ("A & B", "'&' at character 3 does not belong"),
        ("()", "stands where"),
        ("(" * 201, "longer than 200"),
    ],
)
def test_a_wrong_policy_is_told_by_its_character(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_policy(text)


@pytest.mark.parametrize("text", ["(" * 99 + "A" + ")" * 99, "not " * 49 + "A", "(" * 200])
def test_the_deepest_policies_do_not_exhaust_the_stack(text: str) -> None:
    try:
        evaluate(parse_policy(text), {})
    except ValueError as error:
        assert "ends where" in str(error)


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        names = parse_policy(text).names()
    except ValueError:
        return
    assert names <= {"A", "B", "C"}


def test_a_condition_without_a_state_is_unknown_and_shown_so() -> None:
    assert evaluate(parse_policy("A or B"), {"A": N}) is U
    assert substituted("(A and B) or C", {"A": Y, "B": N}) == "(yes and no) or unknown"
