"""Tables that no proxy may ever be given, and what a step between two of them must keep."""

from __future__ import annotations

import pytest

from quality_lib.errors import BadInput
from quality_lib.rollout.capacity import capacity_problems
from quality_lib.rollout.ports import Backend, RouteTable


@pytest.mark.parametrize(
    ("name", "address", "weight", "problem"),
    [
        ("a", "127.0.0.1:1", 100, None),
        ("a-1_b", "vllm-a.example.org:8000", 0, None),
        ("a", "[::1]:8000", 5, None),
        ("", "h:1", 0, "name"),
        ("A", "h:1", 0, "name"),
        ("a b", "h:1", 0, "name"),
        ("a;", "h:1", 0, "name"),
        ("a\n", "h:1", 0, "name"),
        ("-a", "h:1", 0, "name"),
        ("ä", "h:1", 0, "name"),
        ("a" * 64, "h:1", 0, "name"),
        ("a", "h", 0, "address"),
        ("a", "h:", 0, "address"),
        ("a", "h:0", 0, "address"),
        ("a", "h:65536", 0, "address"),
        ("a", "h:99999999999", 0, "address"),
        ("a", "h:٣", 0, "address"),
        ("a", "h;}:1", 0, "address"),
        ("a", "http://h:1", 0, "address"),
        ("a", "::1:1", 0, "address"),
        ("a", "h:1\n", 0, "address"),
        ("a", "h:1", -1, "weight"),
        ("a", "h:1", 101, "weight"),
        ("a", "h:1", 12.5, "weight"),
        ("a", "h:1", True, "weight"),
    ],
)
def test_a_backend(name: str, address: str, weight: int, problem: str | None) -> None:
    if problem is None:
        assert Backend(name, address, weight).name == name
        return
    with pytest.raises(BadInput, match=problem):
        Backend(name, address, weight)


def one(name: str, weight: int) -> Backend:
    return Backend(name, f"{name}:1", weight)


@pytest.mark.parametrize(
    ("backends", "mirror", "percent", "problem"),
    [
        ((one("a", 100),), None, 100, None),
        ((one("a", 99), one("b", 1)), "b", 1, None),
        ((), None, 100, "sum to 0"),
        ((one("a", 0),), None, 100, "sum to 0"),
        ((one("a", 60), one("b", 60)), None, 100, "sum to 120"),
        ((one("a", 50), one("a", 50)), None, 100, "no unique names"),
        ((Backend("a", "h:1", 50), Backend("b", "h:1", 50)), None, 100, "one address"),
        ((one("a", 100),), "b", 100, "mirror"),
        ((one("a", 100),), "a", 0, "mirror_percent"),
        ((one("a", 100),), "a", 101, "mirror_percent"),
    ],
)
def test_a_table(
    backends: tuple[Backend, ...], mirror: str | None, percent: int, problem: str | None
) -> None:
    if problem is None:
        table = RouteTable("chat", backends, mirror, percent)
        assert sum(table.weights().values()) == 100
        return
    with pytest.raises(BadInput, match=problem):
        RouteTable("chat", backends, mirror, percent)


def table(**weights: int) -> RouteTable:
    return RouteTable("chat", tuple(one(name, weight) for name, weight in weights.items()))


@pytest.mark.parametrize(
    ("before", "after", "healthy", "floor", "problems"),
    [
        (table(old=100), table(old=75, new=25), "old new", 1, []),
        (table(old=100), table(old=75, new=25), "new", 1, []),  # the bad one is on its way out
        (table(old=100), table(old=75, new=25), "old", 1, ["'new' would go from 0 to 25 %"]),
        (table(old=75, new=25), table(old=100, new=0), "old", 1, []),
        (table(old=100), table(old=100), "", 1, ["only 0 healthy"]),
        (table(old=100), table(old=0, new=100), "new", 2, ["only 1 healthy"]),
        (table(a=50, b=50), table(a=100, b=0), "a b", 2, ["only 1 healthy"]),
        (
            table(a=50, b=50),
            table(a=0, b=0, c=100),
            "",
            1,
            ["'c' would go from 0 to 100 %", "only 0 healthy"],
        ),
    ],
)
def test_capacity(
    before: RouteTable, after: RouteTable, healthy: str, floor: int, problems: list[str]
) -> None:
    found = capacity_problems(before, after, set(healthy.split()), floor)
    assert len(found) == len(problems)
    for told, wanted in zip(found, problems, strict=True):
        assert told.startswith(wanted)
