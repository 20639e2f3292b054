"""Users that never stop asking, against a small real server that behaves and misbehaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from quality_lib.adapters.stack.user_load import Asked, Phase, UserLoad, by_phase
from quality_lib.errors import OutsideFailure


@dataclass
class Bakery:
    """What the server was asked, and how it answers."""

    mood: str = "good"
    port: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    enough: threading.Event = field(default_factory=threading.Event)
    count: int = 0
    speak: threading.Event = field(default_factory=threading.Event)

    def expect(self, count: int) -> None:
        self.bodies.clear()
        self.enough.clear()
        self.count = count
        assert self.enough.wait(60), f"only {len(self.bodies)} requests came"


def chunk(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    data = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}  # fmt: skip
    return f"data: {json.dumps(data)}\n\n".encode()


@pytest.fixture
def bakery() -> Generator[Bakery]:
    kept = Bakery()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            kept.bodies.append(body)
            if len(kept.bodies) >= kept.count:
                kept.enough.set()
            if kept.mood == "silent":
                kept.speak.wait(60)
            if kept.mood == "refusing":
                self._send(503, b"{}")
            elif body.get("stream"):
                end = (
                    b"" if kept.mood == "cutting" else chunk("bread", "stop") + b"data: [DONE]\n\n"
                )
                self._send(200, chunk("warm ") + end, "text/event-stream")
            else:
                choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "warm bread"}}  # fmt: skip
                self._send(200, json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).encode())  # fmt: skip

        def _send(self, status: int, content: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    kept.port = server.server_address[1]
    yield kept
    server.shutdown()
    thread.join()
    server.server_close()


def test_phases_are_told_apart_and_nothing_is_lost(bakery: Bakery) -> None:
    load = UserLoad(f"http://127.0.0.1:{bakery.port}", "m", 4, pause_s=0.01)
    load.begin("good")
    with load.asking():
        bakery.expect(12)
        bakery.mood = "cutting"
        load.begin("cut")
        bakery.expect(12)
        bakery.mood = "refusing"
        load.begin("refused")
        bakery.expect(12)
    phases = {p.name: p for p in by_phase(load.asked, lambda _q, text: text != "warm bread")}
    assert list(phases) == ["good", "cut", "refused"]
    assert sum(p.requests for p in phases.values()) == len(load.asked)
    # A request in flight while the mood changes may get either answer.
    assert phases["good"].failed <= 4
    cut = [a for a in load.asked if "was cut" in a.problem]
    assert cut
    assert all(a.streamed and a.text == "warm " for a in cut)
    assert phases["refused"].failed >= 8
    assert phases["good"].garbage == 0
    assert {bool(body.get("stream")) for body in bakery.bodies} == {True, False}


def test_answers_are_awaited_but_not_for_ever(bakery: Bakery) -> None:
    load = UserLoad(f"http://127.0.0.1:{bakery.port}", "m", 2)
    since = datetime.now(UTC)
    with load.asking():
        load.await_answers(since, 4, timeout_s=60)
        assert sum(one.began_at >= since for one in load.asked) >= 4
        bakery.mood = "refusing"
        with pytest.raises(OutsideFailure, match=r"users got \d answers in 0 s, 9999 are needed"):
            load.await_answers(datetime.now(UTC), 9999, timeout_s=0.0)


def test_a_story_that_breaks_off_does_not_wait_for_answers(bakery: Bakery) -> None:
    bakery.mood = "silent"
    load = UserLoad(f"http://127.0.0.1:{bakery.port}", "m", 4)
    with pytest.raises(KeyboardInterrupt), load.asking():
        bakery.expect(4)
        raise KeyboardInterrupt
    assert load.asked == ()
    bakery.speak.set()


def test_nobody_there_is_counted() -> None:
    load = UserLoad("http://127.0.0.1:9", "m", 1)
    with load.asking():
        while not load.asked:
            threading.Event().wait(0.01)
    assert load.asked[0].problem.startswith("APIConnectionError")


def asked(phase: str, second: int, text: str = "fine", problem: str = "") -> Asked:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    return Asked(phase, at, float(second), second % 2 == 1, "What?", text, problem)


def test_sums() -> None:
    found = by_phase(
        [asked("b", 5, "xx"), asked("a", 1), asked("a", 2, "", "cut"), asked("b", 4, "xx", "cut")],
        lambda _, text: text == "xx",
    )
    assert found == (Phase("a", 2, 1, 0, 2.0), Phase("b", 2, 1, 1, 5.0))
    assert by_phase([], lambda _q, _t: True) == ()
