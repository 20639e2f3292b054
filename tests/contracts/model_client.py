"""What every ModelClient must do; run on the fake and on a real vLLM server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from quality_lib.golden.answer import Answer, Channel, Probe
from quality_lib.golden.case import GoldenCase, Params
from quality_lib.golden.ports import ModelClient

CASE = GoldenCase(
    id="contract-01",
    messages=({"role": "user", "content": "Name three colours."},),
    params=Params(max_tokens=16),
)
Work = Callable[[ModelClient], Awaitable[Any]]


class ModelClientContract:
    """Subclasses say how to reach a client."""

    def with_client(self, work: Work) -> Any:
        """Run ``work`` with a fresh client."""
        raise NotImplementedError

    def decode(self, attempt: int = 1) -> Answer:
        probe = Probe(CASE.id, Channel.GREEDY, attempt)
        answer = self.with_client(lambda client: client.decode(CASE, probe, "contract"))
        assert isinstance(answer, Answer)
        return answer

    def score(self, channel: Channel, reference: Answer) -> Answer:
        probe = Probe(CASE.id, channel, 1)
        answer = self.with_client(lambda client: client.score(CASE, probe, reference))
        assert isinstance(answer, Answer)
        return answer

    def test_an_answer_has_one_log_probability_per_token(self) -> None:
        answer = self.decode()
        assert answer.is_judgeable
        assert answer.text
        assert answer.prompt_token_ids
        assert len(answer.token_ids) == len(answer.logprobs) > 0
        assert all(p is not None and p <= 0 for p in answer.logprobs)
        assert answer.finish_reason in {"stop", "length"}

    def test_a_greedy_answer_alone_repeats_itself(self) -> None:
        assert self.decode(2).token_ids == self.decode(2).token_ids

    def test_raw_scoring_scores_the_stored_tokens(self) -> None:
        reference = self.decode()
        answer = self.score(Channel.RAW_SCORED, reference)
        assert answer.token_ids == reference.token_ids
        assert all(p is not None and p <= 0 for p in answer.logprobs)

    def test_scoring_alone_repeats_bit_for_bit(self) -> None:
        reference = self.decode()
        first, second = (self.score(Channel.RAW_SCORED, reference) for _ in range(2))
        assert first.logprobs == second.logprobs

    def test_scoring_with_a_cold_cache_gives_the_same_tokens(self) -> None:
        reference = self.decode()
        probe = Probe(CASE.id, Channel.RAW_SCORED, 1)
        cold = self.with_client(lambda client: client.score(CASE, probe, reference, "salt"))
        assert cold.is_judgeable
        assert cold.token_ids == reference.token_ids
        assert len(cold.logprobs) == len(reference.token_ids)

    def test_scoring_through_the_chat_template_meets_the_same_prompt(self) -> None:
        reference = self.decode()
        answer = self.score(Channel.CHAT_SCORED, reference)
        assert answer.prompt_token_ids == reference.prompt_token_ids
        assert answer.token_ids

    def test_it_tells_what_the_server_worked_on_while_it_scored(self) -> None:
        reference = self.decode()

        async def looked(client: ModelClient) -> Any:
            await client.score(CASE, Probe(CASE.id, Channel.RAW_SCORED, 1), reference)
            return client.take_running(), client.take_running()

        seen, again = self.with_client(looked)
        assert isinstance(seen, int)
        assert 0 <= seen <= 4
        assert again is None, "told once"

    def test_interface_facts_are_the_same_twice(self) -> None:
        async def facts(client: ModelClient) -> Any:
            return dict(await client.contract())

        first, second = self.with_client(facts), self.with_client(facts)
        assert first == second
        assert first

    @staticmethod
    def run(work: Awaitable[Any]) -> Any:
        async def waited() -> Any:
            return await work

        return asyncio.run(waited())
