"""One request on its way through the guard."""

from __future__ import annotations

import asyncio
import json

from quality_lib.serving import request_id
from quality_lib.serving.admission import Admission
from quality_lib.serving.answer_json import tells_nan
from quality_lib.serving.asgi import (
    ASGIApp,
    Header,
    Message,
    Receive,
    Scope,
    Send,
    endpoint_of,
    header,
    path_of,
    with_header,
)
from quality_lib.serving.asked import (
    NO_PARAMS,
    NOTHING,
    Additions,
    Asked,
    detail_additions,
    engine_additions,
    entropy_additions,
    running_usage_additions,
    together,
)
from quality_lib.serving.finished import STREAM_GATE, Finished
from quality_lib.serving.guard_parts import EntropySource, GuardParts
from quality_lib.serving.guard_ports import skipped
from quality_lib.serving.judge_pool import result_within
from quality_lib.serving.refusal import Refusal, send_refusal
from quality_lib.serving.request_body import (
    ReadBody,
    Replay,
    object_of,
    read_body,
    whole,
    with_fields,
)
from quality_lib.serving.response_path import ResponsePath, StreamStopped
from quality_lib.serving.response_state import ResponseState

PROBE_HEADER = b"x-quality-probe"
VERDICT_HEADER = b"x-quality-verdict"

QUEUE_FULL = "queue_full"
TOO_LONG = "request_too_long"
DETAIL = "detail"
"""The name under which it is counted that a request gets none."""

UNRECORDED = frozenset({401, 403, 404, 405})
"""Answers to what was no request of this service."""


