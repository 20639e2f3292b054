"""A real nginx before real backends: what clients see while weights move and things break."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from quality_lib.adapters.nginx.locations import SERVED_BY
from quality_lib.adapters.nginx.process import NginxProcess
from quality_lib.adapters.nginx.route import HTTP_FILE, SERVER_FILE, NginxRoute
from quality_lib.adapters.nginx.setup import nginx_parts
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.rollout.ports import INSTANCE_HEADER, NOBODY, Backend, RouteTable, Served
from tests.nginx_route import RunningRoute, running_route
from tests.route_backends import Backends, until

STREAMS = 8


@pytest.fixture
def backends() -> Generator[Backends]:
    with Backends() as running:
        yield running


@pytest.fixture
def running(tmp_path: Path, backends: Backends) -> Generator[RunningRoute]:
    with running_route(tmp_path) as found:
        found.route.apply(table(backends, 100, 0, 0))
        # The workers from before the table leave when they like; tests count those that serve it.
        wanted = 1 + found.settings.workers
        until(lambda: len(found.process.pids()), lambda count: count == wanted)
        yield found


def table(backends: Backends, *weights: int, **more: Any) -> RouteTable:
    pairs = zip(backends.addresses.items(), weights, strict=True)
    return RouteTable("chat", tuple(Backend(n, at, weight) for (n, at), weight in pairs), **more)


def asked(**wish: Any) -> dict[str, str]:
    return {"x-test": json.dumps(wish)}


def summary(running: RunningRoute, since: datetime, requests: int) -> Mapping[str, Served]:
    """Return the split once so many requests have been written down."""

    def is_complete(split: Mapping[str, Served]) -> bool:
        return sum(served.requests for served in split.values()) >= requests

    return until(lambda: running.route.split(since), is_complete)


@pytest.mark.parametrize("keeps", [False, True])
def test_clients_keep_connections_only_where_that_was_chosen(
    tmp_path: Path, backends: Backends, keeps: bool
) -> None:
    with running_route(tmp_path, keep_clients=keeps) as running:
        running.route.apply(table(backends, 100, 0, 0))
        with httpx.Client(base_url=running.url, trust_env=False, timeout=60.0) as client:
            answers = [client.post("/v1/completions") for _ in range(2)]
            assert [a.headers["connection"] for a in answers] == [
                "keep-alive" if keeps else "close"
            ] * 2
            # An idle client holds a change up until it must be gone, and never for ever.
            running.route.apply(table(backends, 0, 100, 0))
            assert client.post("/v1/completions").headers["x-backend"] == "b"


async def load(url: str, stop: threading.Event, done: list[float]) -> None:
    """Stream through the route, one after another, with a pool of connections."""
    async with httpx.AsyncClient(base_url=url, timeout=60.0, trust_env=False) as client:

        async def one(number: int) -> None:
            wish = {"chunks": 3 + number % 5, "pause": 0.01}
            while not stop.is_set():
                answer = await client.post("/v1/completions", json={}, headers=asked(**wish))
                assert answer.status_code == 200
                assert answer.text.count("data:") == wish["chunks"]
                done.append(time.monotonic())

        await asyncio.gather(*(one(number) for number in range(STREAMS)))


def test_a_change_of_weights_under_load_loses_no_request(
    running: RunningRoute, backends: Backends
) -> None:
    stop, done, failures = threading.Event(), list[float](), list[BaseException]()

    def clients() -> None:
        try:
            asyncio.run(load(running.url, stop, done))
        except BaseException as error:
            failures.append(error)

    since = datetime.now(UTC)
    thread = threading.Thread(target=clients)
    thread.start()
    without_a: list[tuple[float, float]] = []
    try:
        for weights in [(50, 50, 0), (0, 100, 0), (0, 25, 75), (25, 0, 75), (0, 0, 100)]:
            running.route.apply(table(backends, *weights))
            began, so_far = time.monotonic(), len(done)
            until(lambda: len(done) + 1e9 * len(failures), (so_far + 2.0 * STREAMS).__lt__)
            if weights[0] == 0:
                without_a.append((began, time.monotonic()))
    finally:
        stop.set()
        thread.join()
    assert failures == []
    for began, ended in without_a:
        late = [s for s in backends.seen if s.backend == "a" and began < s.at < ended]
        assert late == [], "no request reaches an instance after its weight is 0"
    split = summary(running, since, len(done))
    assert sum(s.requests for s in split.values()) == len(done) == len(backends.seen)
    assert all((s.failed, s.cut, s.left) == (0, 0, 0) for s in split.values())
    assert {n: s.requests for n, s in split.items()} == {n: backends.took(n) for n in "abc"}


@pytest.mark.parametrize(
    ("wish", "method", "status", "counted"),
    [
        ({"chunks": 9, "break_after": 4}, "POST", None, Served(1, 0, 1, 0, 0)),
        ({"close": True}, "POST", 502, Served(1, 1, 0, 0, 0)),
        ({"status": 500}, "POST", 500, Served(1, 1, 0, 0, 0)),
        ({"status": 404}, "POST", 404, Served(1, 0, 0, 0, 0)),
    ],
)
def test_a_post_is_never_sent_twice(
    running: RunningRoute,
    backends: Backends,
    wish: dict[str, Any],
    method: str,
    status: int | None,
    counted: Served,
) -> None:
    running.route.apply(table(backends, 50, 50, 0))
    since = datetime.now(UTC)
    if status is None:
        with pytest.raises(httpx.RemoteProtocolError):
            running.post(asked(**wish))
    else:
        answer = running.post(asked(**wish))
        assert answer.status_code == status
        if status == 502:
            assert answer.json()["error"]["type"] == "quality_route"
    assert len(backends.seen) == 1
    split = summary(running, since, 1)
    served = split[backends.seen[0].backend]
    assert replace(served, slowest_s=0, in_flight=0) == counted


def test_a_refused_connection_goes_on_to_another_instance(
    running: RunningRoute, backends: Backends
) -> None:
    running.route.apply(table(backends, 50, 50, 0))
    backends.kill("a")
    since = datetime.now(UTC)
    assert [running.post().headers["x-backend"] for _ in range(6)] == ["b"] * 6
    split = summary(running, since, 6)
    assert (split["b"].requests, split["b"].failed) == (6, 0)
    backends.kill("b")
    answer = running.post()
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, 502)
    split = summary(running, since, 7)
    assert sum(s.failed for s in split.values()) == 1
    assert set(split) <= {"a", "b", "c", NOBODY}


def test_a_client_that_leaves_is_no_fault_of_the_instance(running: RunningRoute) -> None:
    since = datetime.now(UTC)
    stream = running.client.stream(
        "POST", "/v1/completions", json={}, headers=asked(chunks=500, pause=0.02)
    )
    with stream as answer:
        next(answer.iter_lines())
    split = summary(running, since, 1)
    assert replace(split["a"], slowest_s=0, in_flight=0) == Served(1, 0, 0, 0, 0, left=1)
    assert until(lambda: running.route.in_flight("a"), lambda n: n == 0) == 0


def test_what_reaches_the_instance(running: RunningRoute, backends: Backends) -> None:
    straight = running.route.straight("b")
    answer = running.post({**straight, "x-request-id": "mine"}, content=b"x" * 3_000_000)
    assert answer.headers[SERVED_BY] == "b"
    seen = backends.seen[-1]
    assert (seen.backend, len(seen.body)) == ("b", 3_000_000), "longer than any buffer"
    assert seen.headers["x-request-id"] == "mine"
    assert INSTANCE_HEADER.lower() not in seen.headers
    assert seen.headers["x-forwarded-for"] == "127.0.0.1"
    assert seen.headers["host"] == running.url.removeprefix("http://")
    running.client.get("/quality/server", headers=straight)
    seen = backends.seen[-1]
    assert (seen.backend, seen.path) == ("b", "/quality/server")
    assert "x-forwarded-for" not in seen.headers, "a trusted caller is a direct one"
    assert len(seen.headers["x-request-id"]) == 32


def test_strangers_get_the_service_and_nothing_else(tmp_path: Path, backends: Backends) -> None:
    with running_route(tmp_path, body_limit_mb=1) as running:
        running.route.apply(table(backends, 100, 0, 0))
        # As through another proxy, whose own address would be trusted.
        stranger = {"x-forwarded-for": "203.0.113.7"}
        answer = running.post(stranger)
        assert answer.status_code == 200
        assert SERVED_BY not in answer.headers
        for path in ("/quality/route", "/quality/server"):
            assert running.client.get(path, headers=stranger).status_code == 403
        answer = running.post({**stranger, INSTANCE_HEADER: "b"})
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "quality_route")
        assert running.client.get("/.quality_chat_copy").status_code == 404
        assert running.post(content=b"x" * 2_000_000).status_code == 413
        assert [seen.backend for seen in backends.seen] == ["a"]
    with (
        running_route(tmp_path / "alone", trusted=()) as running,
        pytest.raises(OutsideFailure, match=r"route\.trusted"),
    ):
        running.route.table()


def test_copies_for_the_mirror_are_thrown_away(running: RunningRoute, backends: Backends) -> None:
    running.route.apply(table(backends, 100, 0, 0, mirror="c"))
    since = datetime.now(UTC)
    began = time.monotonic()
    with httpx.Client(base_url=running.url, trust_env=False, timeout=60.0) as client:
        for _ in range(3):
            answer = client.post("/v1/completions?x=1", content=b"body")
            assert answer.headers["x-backend"] == "a"
    until(lambda: backends.took("c"), lambda n: n == 3)
    assert backends.took("a") == backends.took("c") == 3
    copies = [seen for seen in backends.seen if seen.backend == "c"]
    assert {(c.path, c.body, c.headers["x-quality-probe"]) for c in copies} == {
        ("/v1/completions?x=1", b"body", "1")
    }
    split = summary(running, since, 3)
    assert (split["a"].requests, split["c"].requests) == (3, 0)
    assert split["a"].slowest_s < time.monotonic() - began
    running.post(running.route.straight("b"))
    assert backends.took("c") == 3, "what was led by header is not copied"


def test_a_refused_configuration_changes_nothing(running: RunningRoute, backends: Backends) -> None:
    before = (running.folder / HTTP_FILE).read_bytes()
    workers = set(running.process.pids())
    parts = nginx_parts("chat", running.url, running.settings)
    broken = replace(parts.options, trusted=("no address;",))
    route = NginxRoute("chat", running.process, broken, running.url)
    with pytest.raises(BadInput, match=r"nginx refuses the configuration: .*invalid network"):
        route.apply(table(backends, 0, 100, 0))
    assert (running.folder / HTTP_FILE).read_bytes() == before
    assert set(running.process.pids()) == workers
    assert running.post().headers["x-backend"] == "a"
    with pytest.raises(BadInput, match="cannot be found"):
        running.route.apply(RouteTable("chat", (Backend("x", "no-such-host.invalid:1", 100),)))
    assert running.route.table() == table(backends, 100, 0, 0)


class Deaf(NginxProcess):
    """Passes every check and takes nothing over."""

    def reload(self) -> None:
        return


def test_a_table_that_is_not_taken_over_is_written_back(
    running: RunningRoute, backends: Backends
) -> None:
    before = (running.folder / HTTP_FILE).read_bytes()
    parts = nginx_parts("chat", running.url, running.settings)
    assert parts.process is not None
    parts.process.__class__ = Deaf
    route = NginxRoute("chat", parts.process, parts.options, running.url, timeout_s=0.2)
    with pytest.raises(OutsideFailure, match="has not taken over"):
        route.apply(table(backends, 0, 100, 0))
    assert (running.folder / HTTP_FILE).read_bytes() == before
    assert running.route.table() == table(backends, 100, 0, 0)


def test_the_table_in_force_is_not_applied_again(running: RunningRoute, backends: Backends) -> None:
    workers = set(running.process.pids())
    running.route.apply(table(backends, 100, 0, 0))
    assert set(running.process.pids()) == workers


def test_nginx_survives_a_killed_worker_and_a_killed_master(
    running: RunningRoute, backends: Backends
) -> None:
    master = next(p for p in map(psutil.Process, running.process.pids()) if p.children())
    worker = master.children()[0]
    os.kill(worker.pid, signal.SIGKILL)
    until(lambda: worker.is_running() and worker.status() != "zombie", lambda alive: not alive)
    assert until(lambda: running.post().status_code, lambda code: code == 200) == 200

    os.kill(master.pid, signal.SIGKILL)
    until(running.process.is_running, lambda alive: not alive)
    orphans = set(running.process.pids())
    assert len(orphans) == running.settings.workers, "workers go on without their master"
    assert running.route.table() == table(backends, 100, 0, 0)
    assert running.post().headers["x-backend"] == "a"
    stream = running.client.stream("POST", "/", headers=asked(hold=True))
    with stream as held:
        assert held.headers["x-backend"] == "a"
        running.route.apply(table(backends, 0, 100, 0))
        assert running.process.is_running()
        assert running.post().headers["x-backend"] == "b"
        assert running.route.in_flight("a") == 1, "an orphan finishes what it has"
        backends.release()
        assert held.read().startswith(b"data: a 0")
    assert until(lambda: orphans & set(running.process.pids()), lambda left: not left) == set()

    for pid in running.process.pids():
        os.kill(pid, signal.SIGKILL)
    until(lambda: running.process.pids(), lambda left: not left)
    with pytest.raises(OutsideFailure, match="does not answer"):
        running.route.table()
    running.route.prepare()
    assert running.route.table() == table(backends, 0, 100, 0), "the last table is still there"


def test_changes_at_the_same_time_come_one_after_the_other(
    running: RunningRoute, backends: Backends
) -> None:
    tables = [table(backends, 100 - n, n, 0) for n in (10, 20, 30)]
    failures: list[BaseException] = []

    def change(wanted: RouteTable) -> None:
        try:
            parts = nginx_parts("chat", running.url, running.settings)
            parts.route.apply(wanted)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=change, args=(one,)) for one in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert running.route.table() in tables
    assert running.client.get("/quality/route").json()["revision"].startswith("4-")


@pytest.mark.parametrize(
    "service", ["", "a b", "a;b", "a'b", 'a"b', "a\nb", "a/../b", "$host", "ä"]
)
def test_a_service_name_that_nginx_cannot_carry_is_refused(tmp_path: Path, service: str) -> None:
    parts = nginx_parts("chat", "http://127.0.0.1:1", running_settings(tmp_path))
    assert parts.process is not None
    with pytest.raises(BadInput, match="a route cannot be made"):
        NginxRoute(service, parts.process, parts.options, "http://127.0.0.1:1")


def running_settings(tmp_path: Path) -> Any:
    from quality_lib.settings import RouteSettings

    return RouteSettings(kind="nginx", listen="127.0.0.1:1", folder=tmp_path)


def test_long_names_and_many_instances_fit(tmp_path: Path) -> None:
    service = "A.very-long_service.Name-" + "x" * 38
    folder = tmp_path / "with a blank; and 'more'"
    backends = [Backend("b" * 55 + f"-{n:03}", f"127.0.0.1:{2000 + n}", 0) for n in range(200)]
    wanted = RouteTable(service, (*backends, Backend("last", "localhost:1999", 100)), "last", 50)
    with running_route(folder, service) as running:
        running.route.apply(wanted)
        assert running.route.table() == wanted
    with (
        pytest.raises(BadInput, match="cannot stand in an nginx configuration"),
        running_route(tmp_path / 'a"quote', service),
    ):
        pass


def test_two_ways_of_writing_are_two_services(tmp_path: Path) -> None:
    from quality_lib.adapters.nginx.options import prefix

    names = ["chat", "Chat", "cha.t", "cha-t", "cha_t", "x" * 30, "x" * 31]
    found = {prefix(name).lower() for name in names}
    assert len(found) == len(names)
    assert all(len(name) <= 28 for name in found)


def test_a_users_own_nginx_includes_the_files(tmp_path: Path, backends: Backends) -> None:
    """Their nginx, with a site of their own beside ours, checked and reloaded by commands."""
    from quality_lib.adapters.machine import ports
    from quality_lib.adapters.nginx.program import find_nginx, run
    from quality_lib.settings import RouteSettings

    port, own = ports.free_port(), tmp_path / "own"
    (own / "logs").mkdir(parents=True)
    binary = str(find_nginx())
    main = own / "nginx.conf"
    quality = tmp_path / "quality"
    command = (binary, "-p", str(own), "-e", "logs/error.log", "-c", str(main))
    user = "user root root;" if os.geteuid() == 0 else ""
    main.write_text(
        f"{user} worker_processes 2; pid {own}/pid; events {{ worker_connections 64; }}\n"
        f"http {{ access_log off; keepalive_min_timeout 1s;\n include {quality}/{HTTP_FILE};\n"
        f" server {{ listen 127.0.0.1:{port};\n location = /mine {{ return 200 mine; }}\n"
        f"  include {quality}/{SERVER_FILE}; }} }}\n"
    )
    url = f"http://127.0.0.1:{port}"
    settings = RouteSettings(
        kind="nginx",
        folder=quality,
        check_command=(*command, "-t"),
        reload_command=(*command, "-s", "reload"),
        pid_file=own / "pid",
        keep_clients=True,
        keep_idle_s=1,
    )
    route = nginx_parts("chat", url, settings).route
    with pytest.raises(OutsideFailure, match="reload"):
        route.prepare()  # the files are written, and nobody runs yet
    run(command)
    client = httpx.Client(base_url=url, timeout=60.0, trust_env=False)
    try:
        until(lambda: client.get("/mine").text, lambda text: text == "mine")
        route.apply(table(backends, 0, 100, 0))
        assert client.post("/v1/completions").headers["x-backend"] == "b"
        assert until(lambda: route.in_flight("b"), lambda n: n == 0) == 0
        before = (quality / HTTP_FILE).read_bytes()
        sound = main.read_text()
        main.write_text(sound.replace("return 200 mine", "retrun 200 mine"))
        with pytest.raises(BadInput, match="retrun"):
            route.apply(table(backends, 100, 0, 0))
        assert (quality / HTTP_FILE).read_bytes() == before
        assert route.table() == table(backends, 0, 100, 0)
        # Without the pid file nothing is seen of it: patience, and the instance's own word.
        blind = nginx_parts("chat", url, settings.model_copy(update={"pid_file": None})).route
        main.write_text(sound)
        blind.apply(table(backends, 0, 0, 100))
        assert client.post("/v1/completions").headers["x-backend"] == "c"
        assert blind.in_flight("c") is None
    finally:
        client.close()
        run((*command, "-s", "stop"))
        until(lambda: (own / "pid").exists(), lambda there: not there)
