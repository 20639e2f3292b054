"""New errors of the engine's own processes in a vLLM log: CUDA, NaN, a crash of the engine.

What a client can cause must not count: a log may hold prompts, refused requests and lost connections.
So only lines of the level ERROR or above count: the engine core's errors, unless they are of a call from
outside that it survived; of a worker those of its device; of the API server the engine's death.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from quality_lib.rollout.engine_reading import LogLook

MAX_BYTES = 4 * 2**20
"""Of a log that grew more than this since the last look, the newest part is read."""
MAX_ERRORS = 20
MAX_LINE = 300

_LINE = re.compile(
    r"^\x1b?\[?[0-9;m]*\((?P<who>[A-Za-z]+)[\w.\- ]* pid=\d+\)\x1b?\[?[0-9;m]*\s*"
    r"(?:(?P<level>[A-Z]+) [\d-]+ [\d:]+ (?:\[[^\]]*\]\s?)?)?(?P<text>.*)$"
)
_CORE, _WORKERS = "EngineCore", ("Worker", "VllmWorker")
_EXCEPTION = r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception)\b"
_ERROR = re.compile(f"^{_EXCEPTION}")
_DEVICE = re.compile(
    rf"^(?:{_EXCEPTION}: )?(?:CUDA error|CUDA failure|Failed: Cuda error|NCCL error|HIP error"
    r"|NaNs detected in logits|[\w ]*(?:uncorrectable ECC|device-side assert|illegal memory access)"
    r"|[\w ]*(?:CUBLAS_STATUS_|CUDNN_STATUS_|cuBLAS|cuDNN error))"
)
_FATAL = re.compile(r"^EngineCore (?:encountered a fatal error|failed to start)")
_ENGINE_DEAD = re.compile(r"^(?:[\w.]+\.)?EngineDeadError\b")
_CALL_FAILED = re.compile(r"^Invocation of \S+ method failed")
"""A call from outside (an adapter that could not be loaded, say) that the engine survived."""


def look_at_log(path: Path, previous: LogLook | None, *, from_start: bool) -> LogLook:
    """Read what is new in a log since the ``previous`` look.

    Of a file that was not seen before everything is new with ``from_start``, else nothing: it may
    hold the errors of earlier processes.
    """
    try:
        with path.open("rb") as file:
            found = path.stat()
            identity = f"{found.st_dev}:{found.st_ino}"
            start = _start(previous, identity, found.st_size, from_start)
            file.seek(max(start, found.st_size - MAX_BYTES))
            data = file.read(MAX_BYTES)
            end = file.tell()
    except OSError as error:
        kept = (previous.file, previous.offset) if previous else ("", 0)
        return LogLook(*kept, problem=str(error))
    # A line that is still being written is read next time.
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].decode("utf-8", "replace").splitlines()
    errors = tuple(engine_errors(lines))[-MAX_ERRORS:]
    return LogLook(identity, end - (len(data) - whole), errors)


def engine_errors(lines: Iterable[str]) -> Iterator[str]:
    """Give the lines that tell an error of the engine itself, without their prefix."""
    is_skipping = False
    for line in lines:
        parts = _LINE.match(line)
        if parts is None:
            continue
        who, text = parts["who"], parts["text"].strip()
        is_error = parts["level"] in {"ERROR", "CRITICAL"}
        if who == _CORE:
            is_skipping = is_error and (is_skipping or _CALL_FAILED.match(text) is not None)
        if is_error and _tells_damage(who, text, is_skipping):
            yield text[:MAX_LINE]


def _tells_damage(who: str, text: str, is_of_a_failed_call: bool) -> bool:
    if who.startswith(_WORKERS):
        # A worker writes the same of a failed call and of a failed step; the core tells them apart.
        return _DEVICE.match(text) is not None
    if who == _CORE:
        known = (_DEVICE, _FATAL) if is_of_a_failed_call else (_DEVICE, _FATAL, _ERROR)
        return any(pattern.match(text) for pattern in known)
    return _ENGINE_DEAD.match(text) is not None


def _start(previous: LogLook | None, identity: str, size: int, from_start: bool) -> int:
    if previous is None or not previous.file:
        return 0 if from_start else size
    if previous.file != identity or previous.offset > size:
        return 0  # rotated or begun again: all of it was written since the last look
    return previous.offset
