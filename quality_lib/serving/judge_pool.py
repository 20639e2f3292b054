"""The few threads that judge and record finished exchanges, away from the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")

MAX_REPLACED = 4
"""Hung threads that are replaced in the life of a server; each may burn a core for ever."""


@dataclass(frozen=True)
class Job:
    """One piece of work."""

    work: Callable[[], None]
    size: int
    """Bytes that it holds in memory, roughly."""


class JudgePool:
    """Run jobs in order of arrival; refuse what exceeds a bounded queue."""

    def __init__(
        self,
        threads: int,
        max_jobs: int,
        max_bytes: int,
        hung_after_s: float,
        clock: Callable[[], float],
        on_hung: Callable[[], None] = lambda: None,
    ) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._max_jobs = max_jobs
        self._max_bytes = max_bytes
        self._hung_after_s = hung_after_s
        self._clock = clock
        self._on_hung = on_hung
        self._waiting = 0
        self._bytes = 0
        self._replaced = 0
        self._closed = False
        self.crashed = 0
        """Jobs that raised, which none may."""
        self._workers = [_Worker(self) for _ in range(threads)]

    def submit(self, work: Callable[[], None], size: int = 0) -> bool:
        """Queue a job; return whether it was taken."""
        with self._lock:
            full = self._waiting >= self._max_jobs or self._bytes + size > self._max_bytes
            if self._closed or (full and self._waiting > 0):
                taken = False
            else:
                self._waiting += 1
                self._bytes += size
                taken = True
        self._replace_hung()
        if taken:
            self._jobs.put(Job(work, size))
        return taken

    def is_stuck(self, after_s: float) -> bool:
        """Return whether every thread has been at one job for longer than this."""
        self._replace_hung()
        now = self._clock()
        busy = [worker.busy_since for worker in self._workers]
        return all(since is not None and now - since > after_s for since in busy)

    def close(self, timeout_s: float = 5.0) -> None:
        """Finish what is queued, within the time, and end the threads."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        deadline = self._clock() + timeout_s
        for _ in self._workers:
            self._jobs.put(None)
        for worker in self._workers:
            worker.thread.join(max(0.0, deadline - self._clock()))

    def _replace_hung(self) -> None:
        now = self._clock()
        for position, worker in enumerate(self._workers):
            since = worker.busy_since
            if since is None or now - since <= self._hung_after_s:
                continue
            if self._closed or self._replaced >= MAX_REPLACED:
                return
            self._replaced += 1
            worker.abandoned = True
            self._workers[position] = _Worker(self)
            self._on_hung()

    def _take(self) -> Job | None:
        job = self._jobs.get()
        if job is not None:
            with self._lock:
                self._waiting -= 1
                self._bytes -= job.size
        return job


async def result_within(
    pool: JudgePool | None, work: Callable[[], Result], size: int, timeout_s: float
) -> Result:
    """Run work in a pool and wait for it; without a pool at once.

    Raises:
        TimeoutError: it took too long, or no thread is there to do it. What has begun goes on, and
            its result is thrown away.
    """
    if pool is None:
        return work()
    future: Future[Result] = Future()

    def job() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001  raised where it is waited for
            future.set_exception(error)

    # Behind threads that do not come back nobody need wait.
    if pool.is_stuck(timeout_s) or not pool.submit(job, size):
        raise TimeoutError
    return await asyncio.wait_for(asyncio.wrap_future(future), timeout_s)


class _Worker:
    def __init__(self, pool: JudgePool) -> None:
        self.busy_since: float | None = None
        self.abandoned = False
        self._pool = pool
        self.thread = threading.Thread(target=self._run, name="quality-judge", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        pool = self._pool
        while not self.abandoned:
            job = pool._take()
            if job is None:
                return
            self.busy_since = pool._clock()
            try:
                job.work()
            except Exception:  # noqa: BLE001  one exchange must not end the thread for all others
                pool.crashed += 1
            self.busy_since = None
