"""The result as a table that people read: Markdown, from the JSON alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

BUDGET_TOKENS = 1250
"""A thousand, and a quarter more: prompts come whole."""
WORDS = {"deterministic": "Deterministic track", "noisy": "Noisy track", "mixture": "Mixtures"}


def markdown(result: Mapping[str, Any]) -> str:
    """Return the page."""
    told = [
        "# The silent-fault matrix: results",
        "",
        f"Measured {result['date']} on {result['machine']}, load {result['load']}; "
        f"{result['form']}. Threshold of every method: 0.1 false alarms a year of hourly checks "
        f"({result['budget_false_alarms_per_check']:.3g} of one check), from the calibrating half alone; "
        "an asterisk marks one that is continued from fewer healthy checks than such a rate needs. "
        "Intervals are Wilson's at 95 %. `docs/matrix.md` explains the columns.",
        "",
    ]
    for track, found in result["tracks"].items():
        told += [f"## {WORDS[track]}", "", _halves(found["halves"]), ""]
        if track != "mixture":
            told += [*_methods(found["methods"]), *_budget(found["methods"])]
        told += _kinds(found["methods"])
        told += _procedure(found["procedure"]) if "procedure" in found else []
    return "\n".join(told) + "\n"


def _halves(halves: Mapping[str, Any]) -> str:
    parts = [
        f"{name} {one['checks']} checks of server starts {', '.join(map(str, one['starts'])) or 'none'}"
        for name, one in halves.items()
    ]
    return "; ".join(parts) + "."


def _methods(methods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    rows = [
        "| method | tokens a check | threshold | false alarms in health | gross faults found in one check "
        "| own rule: gross / false | TinyChange macro AUC |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in methods.items():
        mark = "*" if one["threshold_is_extrapolated"] else ""
        own = one["own_rule"]
        told = f"{_share(own['gross'])} / {_share(own['false_alarms'])}" if own else "–"
        rows.append(
            f"| {name} | {one['tokens_per_check']:.0f} | {one['threshold']}{mark} | {_share(one['false_alarms'])} "
            f"| {_share(one['gross'])} | {told} | {_number(one['tiny_change_macro_auc'])} |"
        )
    return [*rows, ""]


def _budget(methods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Tell what each method finds with as many prompts as about a thousand tokens pay."""
    rows = [
        f"With as many prompts as {BUDGET_TOKENS:,} tokens a check pay, learned and judged with these alone:",
        "",
        "| method | tokens | prompts | gross faults found in one check | false alarms in health | TinyChange macro AUC |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in methods.items():
        paid = [row for row in one["by_tokens"] if row["tokens"] <= BUDGET_TOKENS]
        if paid:
            most = paid[-1]
            rows.append(
                f"| {name} | {most['tokens']} | {most['prompts']} | {_share(most['gross'])} "
                f"| {_share(most['false_alarms'])} | {_number(most['tiny_change_macro_auc'])} |"
            )
    return [*rows, ""]


def _kinds(methods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    names = list(methods)
    if not names:
        return []
    rows = [
        "Found in one check / AUC, by row of the matrix:",
        "",
        f"| row | fault | checks | {' | '.join(names)} |",
        f"|---|---|---|{'---|' * len(names)}",
    ]
    by_method = {
        name: {(k["number"], k["kind"]): k for k in methods[name]["kinds"]} for name in names
    }
    for key, first in by_method[names[0]].items():
        cells = [_cell(by_method[name].get(key)) for name in names]
        rows.append(f"| {key[0]} | {key[1]} | {first['checks']} | {' | '.join(cells)} |")
    return [*rows, ""]


def _procedure(told: Mapping[str, Any]) -> list[str]:
    """Tell how long the product itself takes, with its repeats and its evidence over hours."""
    if "refused" in told:
        return [f"The product's procedure over hours was not run: {told['refused']}.", ""]
    healthy = told["healthy"]
    lowered = ", its minimum sizes lowered for this recording" if told["limits_lowered"] else ""
    rows = [
        f"The product's procedure over hours, calibrated on {told['calibration_checks']} checks{lowered}: "
        f"pages in health {_share(healthy['pages'])}, {healthy['unknown']} checks unknown.",
        "",
        "| row | fault | paged within an hour | paged within 200 hours | median hours | 90 % within |",
        "|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {k['number']} | {k['kind']} | {_share(k['within_an_hour'])} | {_share(k['paged'])} "
        f"| {_hours(k['median_hours'])} | {_hours(k['p90_hours'])} |"
        for k in told["kinds"]
    ]
    return [*rows, ""]


def _hours(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _cell(kind: Mapping[str, Any] | None) -> str:
    if kind is None:
        return "–"
    found = kind["found"]["share"]
    told = "–" if found is None else f"{found:.0%}"
    return f"{told} / {_number(kind['auroc'])}"


def _share(one: Mapping[str, Any]) -> str:
    if one["share"] is None:
        return "–"
    low, high = one["interval"]
    return f"{one['hits']}/{one['of']} ({low:.1%}–{high:.1%})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def summary(result: Mapping[str, Any]) -> Sequence[str]:
    """Return the lines that are printed after scoring."""
    lines = []
    for track in ("deterministic", "noisy"):
        for name, one in result["tracks"][track]["methods"].items():
            lines.append(
                f"{track:13} {name:26} {one['tokens_per_check']:6.0f} tokens  gross {_share(one['gross']):26} "
                f"false {_share(one['false_alarms']):24} TinyChange {_number(one['tiny_change_macro_auc'])}"
            )
    return lines