class GuardedRequest:
    """Serve one request: read it, judge it, give it on, watch the answer, record both."""

    def __init__(
        self, app: ASGIApp, parts: GuardParts, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._app = app
        self._parts = parts
        self._scope = scope
        self._receive = receive
        self._send = send
        self._headers: list[Header] = list(scope.get("headers", ()))
        self._is_probe = header(self._headers, PROBE_HEADER) == b"1"
        self._began = parts.clock()

    async def serve(self) -> None:
        """Run the request to its end; only what the application itself raises gets out."""
        limits = self._parts.limits
        read = await read_body(self._receive, limits.max_body_bytes)
        if read.is_too_long:
            await self._serve_too_long(read)
            return
        body = object_of(read.body)
        finished = None if body is None else self._begin(Asked(path_of(self._scope), body))
        if read.body is None or finished is None:
            # vLLM gives its own answer to what is no request.
            await self._app(self._scope, Replay(read.messages, self._receive), self._send)
            return
        finished.request_size = len(read.body)
        await self._admit(finished)
        refusal = finished.admission.refusal
        try:
            if refusal is None:
                await self._pass_on(finished, read.body)
            else:
                finished.status = 400
                finished.notes["refused"] = refusal.code
                await send_refusal(refusal, self._own_headers(finished), self._send)
        finally:
            self._finish(finished)

    async def _serve_too_long(self, read: ReadBody) -> None:
        """Pass on, or refuse, a request that nobody has read; only that it came is recorded."""
        parts = self._parts
        skipped(parts.counters, "input", "body_too_long")
        finished = self._begin(Asked(path_of(self._scope), {}))
        # As with answers of which a part was not kept, nobody scores such a record.
        finished.notes["dropped"] = {"request": "body_too_long"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                finished.status = message["status"]
            await self._send(message)

        try:
            if parts.admitter is not None and parts.admitter.enforces:
                mib = parts.limits.max_body_bytes / 2**20
                refusal = Refusal(f"The request is longer than {mib:g} MiB.", TOO_LONG)
                finished.notes["refused"] = refusal.code
                await send_refusal(refusal, self._own_headers(finished), send)
            else:
                await self._app(self._scope, Replay(read.messages, self._receive), send)
        finally:
            self._finish(finished)

    def _begin(self, asked: Asked) -> Finished:
        parts = self._parts
        given = request_id.client_id(self._headers, asked.body)
        monitor = parts.monitor if parts.stops or not self._is_probe else None
        finished = Finished(
            parts=parts,
            asked=asked,
            request_id=given or request_id.new_id(),
            started_at=parts.now(),
            headers=self._headers,
            admission=Admission(),
            state=ResponseState(
                parts.limits.caps,
                # What was sent, which is known only when the answer comes.
                None if monitor is None else lambda i: monitor(finished.sent.exchange(i)),
                echoes=asked.echoes,
            ),
            is_probe=self._is_probe,
            endpoint=endpoint_of(self._scope),
        )
        return finished

    async def _admit(self, finished: Finished) -> None:
        """Ask levels 1 and 2; a long request in a thread, and where nothing reacts, afterwards."""
        parts = self._parts
        if parts.admitter is None:
            return
        try:
            if finished.request_size <= parts.limits.inline_bytes:
                finished.admission = finished.admitted()
            elif not parts.admitter.enforces:
                finished.is_admission_due = True
            else:
                finished.admission = await result_within(
                    parts.admission_pool,
                    finished.admitted,
                    finished.request_size,
                    parts.limits.long_request_s,
                )
            finished.tell_admission()
        except TimeoutError:
            skipped(parts.counters, "input", "gate_slow")
        except Exception:  # noqa: BLE001  a failure of ours must not touch the request
            skipped(parts.counters, "input", "gate_crashed")

    async def _pass_on(self, finished: Finished, body: bytes) -> None:
        asked, adjustment = finished.asked, finished.admission.adjustment
        if adjustment is not None:
            kept = {k: v for k, v in asked.body.items() if k in NO_PARAMS}
            finished.used = asked = Asked(asked.path, {**kept, **adjustment.params})
            body = json.dumps(asked.body).encode()
        refused = ""
        for purpose, additions in self._tries(finished, asked):
            path = await self._call(finished, asked, body, additions)
            if not path.withheld or path.disconnected:
                break
            refused = purpose
            self._note_refused(finished, purpose, path.withheld_error)
        if refused == DETAIL and path.status == 200:
            self._parts.detail.refused()

    def _tries(self, finished: Finished, asked: Asked) -> list[tuple[str, Additions]]:
        """Return what is added, and what is left of it when the server refuses that: at last nothing."""
        parts = self._parts
        tries = [("", NOTHING)]
        try:
            stream = running_usage_additions(asked) if parts.stops else NOTHING
            stream = together(stream, engine_additions(asked, parts.engine_fields))
            if stream.fields:
                tries.insert(0, (STREAM_GATE, stream))
            finished.detail = not self._is_probe and parts.detail.wants(finished.request_id)
            detail = detail_additions(asked) if finished.detail else NOTHING
            if finished.detail and parts.entropies is not None:
                detail = together(detail, self._followed(finished, parts.entropies))
            if detail.fields:
                tries.insert(0, (DETAIL, together(detail, stream)))
        except Exception:  # noqa: BLE001  as above
            skipped(parts.counters, DETAIL, "gate_crashed")
        return tries

    def _note_refused(self, finished: Finished, purpose: str, said: bytes) -> None:
        """Count and record that a request is asked again, perhaps generated again, without something."""
        skipped(self._parts.counters, purpose, "refused")
        finished.notes.setdefault("asked_again_without", []).append(purpose)
        finished.saw_nan = finished.saw_nan or tells_nan(said.decode("utf-8", "replace"))

    def _followed(self, finished: Finished, entropies: EntropySource) -> Additions:
        """Have the entropies of the answer measured, where somebody measures."""
        name = f"{finished.request_id[:64]}-{request_id.new_id()[:12]}"
        additions = entropy_additions(finished.asked, name)
        if not additions.fields or entropies.counts() is None:
            return NOTHING
        entropies.follow(name)
        finished.followed = name
        return additions

    async def _call(
        self, finished: Finished, asked: Asked, body: bytes, additions: Additions
    ) -> ResponsePath:
        if additions.fields:
            body = with_fields(body, additions.fields, asked.body)
        self._scope.setdefault("state", {})
        scope = {**self._scope, "headers": self._given_on(finished, body, additions)}
        path = ResponsePath(
            self._parts,
            asked,
            finished.state,
            scope,
            Replay(whole(body), self._receive),
            self._send,
            extras=additions.extras,
            began=self._began,
            own_headers=self._own_headers(finished),
            may_ask_again=bool(additions.fields),
            stops=self._parts.stops and asked.streams,
        )
        try:
            await self._app(scope, path.receive, path.send)
        except StreamStopped:
            pass
        except BaseException as error:
            is_nan = isinstance(error, ValueError) and tells_nan(str(error))
            if is_nan and additions.fields and path.status is None:
                # Older releases leave the error to the server's outermost layer.
                path.withheld = True
                path.withheld_error = str(error).encode()
                return path
            if not path.stopped or not _comes_from_stop(error):
                finished.notes["raised"] = type(error).__name__
                # What a lost client, or the end of the server, raises in the application.
                lost = isinstance(error, OSError | asyncio.CancelledError)
                path.disconnected = path.disconnected or (lost and not path.complete)
                raise
        finally:
            finished.take(path)
        return path

    def _given_on(self, finished: Finished, body: bytes, additions: Additions) -> list[Header]:
        headers = self._headers
        if header(headers, request_id.HEADER) is None and not isinstance(
            finished.asked.body.get("request_id"), str
        ):
            # Else vLLM takes the client's own, also where we cannot.
            headers = with_header(headers, request_id.HEADER, finished.request_id.encode())
        headers = with_header(headers, b"content-length", str(len(body)).encode())
        headers = with_header(headers, b"transfer-encoding", None)
        if additions.extras:
            # What must be taken out of an answer must be readable.
            headers = with_header(headers, b"accept-encoding", None)
        return headers

    def _own_headers(self, finished: Finished) -> list[Header]:
        own = [(request_id.HEADER, finished.request_id.encode())]
        verdict = finished.admission.header
        return own if verdict is None else [*own, (VERDICT_HEADER, verdict)]

    def _finish(self, finished: Finished) -> None:
        if finished.status in UNRECORDED:
            finished.forget()
            return
        finished.seconds = self._parts.clock() - self._began
        pool = self._parts.pool
        if pool is None:
            finished.settle_and_record()
        elif not pool.submit(finished.settle_and_record, size := finished.size):
            if size <= self._parts.limits.inline_record_bytes:
                finished.settle_and_record(skip=QUEUE_FULL)
            else:
                finished.lose(QUEUE_FULL)


def _comes_from_stop(error: BaseException) -> bool:
    """Tell the end that we brought about: Starlette turns our signal into its own error."""
    return isinstance(error.__context__ or error.__cause__, StreamStopped)
