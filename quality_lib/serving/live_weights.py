"""The live-weights fingerprint as a vLLM server gives it: driven from its API process.

The workers read in short calls (``live_weights_worker``); this side asks for one after the other and
waits for the engine's next step in between, so that running requests go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import time
import uuid
from collections.abc import Mapping
from typing import Any

from quality_lib.serving.live_fingerprint import merged

CALL_S = 0.01
"""Seconds of one call: below a decode step of most models."""
GIVE_UP_S = 600.0
LOOK_S = 1.0
"""Seconds between two looks at whether the engine still lives."""
EXTENSION = "quality_lib.serving.live_weights_worker.LiveWeights"
OPTION = f"--worker-extension-cls {EXTENSION}"


class CannotRead(Exception):
    """The weights of this server cannot be read now; says why."""


class LiveWeightsReader:
    """Take fingerprints of one server, one at a time; remember the one after loading."""

    def __init__(self, call_s: float = CALL_S, give_up_s: float = GIVE_UP_S) -> None:
        self._call_s = call_s
        self._give_up_s = give_up_s
        self._lock: asyncio.Lock | None = None
        self._first: asyncio.Task[None] | None = None
        self._loaded: str | None = None

    def start(self, state: Any) -> None:
        """Take the fingerprint after loading in the background; failures are for the next asker."""
        self._first = asyncio.get_running_loop().create_task(self._take_first(state))

    async def loaded(self, wait_s: float) -> str | None:
        """Return the fingerprint after loading, when it is there within so many seconds."""
        if self._loaded is None and self._first is not None and not self._first.done():
            await asyncio.wait({self._first}, timeout=wait_s)
        return self._loaded

    async def take(self, state: Any) -> dict[str, Any]:
        """Read all weights now and compare them with those after loading.

        Raises:
            CannotRead: no extension in the workers, weights put away (sleep), or a worker failed.
        """
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            began = time.perf_counter()
            try:
                results = await asyncio.wait_for(self._read(state), self._give_up_s)
            except TimeoutError:
                raise CannotRead(f"not read within {self._give_up_s:.0f} s") from None
            answer = merged(results)
            self._loaded = str(answer["loaded_fingerprint"])
            return {**answer, "wall_s": round(time.perf_counter() - began, 4)}

    async def _take_first(self, state: Any) -> None:
        # Whoever asks for the weights is told what is wrong; the server serves.
        with contextlib.suppress(Exception):
            await self.take(state)

    async def _read(self, state: Any) -> list[Mapping[str, Any]]:
        client = getattr(state, "engine_client", None)
        if client is None:
            raise CannotRead("this server has no engine")
        _require_extension(state)
        if hasattr(client, "is_sleeping") and await client.is_sleeping():
            raise CannotRead("the engine sleeps and its weights are put away")
        token = uuid.uuid4().hex
        opened = await _call(client, "quality_weights_open", token)
        results: dict[str, Mapping[str, Any]] = {}
        ranks = {str(one["rank"]) for one in opened}
        while ranks - results.keys():
            for answer in await _call(client, "quality_weights_read", token, self._call_s):
                if "result" in answer:
                    results[str(answer["rank"])] = answer["result"]
                elif answer.get("lost") and str(answer["rank"]) not in results:
                    raise CannotRead("another reading took its place; ask again")
        return list(results.values())


def _require_extension(state: Any) -> None:
    """Look before asking: a call that the workers do not know fills the server's log with errors."""
    parallel = getattr(getattr(state, "vllm_config", None), "parallel_config", None)
    name = str(getattr(parallel, "worker_extension_cls", "") or "")
    module, _, cls = name.rpartition(".")
    with contextlib.suppress(ImportError, ValueError):
        if hasattr(getattr(importlib.import_module(module), cls, None), "quality_weights_open"):
            return
    raise CannotRead(f"the workers do not carry {EXTENSION}: start the server with {OPTION}")


async def _call(client: Any, method: str, *args: Any) -> list[Mapping[str, Any]]:
    """Call every worker, and stop waiting when the engine has ended: nobody would answer then.

    A request that waits for a dead engine would keep the server from shutting down.
    """
    task = asyncio.ensure_future(_ask_workers(client, method, args))
    try:
        while not (await asyncio.wait({task}, timeout=LOOK_S))[0]:
            if getattr(client, "errored", False):
                raise CannotRead("the engine has ended")
        return task.result()
    except CannotRead:
        raise
    except Exception as error:
        raise CannotRead(_why(error)) from error
    finally:
        task.cancel()


async def _ask_workers(client: Any, method: str, args: tuple[Any, ...]) -> list[Mapping[str, Any]]:
    """Call the workers; with data parallelism those of every engine."""
    core: Any = getattr(client, "engine_core", None)
    if hasattr(core, "call_utility_all_async"):
        per_engine = await core.call_utility_all_async("collective_rpc", method, None, args, None)
        return [worker for workers in per_engine for worker in workers]
    answers: list[Mapping[str, Any]] = await client.collective_rpc(method, args=args)
    return answers


def _why(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return f"a worker failed: {text.splitlines()[0][:300]}"
