"""Write ``docs/gates.md`` from the gates themselves, so that the page cannot fall behind."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quality_lib.gates.catalogue import Entry, entries
from quality_lib.gates.gate import Level
from quality_lib.gates.input_limits import InputLimits
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.stream_limits import StreamLimits
from quality_lib.records import Outcome

TARGET = Path(__file__).parents[1] / "docs" / "gates.md"
DEFAULTS: dict[str, Any] = {
    "input": InputLimits(),
    "parameters": ParameterBounds(),
    "stream": StreamLimits(),
    "output": OutputLimits(),
}
TITLES = {
    Level.INPUT: "Level 1: the request",
    Level.PARAMETERS: "Level 2: the sampling parameters",
    Level.STREAM: "Level 3: while the answer is generated",
    Level.OUTPUT: "Level 4: the finished answer",
}
INTRODUCTION = """\
# Gates

<!-- Written by scripts/write_gate_catalogue.py; edit the reasons in quality_lib/gates/ instead. -->

A gate looks at a request, a stream or a finished answer and returns a verdict: an outcome, a stable
reason code, a sentence for a person, and evidence with offsets and numbers.

- `FAILED`: it is bad. `SUSPECT`: it may be bad. `PASSED`: nothing was found.
- `UNJUDGED`: nothing could be said. It is never a pass and never a fault; a gate that crashes gives
  `gate_crashed` with this outcome and touches nothing.

The worst outcome of all gates is that of the exchange. Codes never change their meaning and no two
gates share one, so dashboards and alerts may key on them.

**Settings.** Each limit is a setting of one service, under `services.NAME.gates` of the configuration
file; `gates.disabled` names gates that are not asked. Bounds that depend on the model (log-probability,
entropy, length, similarity, perplexity) are learned from healthy answers and read from `gates.bounds`;
until then a constant stands in, and the evidence says `"bound": "constant"`.

**What was asked for passes.** The prompt's own script, another language, emoji, "say it ten times",
drawings, digits, copies and markers that the prompt speaks of are no faults, nor is anything in code
marks. No statistic is taken of a short answer. An answer that the caller's own limit ended is no fault
by itself; the same limit makes a loop that runs into it a failure.
"""


def page() -> str:
    """Return the page."""
    found = entries()
    parts = [INTRODUCTION]
    for level, title in TITLES.items():
        parts.append(_section(title, [entry for entry in found if entry.level is level]))
    return "\n".join(parts)


def _section(title: str, found: list[Entry]) -> str:
    rows = [entry for entry in found if entry.reason.outcome is not Outcome.PASSED]
    passes = [entry.reason.code for entry in found if entry.reason.outcome is Outcome.PASSED]
    lines = [
        f"## {title}",
        "",
        "| Code | Gate | Outcome | Meaning | Setting and default | Source |",
        "|---|---|---|---|---|---|",
        *(_row(entry) for entry in rows),
        "",
        f"Codes of a pass: {_listed(passes)}.",
        "",
    ]
    return "\n".join(lines)


def _row(entry: Entry) -> str:
    reason = entry.reason
    cells = (
        f"`{reason.code}`",
        entry.gate,
        reason.outcome.value,
        _text(reason.meaning),
        _setting(reason.limit),
        _text(reason.source),
    )
    return f"| {' | '.join(cells)} |"


def _setting(limit: str) -> str:
    """Name the deciding setting with its default; a limit that names nothing raises."""
    if not limit:
        return ""
    _, part, *rest = limit.split(".")
    if part == "bounds" or not rest:
        return f"`{limit}`"
    default = getattr(DEFAULTS[part], rest[0])
    return f"`{limit}` = {default}" if default not in {(), None, ""} else f"`{limit}`"


def _text(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|")


def _listed(codes: Iterable[str]) -> str:
    return ", ".join(f"`{code}`" for code in codes)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
