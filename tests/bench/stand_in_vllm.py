"""A small server that answers the matrix like vLLM: a model of arithmetic that faults can move and end."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class StandIn:
    """What the server is like now."""

    def __init__(self) -> None:
        self.shift = 0.0
        """Added to every log-probability: harmed weights."""
        self.is_dead = False
        self.heals = True
        """Whether an undo works."""
        self.dies_of_harm = False
        self.has_nan = False
        """Whether harm leaves NaN in the cache, which refuses scores from then on."""
        self.is_spoilt = False
        self.finish = "length"
        self.calls: list[str] = []
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.lock = threading.Lock()

    def rpc(self, method: str, args: list[str]) -> str:
        with self.lock:
            told = args[0] if method == "fault_mend" else method.removeprefix("fault_")
            self.calls.append(f"-{told}" if method == "fault_mend" else f"+{told}")
            if method == "fault_weights":
                self.shift = -0.5
                self.is_dead = self.dies_of_harm
                self.is_spoilt = self.has_nan
            if (method, told) == ("fault_mend", "weights") and self.heals:
                self.shift = 0.0
        return "ok"

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "/collective_rpc":
            return 200, {"results": [self.rpc(body["method"], body["args"])]}
        if path == "/reset_prefix_cache":
            return 200, {}
        if path == "/tokenize":
            return 200, {"tokens": _ids(body)}
        with self.lock:
            self.seen.append((path, body))
        if self.is_spoilt and body.get("prompt_logprobs"):
            return 400, {"error": {"message": "Out of range float values are not JSON compliant"}}
        return 200, self._completion(path, body)

    def _completion(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        is_chat = path.startswith("/v1/chat")
        ids, count = _ids(body), int(body["max_tokens"])
        usage = {"prompt_tokens": len(ids), "completion_tokens": count}
        out = [(sum(ids) + int(body.get("seed") or 0) + n) % 97 for n in range(count)]
        if "prompt_logprobs" in body:
            scored = [
                None,
                *(
                    {str(token): self._scored(n)} | self._second(n)
                    for n, token in enumerate(ids[1:], 1)
                ),
            ]
            told = {"prompt_logprobs": scored, "prompt_token_ids": ids}
            choice = {} if is_chat else told
            return {"usage": usage, "choices": [choice], **(told if is_chat else {})}
        if isinstance(body.get("logprobs"), int) and not isinstance(body.get("logprobs"), bool):
            top = {f"token_id:{n}": -float(n) + self.shift for n in range(1, 4)}
            return {
                "usage": usage,
                "choices": [{"logprobs": {"top_logprobs": [top]}, "token_ids": [1]}],
            }
        content = [{"logprob": -1.0 - n / 10 + self.shift} for n in range(count)]
        choice = {
            "message": {"content": " ".join(map(str, out))}, "token_ids": out, "finish_reason": self.finish,
            "logprobs": {"content": content}, "text": "",
        }  # fmt: skip
        return {"usage": usage, "prompt_token_ids": ids, "choices": [choice]}

    def _scored(self, place: int) -> dict[str, Any]:
        return {"logprob": -0.5 - place / 100 + self.shift, "rank": 1}

    def _second(self, place: int) -> dict[str, dict[str, Any]]:
        return {"100000": {"logprob": -0.6 - place / 100 + self.shift, "rank": 2}}

    def weights(self) -> dict[str, Any]:
        changed = int(self.shift != 0)
        return {
            "fingerprint": "f", "loaded_fingerprint": "f", "changed_tensors": changed,
            "changed": [{"name": "model.norm.weight"}] * changed, "restless": [], "tensors": 1, "bytes": 2,
            "unseen": [], "seconds": 0.0, "longest_call_s": 0.0, "wall_s": 0.0,
        }  # fmt: skip


def _ids(body: dict[str, Any]) -> list[int]:
    """One token a word; a stored answer is words that are numbers, and they come back as these ids."""
    if isinstance(body.get("prompt"), list):
        return [int(token) for token in body["prompt"]]
    text = " ".join(str(m["content"]) for m in body.get("messages", ())) or str(body.get("prompt"))
    return [int(w) if w.isdigit() else 1 + sum(w.encode()) % 900 for w in text.split()]


@contextmanager
def served(stand_in: StandIn) -> Generator[str]:
    """Give the address of a running server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            if stand_in.is_dead:
                self.close_connection = True
                self.connection.close()
                return
            self._send(*stand_in.answer(self.path, body))

        def do_GET(self) -> None:
            self._send(200, stand_in.weights())

        def _send(self, status: int, told: dict[str, Any]) -> None:
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *args: Any) -> None:
            return

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
