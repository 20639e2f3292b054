"""Users who never stop asking: a load that runs beside the story and counts what they get.

Half of the clients stream long answers. Failed and cut answers are counted, never raised: a user of
a bad service goes on asking.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from quality_lib.errors import OutsideFailure

QUESTIONS = (
    "Name three fruits.",
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Explain in two sentences why leaves are green.",
    "Give me a short recipe for pancakes.",
    "What does a librarian do?",
    "Suggest a name for a grey cat.",
    "Why do we sleep?",
    "How do I boil an egg?",
    "Write a polite reply that declines an invitation.",
    "What is photosynthesis?",
    "List two uses of baking soda.",
    "Describe a rainy street in one sentence.",
    "What is the difference between a lake and a river?",
    "Give one tip for learning a language.",
    "What is a healthy breakfast?",
)
"""Everyday requests, asked in turn; a seed makes each its own."""

SHORT_TOKENS, LONG_TOKENS = 48, 160
TIMEOUT_S = 600.0
POLL_S = 0.2

FAILED_PAUSE_S = 0.5
"""A user whose request failed tries again after a moment, or a dead service would be asked in a loop."""


@dataclass(frozen=True)
class Asked:
    """One request and what became of it."""

    phase: str
    """The part of the story in which it began."""
    began_at: datetime
    seconds: float
    streamed: bool
    question: str
    text: str
    problem: str = ""
    """Why there is no whole answer: refused, no connection, or cut before its end; empty when there is."""


@dataclass(frozen=True)
class Phase:
    """What users got in one part of the story."""

    name: str
    requests: int
    failed: int
    garbage: int
    slowest_s: float


class UserLoad:
    """A number of clients, each asking its next question when it has its answer."""

    def __init__(
        self,
        endpoint: str,
        model: str,
        clients: int,
        *,
        pause_s: float = 0.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._clients = clients
        self._pause_s = pause_s
        self._now = now
        self._phase = ""
        self._asked: list[Asked] = []
        self._is_over = threading.Event()

    @contextmanager
    def asking(self) -> Generator[UserLoad]:
        """Ask as long as the block lasts; at its end the answers in flight are still awaited.

        When the block fails they are not: who breaks the story off does not want to wait.
        """
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            everybody = loop.create_task(self._all())
            thread = threading.Thread(target=_run, args=(loop, everybody), name="users")
            thread.start()
            try:
                yield self
            except BaseException:
                loop.call_soon_threadsafe(everybody.cancel)
                raise
            finally:
                self._is_over.set()
                thread.join()

    def begin(self, phase: str) -> None:
        """Name the part of the story that requests from now on belong to."""
        self._phase = phase

    @property
    def asked(self) -> tuple[Asked, ...]:
        """Every request that has ended, in the order of its end."""
        return tuple(self._asked)

    def await_answers(self, since: datetime, count: int, timeout_s: float = 600.0) -> None:
        """Return when so many requests that began after a moment have their whole answers.

        Raises:
            OutsideFailure: they do not come in time.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            answered = sum(not one.problem and one.began_at >= since for one in self.asked)
            if answered >= count:
                return
            if time.monotonic() > deadline:
                raise OutsideFailure(
                    f"users got {answered} answers in {timeout_s:.0f} s, {count} are needed"
                )
            time.sleep(POLL_S)

    async def _all(self) -> None:
        import openai

        async with openai.AsyncOpenAI(
            base_url=f"{self._endpoint}/v1", api_key="none", timeout=TIMEOUT_S, max_retries=0
        ) as client:
            await asyncio.gather(*(self._one(client, number) for number in range(self._clients)))

    async def _one(self, client: Any, number: int) -> None:
        streamed = number % 2 == 1
        turn = number
        while not self._is_over.is_set():
            asked = await self._ask(client, turn, streamed=streamed)
            self._asked.append(asked)
            await asyncio.sleep(max(self._pause_s, FAILED_PAUSE_S if asked.problem else 0.0))
            turn += self._clients

    async def _ask(self, client: Any, turn: int, *, streamed: bool) -> Asked:
        import httpx
        import openai

        phase, began_at, began = self._phase, self._now(), time.monotonic()
        question = QUESTIONS[turn % len(QUESTIONS)]
        pieces: list[str] = []
        problem = ""
        try:
            problem = await _answer(client, self._body(question, turn, streamed), streamed, pieces)
        except (openai.OpenAIError, httpx.HTTPError) as error:
            # httpx's own errors come out of a stream that breaks off.
            problem = f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - began
        return Asked(phase, began_at, seconds, streamed, question, "".join(pieces), problem)

    def _body(self, question: str, turn: int, streamed: bool) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": LONG_TOKENS if streamed else SHORT_TOKENS,
            "temperature": 0.7,
            "seed": turn,
        }


def _run(loop: asyncio.AbstractEventLoop, everybody: asyncio.Task[None]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(everybody)


async def _answer(client: Any, body: dict[str, Any], streamed: bool, pieces: list[str]) -> str:
    """Collect the answer; return what is wrong with how it ended."""
    if not streamed:
        choice = (await client.chat.completions.create(**body)).choices[0]
        pieces.append(choice.message.content or "")
        return "" if choice.finish_reason else "no finish reason"
    reason = None
    async for chunk in await client.chat.completions.create(**body, stream=True):
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            reason = choice.finish_reason or reason
    return "" if reason else "the stream ended without a finish reason: it was cut"


def by_phase(asked: Iterable[Asked], is_garbage: Callable[[str, str], bool]) -> tuple[Phase, ...]:
    """Sum up the requests of each part of the story, in the order of the parts.

    ``is_garbage`` is asked for question and answer of what was answered.
    """
    parts: dict[str, list[Asked]] = {}
    for one in sorted(asked, key=lambda one: one.began_at):
        parts.setdefault(one.phase, []).append(one)
    return tuple(
        Phase(
            name=name,
            requests=len(ones),
            failed=sum(bool(one.problem) for one in ones),
            garbage=sum(not one.problem and is_garbage(one.question, one.text) for one in ones),
            slowest_s=max(one.seconds for one in ones),
        )
        for name, ones in parts.items()
    )
