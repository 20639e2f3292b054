"""A receiver of alerts on loopback: takes one JSON object by POST and keeps it. For demo and tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class AlertReceiver(ThreadingHTTPServer):
    """Keeps every object that was posted, in order."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[dict[str, Any]] = []
        self._changed = threading.Condition()

    @property
    def url(self) -> str:
        """Where to post."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def keep(self, event: dict[str, Any]) -> None:
        """Add an event and wake whoever waits for it."""
        with self._changed:
            self.received.append(event)
            self._changed.notify_all()

    def wait_for(self, name: str, timeout_s: float) -> bool:
        """Return whether an event of that name has come within the time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: any(event.get("name") == name for event in self.received), timeout_s
            )


class _Handler(BaseHTTPRequestHandler):
    server: AlertReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            self.server.keep(json.loads(body))
        except ValueError:
            self.send_response(400)
        else:
            self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


@contextmanager
def receiving() -> Generator[AlertReceiver]:
    """Run a receiver for the length of a ``with`` block."""
    with AlertReceiver() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
