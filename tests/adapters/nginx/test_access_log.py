"""The access log, whole, rotated, torn and foreign."""

from __future__ import annotations

import gzip
import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.adapters.nginx.access_log import (
    BLOCK,
    LoggedRequest,
    cut_requests,
    read_requests,
)
from quality_lib.adapters.nginx.served import summarise
from quality_lib.errors import OutsideFailure
from quality_lib.rollout.ports import Served

T0 = 1_800_000_000.0


def line(end: float, took: float = 0.5, **more: Any) -> str:
    fields = {
        "end": None, "took": None, "id": "x", "method": "POST", "path": "/v1/completions",
        "status": "200", "backend": "a", "answer": "0.4", "done": "OK", "asked": "", "copied": "",
        "pid": 7, "connection": 11, **more,
    }  # fmt: skip
    text = json.dumps({k: v for k, v in fields.items() if k not in {"end", "took"}})
    return f'{{"end":{T0 + end:.3f},"took":{took:.3f},{text[1:]}\n'


def began(path: Path, since: float) -> list[float]:
    return sorted(round(one.began - T0, 3) for one in read_requests(path, T0 + since))


def test_requests_are_chosen_by_when_they_began(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text(line(1) + line(2) + line(9, took=8) + line(4, took=0.25))
    assert began(log, 0.5) == [0.5, 1.0, 1.5, 3.75]
    assert began(log, 1.0) == [1.0, 1.5, 3.75]
    assert began(log, 100) == []


@pytest.mark.parametrize("began_at", [0.0, 0.001, 0.123, 0.999, 1.0])
@pytest.mark.parametrize("earlier_s", [0.0, 0.000001, 0.0004, 0.000999])
def test_a_request_of_the_same_millisecond_counts(
    tmp_path: Path, began_at: float, earlier_s: float
) -> None:
    log = tmp_path / "access.log"
    since = datetime.fromtimestamp(T0, UTC) + timedelta(seconds=began_at)
    # nginx writes the millisecond down, not its parts: so a request may seem older than it is.
    log.write_text(line(began_at + 0.7, took=0.7))
    asked = since + timedelta(seconds=earlier_s)
    assert [one.took_s for one in read_requests(log, asked.timestamp())] == [0.7]
    assert not read_requests(log, (since + timedelta(milliseconds=1)).timestamp())


@given(
    ended=st.lists(st.integers(0, 40), max_size=20),
    borders=st.lists(st.integers(0, 50_000), min_size=1, max_size=4).map(sorted),
)
def test_stretches_side_by_side_count_each_request_once(
    tmp_path_factory: pytest.TempPathFactory, ended: list[int], borders: list[int]
) -> None:
    log = tmp_path_factory.mktemp("log") / "access.log"
    log.write_text("".join(line(ms / 1000, took=0.0, id=str(n)) for n, ms in enumerate(ended)))
    stretches = itertools.pairwise([-1.0, *(T0 + border / 1e6 for border in borders), 2 * T0])
    assert sum(len(read_requests(log, since, until)) for since, until in stretches) == len(ended)


def test_a_log_of_several_blocks_loses_no_line(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    old = "".join(line(number / 1000) for number in range(20_000))
    assert len(old) > 3 * BLOCK
    log.write_bytes(b"\xff no line of ours\n" + old.encode() + line(100).encode())
    assert began(log, 60) == [99.5]
    assert len(began(log, -1)) == 20_001


def test_damaged_and_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    odd = ['{"end":1', "[]", '{"end":5.0,"took":"x"}', "", "\0\0\0", '"end"', line(3, status="00x")]
    log.write_text("\n".join(odd) + "\n" + line(2) + line(4)[:40])
    assert began(log, 0) == [1.5]
    log.write_bytes(line(2, asked="h\u00e4").encode("latin-1") + b'{"end":\xfe\xff\n')
    assert began(log, 0) == [1.5]


@pytest.mark.parametrize("rotated", ["access.log.1", "access.log-20261130", "access.log.2.gz"])
def test_a_rotated_log_is_read_on(tmp_path: Path, rotated: str) -> None:
    log = tmp_path / "access.log"
    older = (line(1) + line(2)).encode()
    (tmp_path / rotated).write_bytes(gzip.compress(older) if rotated.endswith("gz") else older)
    log.write_text(line(3))
    (tmp_path / "access.log.lock.d").mkdir()
    (tmp_path / "accessXlog").write_text(line(50))
    assert began(log, 0) == [0.5, 1.5, 2.5]


def test_a_copied_and_truncated_log_counts_nothing_twice(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    (tmp_path / "access.log.1").write_text(line(1) + line(2))
    log.write_text(line(1) + line(2) + line(3))  # copied, not yet truncated
    assert began(log, 0) == [0.5, 1.5, 2.5]
    log.write_text("")
    assert began(log, 0) == [0.5, 1.5]


def test_a_missing_log_is_no_traffic_and_no_proof(tmp_path: Path) -> None:
    with pytest.raises(OutsideFailure, match="access log"):
        read_requests(tmp_path / "access.log", T0)
    with pytest.raises(OutsideFailure, match="which answers were cut"):
        cut_requests(tmp_path / "error.log", [])


def test_a_copied_request_took_as_long_as_its_own_answer(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text(
        line(9, took=8, copied="1", answer="0.125") + line(9, took=7, copied="1", answer="0.1, 0.2")
    )
    assert sorted(one.took_s for one in read_requests(log, T0)) == [0.125, 0.2]


def request(
    status: int = 200, is_done: bool = True, connection: int = 11, ended: float = 0.3, pid: int = 7
) -> LoggedRequest:
    return LoggedRequest(T0, 2.0, "a", status, is_done, "", (pid, connection), T0 + ended)


def error(text: str, connection: int = 11, clock: str = "10:00:00", pid: int = 7) -> str:
    return (
        f'2027/01/15 {clock} [error] {pid}#{pid}: *{connection} {text}, client: x, upstream: "y"\n'
    )


CLOSED = "upstream prematurely closed connection while"


@pytest.mark.parametrize(
    ("said", "is_cut"),
    [
        (error(f"{CLOSED} reading upstream"), True),
        (error(f"{CLOSED} sending to client"), True),
        (error("upstream timed out (110: Operation timed out) while reading upstream"), True),
        (error("recv() failed (104: Connection reset by peer) while reading upstream"), True),
        (error(f"{CLOSED} reading upstream", clock="18:45:01"), True),  # another zone's clock
        (error(f"{CLOSED} reading upstream", clock="10:00:05"), False),
        (error(f"{CLOSED} reading upstream", connection=12), False),
        (error(f"{CLOSED} reading upstream", pid=8), False),
        (error(f"{CLOSED} reading response header from upstream"), False),
        (error("connect() failed (111: Connection refused) while connecting to upstream"), False),
        ("garbage\n\xff", False),
        ("", False),
    ],
)
def test_the_error_log_tells_who_broke_an_answer_off(
    tmp_path: Path, said: str, is_cut: bool
) -> None:
    assert T0 % 900 == 0
    log = tmp_path / "error.log"
    log.write_text(said)
    kept_alive = [request(ended=-30), request(ended=0.1), request(ended=0.9 if is_cut else 0.3)]
    assert cut_requests(log, kept_alive) == ({kept_alive[2]} if is_cut else set())
    assert cut_requests(log, [request(502)]) == set()
    log.rename(tmp_path / "error.log.1")
    assert bool(cut_requests(log, kept_alive)) == is_cut


def test_outcomes_are_told_apart() -> None:
    requests = [
        request(),
        request(404),
        request(500),
        request(502),
        request(connection=12),
        request(is_done=False),
        request(499, is_done=False),
    ]
    cut = frozenset({requests[4]})
    assert summarise(requests, cut, 3) == Served(7, 2, 1, 2.0, 3, left=2)
    assert summarise([], cut, 0) == Served(0, 0, 0, 0.0, 0)
