"""Asks a healthy service the golden prompts once more, at length, to learn what its tokens look like."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from quality_lib.adapters.vllm.http import PROBE_HEADER
from quality_lib.errors import OutsideFailure
from quality_lib.gates.learn import HealthyAnswer
from quality_lib.golden.case import GoldenCase
from quality_lib.golden.ports import Progress
from quality_lib.serving.entropy_header import decode
from quality_lib.serving.entropy_layout import CORRECT_ARGUMENT, ID_ARGUMENT

TOKENS = 96
"""Three windows of 32; golden answers themselves are mostly shorter than one."""
TEMPERATURE = 1.0
"""Clients sample hotter than most golden cases, and bounds must hold for their answers too."""
MAX_FAILED_SHARE = 0.1


def ask_for_learning(
    endpoint: str,
    model: str,
    cases: Iterable[GoldenCase],
    *,
    concurrency: int,
    timeout_s: float,
    api_key: str | None = None,
    transport: httpx.BaseTransport | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> tuple[HealthyAnswer, ...]:
    """Ask every case once at temperature 1, with log-probabilities and, where told, entropies.

    Raises:
        OutsideFailure: too many of them failed.
    """
    asked = list(cases)
    headers = dict(PROBE_HEADER)
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    answers: list[HealthyAnswer] = []
    problem = ""
    with (
        httpx.Client(
            base_url=endpoint.rstrip("/"),
            headers=headers,
            timeout=timeout_s,
            transport=transport,
            trust_env=False,
        ) as client,
        ThreadPoolExecutor(concurrency) as pool,
    ):
        run = secrets.token_hex(6)
        ids = (f"learn-{run}-{number}" for number in range(len(asked)))
        found_all = pool.map(lambda case, name: _ask(client, model, case, name), asked, ids)
        for done, found in enumerate(found_all, 1):
            if isinstance(found, HealthyAnswer):
                answers.append(found)
            else:
                problem = problem or found
            progress("learning bounds", done, len(asked))
    if len(answers) < (1 - MAX_FAILED_SHARE) * len(asked):
        raise OutsideFailure(
            f"{len(asked) - len(answers)} of {len(asked)} requests failed, the first: {problem}"
        )
    return tuple(answers)


def _ask(
    client: httpx.Client, model: str, case: GoldenCase, quality_id: str
) -> HealthyAnswer | str:
    """Return an answer, or why there is none."""
    body: dict[str, Any] = {
        "model": model,
        "messages": list(case.messages),
        "temperature": TEMPERATURE,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "seed": case.params.seed or 1,
        "max_tokens": TOKENS,
        "logprobs": True,
        # Uncorrected: what is learned is the model, not what the gates make of it.
        "vllm_xargs": {ID_ARGUMENT: quality_id, CORRECT_ARGUMENT: "off"},
    }
    try:
        response = client.post(
            "/v1/chat/completions", json=body, headers={"x-quality-id": quality_id}
        )
        response.raise_for_status()
        choice = response.json()["choices"][0]
        logprobs = [entry["logprob"] for entry in (choice.get("logprobs") or {})["content"]]
        told = response.headers.get("x-quality-entropies")
        return HealthyAnswer(
            case.id,
            is_cut=choice.get("finish_reason") == "length",
            logprobs=logprobs,
            entropies=decode(told) if told else (),
        )
    except (httpx.HTTPError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
