"""The fingerprint over HTTP: who may ask, what is answered, and what stands in the way."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from quality_lib.serving.introspection import PATH, WEIGHTS_PATH, Introspection
from quality_lib.serving.live_weights import CannotRead, LiveWeightsReader
from tests.serving.small_worker import SmallEngineClient, SmallWorker, flip, state
from tests.serving.test_introspection import KEYED, ask, inner, vllm_state


def take(reader: LiveWeightsReader, app_state: Any) -> dict[str, Any]:
    return asyncio.run(reader.take(app_state))


def test_all_ranks_are_read_and_named() -> None:
    ranks = [SmallWorker(rank=0), SmallWorker(rank=1)]
    app_state = state(SmallEngineClient(*ranks))
    first = take(LiveWeightsReader(), app_state)
    assert first["fingerprint"] == first["loaded_fingerprint"]
    assert [rank["rank"] for rank in first["ranks"]] == ["rank0", "rank1"]
    flip(ranks[1].model.norm.weight)
    second = take(LiveWeightsReader(), app_state)
    assert second["changed_tensors"] == 1
    assert (second["changed"][0]["rank"], second["changed"][0]["name"]) == ("rank1", "norm.weight")
    assert second["loaded_fingerprint"] == first["fingerprint"] != second["fingerprint"]
    assert second["fingerprint"].rpartition("-")[0] == first["fingerprint"].rpartition("-")[0]


def test_another_number_of_ranks_is_another_layout() -> None:
    one = take(LiveWeightsReader(), state(SmallEngineClient(SmallWorker())))
    two = take(LiveWeightsReader(), state(SmallEngineClient(SmallWorker(), SmallWorker(rank=1))))
    assert one["fingerprint"].rpartition("-")[0] != two["fingerprint"].rpartition("-")[0]


def test_the_engine_gets_its_turn_between_calls() -> None:
    client = SmallEngineClient(SmallWorker())
    take(LiveWeightsReader(call_s=1e-9), state(client))
    assert client.calls.count("quality_weights_read") > 8  # one slice of one tensor a call


def test_with_data_parallelism_every_engine_is_asked() -> None:
    engines = [SmallEngineClient(SmallWorker(rank=0)), SmallEngineClient(SmallWorker(rank=1))]

    async def call_all(name: str, method: str, timeout: Any, args: Any, kwargs: Any) -> list[Any]:
        assert name == "collective_rpc"
        return [await engine.collective_rpc(method, args) for engine in engines]

    client = SimpleNamespace(engine_core=SimpleNamespace(call_utility_all_async=call_all))
    assert len(take(LiveWeightsReader(), state(client))["ranks"]) == 2


def fails(method: str) -> None:
    raise RuntimeError("CUDA error: an illegal memory access\nand more")


def asleep() -> SmallEngineClient:
    client = SmallEngineClient(SmallWorker())
    client.sleeps = True
    return client


@pytest.mark.parametrize(
    ("app_state", "told"),
    [
        (None, "no engine"),
        (SimpleNamespace(), "no engine"),
        (state(SmallEngineClient(SmallWorker()), extension=""), "--worker-extension-cls"),
        (state(SmallEngineClient(SmallWorker()), extension="nowhere.Other"), "do not carry"),
        (state(SmallEngineClient(SmallWorker()), extension="pathlib.Path"), "do not carry"),
        (state(asleep()), "sleeps"),
        (state(SmallEngineClient(SmallWorker(), before=fails)), "illegal memory access"),
    ],
)
def test_what_stands_in_the_way_is_said(app_state: Any, told: str) -> None:
    with pytest.raises(CannotRead, match=told):
        take(LiveWeightsReader(), app_state)


def test_a_reading_that_takes_too_long_is_given_up() -> None:
    class Stuck(SmallEngineClient):
        async def collective_rpc(self, method: str, args: tuple[Any, ...] = ()) -> list[Any]:
            await asyncio.Event().wait()
            return []

    with pytest.raises(CannotRead, match="not read within"):
        take(LiveWeightsReader(give_up_s=0.01), state(Stuck(SmallWorker())))


def test_an_engine_that_ends_meanwhile_is_not_waited_for() -> None:
    class Ending(SmallEngineClient):
        errored = False

        async def collective_rpc(self, method: str, args: tuple[Any, ...] = ()) -> list[Any]:
            self.errored = True
            await asyncio.Event().wait()
            return []

    with pytest.raises(CannotRead, match="has ended"):
        take(LiveWeightsReader(give_up_s=600), state(Ending(SmallWorker())))


def test_two_who_ask_at_once_are_answered_one_after_the_other() -> None:
    async def both() -> list[Any]:
        reader, app_state = LiveWeightsReader(), state(SmallEngineClient(SmallWorker()))
        return await asyncio.gather(reader.take(app_state), reader.take(app_state))

    first, second = asyncio.run(both())
    assert first["fingerprint"] == second["fingerprint"]


def served(client: Any, **changes: Any) -> Any:
    own = state(client)
    config = SimpleNamespace(
        parallel_config=own.vllm_config.parallel_config,
        model_config=vllm_state().vllm_config.model_config,
        cache_config=vllm_state().vllm_config.cache_config,
    )
    return vllm_state(engine_client=client, vllm_config=config, **changes)


def test_over_http() -> None:
    answer = ask(served(SmallEngineClient(SmallWorker())), path=WEIGHTS_PATH)
    assert answer.status_code == 200
    told = answer.json()
    assert told["fingerprint"].startswith("v1-")
    assert (told["changed"], told["unseen"]) == ([], [])
    assert told["bytes"] > 0


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"client": ("10.0.0.7", 1)}, 403),
        ({"headers": {"X-Forwarded-For": "10.0.0.7"}}, 403),
        ({"client": ("10.0.0.7", 1), "env": {"QUALITY_INTROSPECTION": "open"}}, 200),
        ({"state": {"args": KEYED}}, 401),
        ({"state": {"args": KEYED}, "headers": {"Authorization": "Bearer first"}}, 200),
        ({"method": "POST"}, 299),
    ],
)
def test_the_same_may_ask_as_for_the_servers_facts(request_: dict[str, Any], status: int) -> None:
    changes = request_.pop("state", {})
    app_state = served(SmallEngineClient(SmallWorker()), **changes)
    assert ask(app_state, path=WEIGHTS_PATH, **request_).status_code == status


def test_a_server_without_the_extension_says_how_to_get_it() -> None:
    answer = ask(vllm_state(), path=WEIGHTS_PATH)
    assert answer.status_code == 503
    assert "--worker-extension-cls" in answer.json()["error"]["message"]


def test_the_fingerprint_after_loading_is_taken_at_start_and_told_with_the_facts() -> None:
    client = SmallEngineClient(SmallWorker())
    app = Introspection(inner, env={}, argv=("server",))
    app_state = served(client)

    async def with_state(scope: Any, receive: Any, send: Any) -> None:
        scope["app"] = SimpleNamespace(state=app_state)
        await app(scope, receive, send)

    async def run() -> tuple[Any, Any, Any]:
        await with_state({"type": "lifespan"}, None, None)
        transport = httpx.ASGITransport(with_state, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            facts = (await http.get(PATH)).json()
            flip(client.workers[0].model.norm.weight)
            changed = (await http.get(WEIGHTS_PATH)).json()
            again = (await http.get(PATH)).json()
        return facts, changed, again

    facts, changed, again = asyncio.run(run())
    assert facts["live_fingerprint"] == changed["loaded_fingerprint"] == again["live_fingerprint"]
    assert [one["name"] for one in changed["changed"]] == ["norm.weight"]
