"""The client of ``/quality/weights``, against the real middleware over a small model."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from quality_lib.adapters.vllm.live_weights import take_fingerprint
from quality_lib.errors import BadInput, NoData, OutsideFailure, QualityError
from quality_lib.serving.introspection import Introspection
from tests.serving.small_worker import SmallEngineClient, SmallWorker, flip, state
from tests.serving.test_introspection import inner


def middleware(client: Any, address: str = "127.0.0.1") -> httpx.BaseTransport:
    """The real middleware, behind a synchronous client."""
    app = Introspection(inner, env={}, argv=())
    app_state = state(client)

    async def with_state(scope: Any, receive: Any, send: Any) -> None:
        scope["app"] = SimpleNamespace(state=app_state)
        await app(scope, receive, send)

    def answer(request: httpx.Request) -> httpx.Response:
        async def run() -> httpx.Response:
            transport = httpx.ASGITransport(with_state, client=(address, 1))
            async with httpx.AsyncClient(transport=transport) as http:
                got = await http.request(request.method, request.url, headers=request.headers)
                return httpx.Response(got.status_code, content=got.content)

        return asyncio.run(run())

    return httpx.MockTransport(answer)


def test_a_change_is_told() -> None:
    worker = SmallWorker()
    client = SmallEngineClient(worker)
    first = take_fingerprint("http://x/v1/", transport=middleware(client))
    assert (first.is_changed, first.unseen) == (False, ())
    assert first.fingerprint == first.loaded_fingerprint
    flip(worker.model.embed.weight, 9, 3)
    second = take_fingerprint("http://x", transport=middleware(client))
    assert [one["name"] for one in second.changed] == ["embed.weight"]


def replies(status: int, body: Any) -> httpx.MockTransport:
    return httpx.MockTransport(
        lambda request: httpx.Response(
            status, **({"text": body} if isinstance(body, str) else {"json": body})
        )
    )


def refuses(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


OURS = {"error": {"message": "cannot be read: asleep", "type": "quality"}}


@pytest.mark.parametrize(
    ("transport", "error"),
    [
        (replies(404, {"detail": "Not Found"}), NoData),
        (replies(503, OURS), NoData),
        (replies(503, "<html>no upstream</html>"), OutsideFailure),
        (replies(500, {"error": "x"}), OutsideFailure),
        (replies(401, OURS), BadInput),
        (replies(403, OURS), BadInput),
        (replies(200, "<html>"), OutsideFailure),
        (replies(200, {"fingerprint": "v1"}), OutsideFailure),
        (replies(200, []), OutsideFailure),
        (httpx.MockTransport(refuses), OutsideFailure),
        (middleware(SmallEngineClient(SmallWorker()), "10.1.1.1"), BadInput),
    ],
)
def test_what_is_no_fingerprint(transport: httpx.BaseTransport, error: type[QualityError]) -> None:
    with pytest.raises(error):
        take_fingerprint("http://x", transport=transport)


def test_the_key_is_sent() -> None:
    seen: list[str] = []

    def look(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization", ""))
        return httpx.Response(404)

    with pytest.raises(NoData):
        take_fingerprint("http://x", "s3cret", transport=httpx.MockTransport(look))
    assert seen == ["Bearer s3cret"]
