"""The contract of ModelClient, on the fake and on real vLLM."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.vllm.client import VllmClient
from quality_lib.golden.answer import Fault
from tests.contracts.model_client import ModelClientContract, Work
from tests.fakes_model import FakeModel


class TestFakeModel(ModelClientContract):
    def with_client(self, work: Work) -> Any:
        return self.run(work(FakeModel()))


@pytest.mark.vllm
class TestVllmClient(ModelClientContract):
    @pytest.fixture(autouse=True)
    def _server(self, vllm_server: Instance) -> None:
        self.server = vllm_server

    def with_client(self, work: Work) -> Any:
        async def inside() -> Any:
            async with VllmClient(self.server.endpoint, self.server.served_name) as client:
                return await work(client)

        return asyncio.run(inside())

    def test_the_real_interface_refuses_what_it_must(self) -> None:
        facts = self.with_client(lambda client: client.contract())
        assert facts["model_is_served"]
        assert facts["max_model_len"] == 2048
        assert facts["rejects_negative_temperature"] == 400
        assert facts["rejects_overlong_prompt"] == 400

    def test_a_wrong_model_name_is_refused_not_lost(self) -> None:
        async def inside() -> Any:
            async with VllmClient(self.server.endpoint, "nobody") as client:
                from quality_lib.golden.answer import Channel, Probe
                from tests.contracts.model_client import CASE

                return await client.decode(CASE, Probe(CASE.id, Channel.GREEDY, 1), "s")

        answer = asyncio.run(inside())
        assert answer.fault is Fault.REFUSED
        assert "404" in answer.error
