"""Condition C: a signal of the engine itself speaks of damage. Pure."""

from __future__ import annotations

from quality_lib.records import Tri
from quality_lib.rollout.condition import Condition, Note, reading
from quality_lib.rollout.engine_finding import EngineFinding
from quality_lib.rollout.evidence import Evidence, moment, place
from quality_lib.rollout.limits import TriggerLimits

NAME = "C"
_ORDER = {Tri.YES: 0, Tri.UNKNOWN: 1, Tri.NO: 2}


def judge_engine(evidence: Evidence, limits: TriggerLimits) -> Condition:
    """Judge the newest reading of each signal and instance: one that says yes is enough.

    NO needs a signal that says no, and every required one to be known, of every instance.
    """
    signals = _newest_first(evidence.signals)
    inputs, counted = [], []
    for finding in signals:
        placed = place(
            finding.at,
            evidence,
            skew_s=limits.clock_skew_s,
            max_age_minutes=limits.signal_max_age_minutes,
        )
        is_required = finding.name in limits.required_signals
        is_left_out = finding.state is Tri.UNKNOWN and not is_required
        if not placed.problem and not is_left_out:
            counted.append(finding)
        inputs.append(
            reading(
                "engine signal",
                finding.name,
                finding.at,
                placed,
                value=finding.sentence,
                limit="",
                state=finding.state,
                why_not="not measured, and not required" if is_left_out else "",
                evidence=dict(finding.evidence),
            )
        )
    if counted:
        state, sentence = _judge(counted, limits.required_signals)
        return Condition(NAME, state, sentence, tuple(inputs))
    told = "no engine signal was read"
    if inputs:
        told = f"no engine signal counts: {inputs[0]['name']} {inputs[0]['why_not']}"
    return Condition(NAME, Tri.UNKNOWN, told, tuple(inputs), (Note("no_signals", told),))


def _newest_first(findings: tuple[EngineFinding, ...]) -> list[EngineFinding]:
    """Return the newest finding of each signal and instance, the bad ones first."""

    def rank(finding: EngineFinding) -> tuple[float, int]:
        found = moment(finding.at)
        return (found.timestamp() if found else float("-inf"), -_ORDER[finding.state])

    newest: dict[tuple[str, str], EngineFinding] = {}
    for finding in findings:
        key = (finding.name, str(finding.evidence.get("instance", "")))
        if key not in newest or rank(finding) > rank(newest[key]):
            newest[key] = finding
    return sorted(newest.values(), key=lambda f: (_ORDER[f.state], f.name))


def _judge(counted: list[EngineFinding], required: tuple[str, ...]) -> tuple[Tri, str]:
    bad = [f for f in counted if f.state is Tri.YES]
    unknown = [f"{f.name}: {f.sentence}" for f in counted if f.state is Tri.UNKNOWN]
    found = {f.name for f in counted}
    unknown += [f"{name} was not read in time" for name in required if name not in found]
    if bad:
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        return Tri.YES, f"{bad[0].name}: {bad[0].sentence}{more}"
    if unknown:
        return Tri.UNKNOWN, "; ".join(unknown)
    names = ", ".join(dict.fromkeys(f.name for f in counted))
    return Tri.NO, f"none of the engine's signals speaks of damage ({names})"
