"""What probably made a service bad, with the grounds for it. Pure.

The order is that of proof: a changed byte on disk or in device memory explains everything after it; a
changed argument or version explains it when the bytes are the same; a signal of the engine comes last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from quality_lib.records import Tri
from quality_lib.rollout.post_mortem_facts import Facts

FEW_TENSORS = 0.05
"""Up to this share of changed tensors it is rather damage than another model."""
_SHOWN = 5


class Confidence(StrEnum):
    """How far the grounds carry."""

    PROVEN = "proven"
    """Measured directly, and it is enough to explain the answers."""
    LIKELY = "likely"
    """The best explanation of what was measured."""
    POSSIBLE = "possible"
    """Fits, and so would others."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Cause:
    """One explanation."""

    code: str
    sentence: str
    confidence: Confidence
    grounds: tuple[str, ...]


def causes(facts: Facts) -> tuple[Cause, ...]:
    """Return the explanations that fit, the best one first; there is always one."""
    found = tuple(_found(facts))
    return found or (_unknown(facts),)


def _found(facts: Facts) -> Iterator[Cause]:
    yield from _files(facts)
    yield from _live(facts)
    # A deployment of other weights explains what its arguments would.
    is_explained = facts.files is not None and bool(facts.files.differences)
    yield from _compared(facts, is_explained)
    yield from _signals(facts)


def _files(facts: Facts) -> Iterator[Cause]:
    files = facts.files
    if files is None or not files.differences:
        return
    grounds = [*files.differences[:_SHOWN], *_tensor_grounds(facts)]
    if len(files.differences) > _SHOWN:
        grounds.insert(_SHOWN, f"and {len(files.differences) - _SHOWN} more files")
    if files.is_own:
        yield Cause(
            "files_changed",
            f"Files of the model changed on disk after snapshot {files.snapshot_id[:12]} was recorded.",
            Confidence.PROVEN,
            tuple(grounds),
        )
        return
    tensors = facts.tensors
    is_damage = tensors is not None and 0 < len(tensors.changed) <= FEW_TENSORS * tensors.total
    if is_damage:
        yield Cause(
            "weights_damaged",
            "The deployed weights are those of the target with a few tensors altered: a damaged copy.",
            Confidence.LIKELY,
            tuple(grounds),
        )
    else:
        yield Cause(
            "other_weights",
            f"Other weights were deployed than those of snapshot {files.snapshot_id[:12]}.",
            Confidence.LIKELY,
            tuple(grounds),
        )


def _tensor_grounds(facts: Facts) -> Iterator[str]:
    if facts.tensors is None or not facts.tensors.changed:
        return
    changed = facts.tensors.changed
    yield f"{len(changed)} of {facts.tensors.total} tensors differ from the target's"
    for tensor in changed[:3]:
        parts = [tensor.status]
        if tensor.changed_share is not None:
            parts.append(f"{tensor.changed_share:.2%} of its numbers")
        if tensor.relative_l2 is not None:
            parts.append(f"relative change {tensor.relative_l2:.3g}")
        if tensor.non_finite:
            parts.append(f"{tensor.non_finite:,} became NaN or infinite")
        yield f"{tensor.name}: {', '.join(parts)}"


def _live(facts: Facts) -> Iterator[Cause]:
    live = facts.live
    if live is None or live.state is not Tri.YES:
        return
    named = ", ".join(live.tensors[:_SHOWN])
    grounds = [live.sentence, *([f"changed in memory: {named}"] if named else ())]
    on_disk = facts.files is not None and not facts.files.differences
    if on_disk:
        grounds.append("the files on disk are as recorded")
    yield Cause(
        "memory_changed",
        "Weights changed in device memory after they were loaded.",
        Confidence.PROVEN,
        tuple(grounds),
    )


_KINDS = (
    ("argument", "arguments_changed", "The weights were served in another way than the target's."),
    ("version", "versions_changed", "Other versions of the software served."),
    ("machine", "machine_changed", "Another machine served."),
)


def _compared(facts: Facts, is_explained: bool) -> Iterator[Cause]:
    for kind, code, sentence in _KINDS:
        told = [
            f"{one.name}: {one.bad or 'not known'}, the target has {one.target or 'not known'}"
            for one in facts.compared
            if one.kind == kind and one.bad and one.target and not one.is_same
        ]
        if not told:
            continue
        sure = Confidence.POSSIBLE if is_explained or kind != "argument" else Confidence.LIKELY
        yield Cause(code, sentence, sure, tuple(told))


def _signals(facts: Facts) -> Iterator[Cause]:
    told = tuple(
        str(one.get("sentence") or one.get("name"))
        for one in signals_of(facts)
        if one.get("state") == Tri.YES.value
    )
    if told:
        yield Cause(
            "engine_signals",
            "The engine's own signals speak of damage while it runs.",
            Confidence.POSSIBLE,
            told,
        )


def signals_of(facts: Facts) -> list[dict[str, object]]:
    """Return the inputs of condition C as the decision recorded them."""
    conditions = facts.decision.get("conditions")
    if not isinstance(conditions, list | tuple):
        return []
    return [
        dict(one)
        for condition in conditions
        if isinstance(condition, dict) and condition.get("name") == "C"
        for one in condition.get("inputs") or ()
        if isinstance(one, dict)
    ]


def _unknown(facts: Facts) -> Cause:
    grounds = []
    if facts.files is None:
        grounds.append("the files on disk were not hashed again")
    else:
        grounds.append("the files on disk are as recorded")
    if facts.live is None or facts.live.state is Tri.UNKNOWN:
        grounds.append("the weights in device memory could not be compared")
    else:
        grounds.append("the weights in device memory are as loaded")
    if not facts.compared:
        grounds.append("arguments and versions could not be compared")
    else:
        grounds.append("no argument or version is known to differ from the target's")
    suspected = facts.before.verdict.suspected if facts.before is not None else None
    if suspected:
        grounds.append(f"the golden check suspects: {suspected}")
    return Cause(
        "unknown",
        "The cause is not known.",
        Confidence.POSSIBLE if suspected else Confidence.UNKNOWN,
        tuple(grounds),
    )
