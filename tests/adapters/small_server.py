"""A real process that behaves like vLLM's server, up in a fraction of a second.

``python small_server.py PORT NAME MODE…``: modes are ``die`` (error at start), ``hang`` (never
ready), ``stubborn`` (ignores SIGTERM), ``worker`` (has a child that outlives it), ``slow`` (needs
1.5 s for a request), ``broken`` (500 for requests), ``base`` (no chat template).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, NAME, *MODES = sys.argv[1:]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self.answer(200, {"data": [{"id": NAME}]})
        else:
            self.answer(200 if self.path == "/health" else 404, {})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if "slow" in MODES:
            time.sleep(1.5)
        if "base" in MODES and "chat" in self.path:
            self.answer(400, {"error": {"message": "no chat template"}})
        else:
            self.answer(500 if "broken" in MODES else 200, {"choices": []})

    def answer(self, status: int, body: object) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


class Server(ThreadingHTTPServer):
    daemon_threads = False  # a stop waits for what is in flight


def main() -> None:
    if "die" in MODES:
        raise RuntimeError("the weights are broken")
    if "worker" in MODES:
        # One that does not hear a polite request.
        code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", code])
    if "hang" in MODES:
        time.sleep(600)
    server = Server(("127.0.0.1", int(PORT)), Handler)

    def stop(*_: object) -> None:
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in MODES else stop)
    server.serve_forever()
    server.server_close()


if __name__ == "__main__":
    main()
