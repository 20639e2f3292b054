"""What served badly, held against the snapshot that it came from or went back to."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quality_lib import wiring
from quality_lib.adapters.evidence.pack import read_json_part
from quality_lib.adapters.model.weights_diff import TensorDiff, WeightsDiff, diff_folders
from quality_lib.adapters.model.weights_files import verify_folder
from quality_lib.errors import NoData, QualityError
from quality_lib.records import Tri
from quality_lib.rollout.journal import Journal, Retired
from quality_lib.rollout.post_mortem_facts import (
    Compared,
    FileFacts,
    LiveFacts,
    TensorChange,
    TensorFacts,
)
from quality_lib.settings import Settings
from quality_lib.snapshots.arguments import comparable
from quality_lib.snapshots.manifest import Manifest

_VERSIONS = ("vllm_version",)
_SERVING = (
    "dtype",
    "kv_cache_dtype",
    "max_model_len",
    "generation_config",
    "chat_template_sha256",
    "tokenizer_sha256",
    "adapters",
)
_LIBRARIES = ("torch", "python", "cuda")
_MACHINE = ("gpu", "driver", "cpu")


@dataclass(frozen=True)
class Look:
    """What could be found out; each part may be missing."""

    files: FileFacts | None = None
    tensors: TensorFacts | None = None
    live: LiveFacts | None = None
    compared: tuple[Compared, ...] = ()
    problems: tuple[str, ...] = ()


def look_at(settings: Settings, journal: Journal) -> Look:
    """Compare what served with its own snapshot, else with the target; from the evidence first.

    Raises:
        NoData: there is no snapshot to compare with.
        OutsideFailure: the store does not answer.
    """
    own = _manifest(settings, journal.service, journal.bad_snapshot_id)
    target = _manifest(
        settings, journal.service, journal.target.snapshot_id if journal.target else None
    )
    reference = own or target
    if reference is None:
        raise NoData("neither what served nor a target is a snapshot")
    retired = next((one for one in journal.retired if (one.evidence or {}).get("archive")), None)
    archive = Path(str((retired.evidence or {})["archive"])) if retired else None
    problems: list[str] = []
    folder = _folder(settings, journal, retired)
    limit = settings.service(journal.service).evidence.hash_timeout_s
    files = _tried(
        "The files on disk", problems, lambda: _files(folder, reference, own is not None, limit)
    )
    there = _target_folder(journal)
    tensors = None
    if files is not None and files.differences and there is not None and there != folder:
        tensors = _tried("The tensors", problems, lambda: _tensors(there, folder, limit))
    told = _part(archive, "server.json", problems)
    live = live_facts(_part(archive, "live_weights.json", problems))
    compared = tuple(compare(told, target or reference)) if isinstance(told, dict) else ()
    return Look(files, tensors, live, compared, tuple(problems))


def live_facts(told: Any) -> LiveFacts | None:
    """Read what the server said of its weights in memory; None when it said nothing usable."""
    if not isinstance(told, dict) or not isinstance(told.get("changed_tensors"), int):
        return None
    changed, total = told["changed_tensors"], told.get("tensors", "?")
    names = tuple(
        str(one["name"])
        for one in told.get("changed") or ()
        if isinstance(one, dict) and "name" in one
    )
    if changed:
        return LiveFacts(
            Tri.YES, f"{changed} of {total} tensors differ from what was loaded.", names
        )
    unseen = told.get("unseen") or ()
    if unseen:
        return LiveFacts(
            Tri.NO, f"{total} tensors are as loaded; {len(unseen)} could not be read.", ()
        )
    return LiveFacts(Tri.NO, f"All {total} tensors are as loaded.")


def compare(told: Mapping[str, Any], target: Manifest) -> Iterator[Compared]:
    """Give each fact of how the server ran beside that of the target's manifest."""
    serving, machine = target.serving, target.environment
    args = told.get("args")
    yield Compared(
        "arguments",
        _text(comparable([str(arg) for arg in args])) if isinstance(args, list) else "",
        _text(comparable(serving.args)) if serving.args is not None else "",
    )
    for name in _SERVING:
        yield Compared(name, _text(told.get(name)), _text(getattr(serving, name)))
    for name in _VERSIONS:
        yield Compared(name, _text(told.get(name)), _text(getattr(serving, name)), "version")
    environment = told.get("environment")
    environment = environment if isinstance(environment, dict) else {}
    for names, kind in ((_LIBRARIES, "version"), (_MACHINE, "machine")):
        for name in names:
            bad, good = _text(environment.get(name)), _text(getattr(machine, name))
            if bad or good:
                yield Compared(name, bad, good, kind)


def _files(folder: Path, reference: Manifest, is_own: bool, limit_s: float) -> FileFacts:
    found = verify_folder(folder, reference.weights, _within(limit_s))
    return FileFacts(
        folder=str(folder),
        snapshot_id=reference.snapshot_id,
        is_own=is_own,
        files=len(reference.weights.files),
        differences=tuple(difference.sentence for difference in found),
    )


def _tensors(target: Path, bad: Path, limit_s: float) -> TensorFacts:
    return tensor_facts(diff_folders(target, bad, _within(limit_s)))


def tensor_facts(diff: WeightsDiff) -> TensorFacts:
    """Put a comparison of tensors into the post-mortem's words."""
    return TensorFacts(
        equal=diff.equal,
        changed=tuple(_change(one) for one in diff.different),
        other_files=diff.other_files,
    )


def _change(one: TensorDiff) -> TensorChange:
    share = one.changed_elements / one.elements if one.elements else None
    return TensorChange(one.name, one.status, share, one.relative_l2, one.non_finite)


def _folder(settings: Settings, journal: Journal, retired: Retired | None) -> Path:
    if retired is not None and retired.relaunch is not None:
        return Path(retired.relaunch.model_path)
    return settings.service(journal.service).weights


def _target_folder(journal: Journal) -> Path | None:
    return Path(journal.target.model_path) if journal.target else None


def _manifest(settings: Settings, service: str, snapshot_id: str | None) -> Manifest | None:
    if snapshot_id is None:
        return None
    return wiring.snapshot_store(settings).get(service, snapshot_id).manifest


class _TooLong(QualityError):
    """The time is over."""


def _within(limit_s: float) -> Any:
    """Return a progress callback that ends the work when its time is over."""
    deadline = time.monotonic() + limit_s

    def progress(_: int, __: int) -> None:
        if time.monotonic() > deadline:
            raise _TooLong(f"not done after {limit_s:g} s")

    return progress


def _tried(what: str, problems: list[str], find: Any) -> Any:
    try:
        return find()
    except QualityError as error:
        problems.append(f"{what}: {error}")
        return None


def _part(archive: Path | None, name: str, problems: list[str]) -> Any:
    if archive is None:
        return None
    return _tried(name, problems, lambda: read_json_part(archive, name))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "(none)"
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
