"""A rollback's plan as a page for people, in Markdown. Pure: the library's JSON in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MAX_CELL = 300


def page(result: Mapping[str, Any]) -> str:
    """Return the page; what the result lacks is left out, nothing of it is trusted to be well-formed."""
    plan = _mapping(result.get("plan"))
    facts = [f"- **{name}**: {_line(value)}" for name, value in _facts(result, plan) if value]
    blocks = [
        f"## {_line(result.get('headline') or 'Plan of the rollback')}",
        "\n".join(facts),
        _steps(plan),
        _moves(plan),
    ]
    if result.get("dry_run"):
        blocks.append("This was a dry run: nothing was started and nothing was changed.")
    return "\n\n".join(block for block in blocks if block) + "\n"


def _facts(result: Mapping[str, Any], plan: Mapping[str, Any]) -> list[tuple[str, Any]]:
    candidates = [_mapping(candidate) for candidate in _sequence(plan.get("candidates"))]
    others = [str(candidate.get("snapshot_id") or "")[:12] for candidate in candidates[1:]]
    return [
        ("Service", result.get("service")),
        ("Incident", result.get("incident_id")),
        ("Back to", _target(result.get("target"))),
        ("If that one fails its check", ", ".join(others)),
        ("Mode", result.get("mode")),
        ("Strategy", plan.get("strategy")),
        ("Capacity", plan.get("capacity")),
        ("Outage", _outage(plan)),
        ("In all", _duration(plan["expected_s"]) if "expected_s" in plan else ""),
    ]


def _target(target: Any) -> str:
    return str(_mapping(target).get("snapshot_id") or target or "")[:12]


def _outage(plan: Mapping[str, Any]) -> str:
    if "outage_s" not in plan:
        return ""
    seconds = plan["outage_s"]
    if seconds is None:
        return "of unknown length"
    return f"about {_duration(seconds)}" if seconds else "none"


def _steps(plan: Mapping[str, Any]) -> str:
    rows = [
        f"| {_cell(row.get('name'))} | {_cell(row.get('what'))} | {_duration(row.get('expected_s'))} |"
        for row in map(_mapping, _sequence(plan.get("steps")))
    ]
    return _table("| step | what happens | expected |", rows)


def _moves(plan: Mapping[str, Any]) -> str:
    rows = [
        f"| {_cell(row.get('name', row.get('index')))} | {_cell(_weights(row))} |"
        for row in map(_mapping, _sequence(plan.get("moves")))
    ]
    return _table("| move | weights afterwards |", rows)


def _table(head: str, rows: Sequence[str]) -> str:
    rule = "|---" * (head.count("|") - 1) + "|"
    return "\n".join([head, rule, *rows]) if rows else ""


def _weights(move: Mapping[str, Any]) -> str:
    table = move.get("table", move.get("weights"))
    if isinstance(table, Mapping) and "backends" in table:
        table = table["backends"]
    if isinstance(table, Mapping):
        return ", ".join(f"{name} {weight} %" for name, weight in table.items())
    named = [_mapping(backend) for backend in _sequence(table)]
    return ", ".join(f"{b.get('name')} {b.get('weight')} %" for b in named if b)


def _duration(seconds: Any) -> str:
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return "not measured yet"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _line(value: Any) -> str:
    return " ".join(str(value).split())


def _cell(value: Any) -> str:
    return _line("" if value is None else value)[:_MAX_CELL].replace("|", "\\|")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
