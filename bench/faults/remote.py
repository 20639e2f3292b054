"""The injector's way into a running server: vLLM's development routes over HTTP."""

from __future__ import annotations

from typing import Any

import httpx

from bench.faults.fault import Fault, Shim, Target, Undo
from quality_lib.adapters.vllm.live_weights import take_fingerprint
from quality_lib.errors import OutsideFailure

EXTENSION = ("--worker-extension-cls", "bench.faults.worker.FaultWorker")
DEV_ENV = {"VLLM_SERVER_DEV_MODE": "1"}
"""Without it the server has no route to its workers."""


class RemoteWorker:
    """The workers of one server, reached by ``/collective_rpc``."""

    def __init__(
        self,
        endpoint: str,
        *,
        timeout_s: float = 600.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._http = httpx.Client(
            base_url=endpoint, timeout=timeout_s, transport=transport, trust_env=False
        )

    def call(self, method: str, *args: str) -> Any:
        """Call a method in every worker and return the answer of the first.

        Raises:
            OutsideFailure: the server refuses or a worker failed.
        """
        body = {"method": method, "args": list(args)}
        answer = self._post("/collective_rpc", body)
        return answer.json()["results"][0]

    def forget_prefixes(self) -> None:
        """Empty the prefix cache: blocks that a harmed server has computed must not serve a mended one."""
        self._post("/reset_prefix_cache", {})

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        try:
            answer = self._http.post(path, json=body)
        except httpx.HTTPError as error:
            raise OutsideFailure(f"{self.endpoint}{path} does not answer: {error!r}") from error
        if answer.status_code != httpx.codes.OK:
            raise OutsideFailure(
                f"{self.endpoint}{path} answers {answer.status_code}: {answer.text[:300]}"
            )
        return answer


class NotMended(OutsideFailure):
    """A server is not what it was before it was harmed: nothing recorded from it may be believed."""


class FaultyServer:
    """One running server that faults come to and go from."""

    def __init__(self, worker: RemoteWorker, shim: Shim) -> None:
        self.worker = worker
        self.shim = shim
        self._target = Target(worker=worker, shim=shim)
        self._undo: Undo | None = None

    def harm(self, fault: Fault) -> None:
        """Apply a fault to a whole server."""
        self.mend()
        self._undo = fault.apply(self._target)

    def mend(self, *, is_proved: bool = False) -> None:
        """Take the fault back; with ``is_proved`` compare the weights in memory with those after loading.

        Raises:
            NotMended: the weights differ.
            OutsideFailure: the server does not answer any more.
        """
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()
        self.worker.forget_prefixes()
        if is_proved:
            told = take_fingerprint(self.worker.endpoint)
            if told.is_changed:
                names = ", ".join(str(one["name"]) for one in told.changed[:3])
                raise NotMended(f"the undo was not exact: {names} differ from what was loaded")
