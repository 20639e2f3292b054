"""The name of a server's start, from what /metrics tells."""

from __future__ import annotations

import httpx
import pytest

from quality_lib.adapters.vllm.server_start import server_start
from quality_lib.errors import BadInput, OutsideFailure

LINE = "process_start_time_seconds"


def answering(status: int, text: str) -> httpx.MockTransport:
    return httpx.MockTransport(lambda request: httpx.Response(status, text=text))


@pytest.mark.parametrize(
    ("status", "text", "start"),
    [
        (200, f"# TYPE {LINE} gauge\n{LINE} 1.76e+09\n", "1760000000.00"),
        (200, f"{LINE} 1760000000.25\nother 1\n", "1760000000.25"),
        (200, "other 1\n", None),
        (200, f'{LINE}{{pid="1"}} 1\n{LINE}{{pid="2"}} 2\n', None),
        (200, "{{{", None),
        (404, "", None),
    ],
)
def test_a_start_is_named_by_its_time(status: int, text: str, start: str | None) -> None:
    assert server_start("http://x", transport=answering(status, text)) == start


def test_the_key_is_sent() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer k"
        return httpx.Response(200, text=f"{LINE} 5\n")

    assert server_start("http://x", "k", httpx.MockTransport(answer)) == "5.00"


def test_nobody_answers() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(OutsideFailure, match="does not answer"):
        server_start("http://x", transport=httpx.MockTransport(refuse))
    with pytest.raises(BadInput, match="no address"):
        server_start("http://a:b")
