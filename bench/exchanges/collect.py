"""Ask the real model, healthy and under every fault, and write down what it says: candidates for a person to read.

    python -m bench.exchanges.collect --out FILE [--fresh] [--model DIR] [--work DIR] [--minutes 6] [--only FAULT ...]

With ``--fresh`` the prompts are those of ``fresh_prompts``, two a fault.

One vLLM server is started with ``damage.Damage`` inside and harmed and mended between the faults. Every finished
fault is appended to FILE at once, so the same command goes on where it stopped. Exit code 75: time ran out.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from bench.exchanges import fresh_prompts, prompts
from bench.exchanges.faults import FAULTS, Fault
from bench.exchanges.prompts import Prompt
from bench.packaged import packaged_model
from quality_lib import settings
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, running

NAME = "chat"
SERVER_ARGS = (
    *("--max-model-len", "2048"),
    "--enforce-eager",
    "--enable-auto-tool-choice",
    *("--tool-call-parser", "hermes"),
    *("--worker-extension-cls", "bench.exchanges.damage.Damage"),
    "--trust-request-chat-template",
    # A seeded request whose prompt is computed in two parts ends the CPU engine: its generators cannot be rewound.
    *("--max-num-batched-tokens", "16384"),
)
MORE = 75
TOGETHER = 8
"""Faults that are asked at once: about fifty requests."""
HEALTHY = (
    Fault("healthy-greedy", "healthy", "nothing is wrong", prompts=len(prompts.ALL)),
    Fault("healthy-sampled", "healthy", "nothing is wrong", prompts=len(prompts.ALL),
          request={"temperature": 0.5, "top_p": 0.9}),
    Fault("healthy-plain", "healthy", "nothing is wrong", only=tuple(p.id for p in prompts.PLAIN),
          prompts=len(prompts.PLAIN), request={"temperature": 0.3, "top_p": 0.9}),
)  # fmt: skip
FRESH_EACH = 2
FRESH_LONGEST, FRESH_LONGEST_UNHARMED = 72, 160
"""Tokens of an answer under a fault: what is wrong with a harmed server shows soon, an answer without end later."""
FRESH_HEALTHY = (
    Fault("fresh-sampled", "healthy", "nothing is wrong", only=tuple(fresh_prompts.BY_ID),
          prompts=len(fresh_prompts.ALL), request={"temperature": 0.4, "top_p": 0.9}),
)  # fmt: skip
KNOWN = {**prompts.BY_ID, **fresh_prompts.BY_ID}
STOPS = ["\n", "."]
CUT_KEEPS = 12
"""Words of the prompt that a cutting proxy lets through."""


class Server:
    """The harmed server as seen over HTTP."""

    def __init__(self, endpoint: str, tokenizer: Any) -> None:
        self.client = httpx.AsyncClient(base_url=endpoint, timeout=1200, trust_env=False)
        self.tokenizer = tokenizer

    async def rpc(self, method: str, *args: str) -> None:
        body = {"method": method, "args": list(args)}
        (await self.client.post("/collective_rpc", json=body)).raise_for_status()

    async def clean(self) -> None:
        await self.rpc("mend")
        await self.rpc("harm_cache", json.dumps({"how": "zero"}))
        (await self.client.post("/reset_prefix_cache")).raise_for_status()

    async def chat(self, prompt: Prompt, params: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": NAME, "messages": prompt.messages, **params}
        if prompt.tools:
            body["tools"] = list(prompt.tools)
            body["tool_choice"] = {
                "type": "function",
                "function": {"name": prompt.tools[0]["function"]["name"]},
            }
        if prompt.response_format:
            body["response_format"] = prompt.response_format
        answer = (await self.client.post("/v1/chat/completions", json=body)).json()
        if "choices" not in answer:
            raise ValueError(f"{prompt.id}: {str(answer)[:300]}")
        choice = answer["choices"][0]
        calls = choice["message"].get("tool_calls") or []
        return {
            "text": choice["message"]["content"],
            "finish_reason": choice["finish_reason"],
            "tool_calls": [c["function"] for c in calls],
            "usage": {k: answer["usage"][k] for k in ("prompt_tokens", "completion_tokens")},
            "token_ids": choice.get("token_ids"),
        }

    async def complete(self, ids: list[int], params: dict[str, Any]) -> dict[str, Any]:
        body = {"model": NAME, "prompt": ids, **params}
        answer = (await self.client.post("/v1/completions", json=body)).json()
        choice = answer["choices"][0]
        return {
            "text": choice["text"],
            "finish_reason": choice["finish_reason"],
            "usage": {k: answer["usage"][k] for k in ("prompt_tokens", "completion_tokens")},
        }

    def count(self, prompt: Prompt) -> int:
        return len(self.prompt_ids(prompt))

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        text = self.tokenizer.apply_chat_template(
            prompt.messages, add_generation_prompt=True, tokenize=False
        )
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


async def decode_shifted(server: Server, prompt: Prompt, params: dict[str, Any]) -> dict[str, Any]:
    answer = await server.chat(prompt, {**params, "return_token_ids": True})
    ids = [i + 1 for i in answer["token_ids"] or [] if 16 < i < 49000]
    return {**answer, "text": server.tokenizer.decode(ids)}


async def decode_each(server: Server, prompt: Prompt, params: dict[str, Any]) -> dict[str, Any]:
    answer = await server.chat(prompt, {**params, "return_token_ids": True})
    return {**answer, "text": each(server.tokenizer, answer["token_ids"] or [])}


def each(tokenizer: Any, ids: Sequence[int]) -> str:
    """Decode token by token, as a careless stream does: characters of several tokens break."""
    return "".join(tokenizer.decode([i], skip_special_tokens=True) for i in ids)


async def encode_shifted(server: Server, prompt: Prompt, params: dict[str, Any]) -> dict[str, Any]:
    ids = [i + 7 if 200 < i < 49000 else i for i in server.prompt_ids(prompt)]
    return await server.complete(ids, params)


async def cut_prompt(server: Server, prompt: Prompt, params: dict[str, Any]) -> dict[str, Any]:
    tail = " ".join(prompt.user.split()[-CUT_KEEPS:])
    answer = await server.chat(Prompt(prompt.id, tail), params)
    return {**answer, "expected_prompt_tokens": server.count(prompt)}


async def drop_text(server: Server, prompt: Prompt, params: dict[str, Any]) -> dict[str, Any]:
    return {**await server.chat(prompt, params), "text": None}


async def stops_ignored(server: Server, prompt: Prompt, params: dict[str, Any]) -> dict[str, Any]:
    return {**await server.chat(prompt, params), "stop": STOPS}


async def swap(server: Server, prompt: Prompt, params: dict[str, Any]) -> dict[str, Any]:
    among = fresh_prompts.EXACT if prompt.id in fresh_prompts.BY_ID else prompts.EXACT
    others = [p for p in among if p.nonce and p.id != prompt.id]
    return await server.chat(others[0], params)


TWISTS = {
    f.__name__: f
    for f in (
        decode_shifted, decode_each, encode_shifted, cut_prompt, drop_text, stops_ignored, swap,
    )
}  # fmt: skip


def chosen(fault: Fault) -> list[Prompt]:
    """Return the prompts of a fault: always the same ones."""
    if fault.only:
        return [KNOWN[name] for name in fault.only][: fault.prompts]
    pool = [p for p in prompts.ALL if fault.kind == "healthy" or p not in prompts.STRUCTURED]
    if fault.prompts >= len(pool):
        return pool
    return random.Random(fault.name).sample(pool, fault.prompts)


def with_fresh_prompts(fault: Fault) -> Fault:
    """Return the fault with a few fresh prompts, like those it names where it names any."""
    if fault.only:
        names = [fresh_prompts.LIKE[name] for name in fault.only if name in fresh_prompts.LIKE]
    else:
        among = [p.id for p in fresh_prompts.OPEN]
        names = random.Random(f"fresh {fault.name}").sample(among, FRESH_EACH)
    most = FRESH_LONGEST if fault.harms or fault.cache else FRESH_LONGEST_UNHARMED
    longest = min(most, fault.request.get("max_tokens", 110))
    return dataclasses.replace(
        fault, only=tuple(names[:FRESH_EACH]), request={**fault.request, "max_tokens": longest}
    )


def params_of(fault: Fault, prompt: Prompt, number: int) -> dict[str, Any]:
    seed = random.Random(f"{fault.name}/{prompt.id}").randrange(1 << 30)
    sampled = number % 2 == 1 and fault.kind != "healthy"
    base = {"temperature": 0.7, "top_p": 0.95} if sampled else {"temperature": 0.0}
    return {"max_tokens": prompt.max_tokens, **base, "seed": seed, **fault.request}


async def ask(server: Server, faults: Sequence[Fault]) -> list[list[dict[str, Any]]]:
    """Ask everything of some faults at once; more than one only where the server itself is whole."""
    await server.clean()
    for fault in faults:
        if fault.harms:
            await server.rpc("harm", json.dumps(fault.harms))
    jobs = [
        asyncio.gather(*(_one(server, fault, p, n) for n, p in enumerate(chosen(fault))))
        for fault in faults
    ]
    for fault in faults:
        for number in range(fault.cache.get("times", 1) if fault.cache else 0):
            await asyncio.sleep(fault.cache_delay_s)
            await server.rpc("harm_cache", json.dumps({**(fault.cache or {}), "seed": number}))
    found = [[row for row in rows if row] for rows in await asyncio.gather(*jobs)]
    await server.clean()
    return found


def groups(faults: Sequence[Fault]) -> list[list[Fault]]:
    """Put faults of requests and clients together, for large batches; harmed servers stay alone."""
    whole = [f for f in faults if not f.harms and not f.cache]
    together = [whole[start : start + TOGETHER] for start in range(0, len(whole), TOGETHER)]
    return [*together, *([f] for f in faults if f.harms or f.cache)]


def hidden_fields(fault: Fault) -> set[str]:
    """Return the fields that bring the fault about and that no caller has sent."""
    hidden = {"chat_template", "skip_special_tokens", "bad_words"}
    return hidden if fault.kind == "sampling" else {*hidden, "ignore_eos"}


async def _one(server: Server, fault: Fault, prompt: Prompt, number: int) -> dict[str, Any] | None:
    params = params_of(fault, prompt, number)
    try:
        if fault.client:
            answer = await TWISTS[fault.client](server, prompt, params)
        else:
            answer = await server.chat(prompt, params)
    except (httpx.HTTPStatusError, ValueError, KeyError) as error:
        print(f"{fault.name}/{prompt.id}: {error!r}"[:200], file=sys.stderr, flush=True)
        return None
    stop = answer.pop("stop", None)
    answer.pop("token_ids", None)
    sent = {k: v for k, v in params.items() if k not in hidden_fields(fault)}
    return {
        "id": f"{fault.name}/{prompt.id}",
        "prompt_id": prompt.id,
        "kind": fault.kind,
        "why": fault.why,
        "source": f"real model, fault {fault.name}, seed {params['seed']}",
        "messages": prompt.messages,
        "params": {**sent, "stop": stop} if stop else sent,
        **({"tools": list(prompt.tools)} if prompt.tools else {}),
        **({"response_format": prompt.response_format} if prompt.response_format else {}),
        **({"nonce": prompt.nonce} if prompt.nonce else {}),
        **answer,
    }


def done_faults(out: Path) -> set[str]:
    """Return the faults whose answers are in the file."""
    lines = out.read_text("utf-8").splitlines() if out.exists() else []
    return {json.loads(line)["id"].partition("/")[0] for line in lines}


async def collect(
    endpoint: str, tokenizer: Any, out: Path, faults: list[Fault], until: float
) -> bool:
    server = Server(endpoint, tokenizer)
    left = groups(faults)
    for number, group in enumerate(left, 1):
        if time.monotonic() > until:
            return False
        began = time.monotonic()
        names = ", ".join(fault.name for fault in group)
        try:
            found = await ask(server, group)
        except httpx.HTTPStatusError as error:
            print(f"{names}: {error.response.text[:300]}", file=sys.stderr, flush=True)
            continue
        with out.open("a", encoding="utf-8") as file:
            for rows in found:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        count = sum(map(len, found))
        seconds = time.monotonic() - began
        told = f"{number}/{len(left)} {names}: {count} answers, {seconds:.0f} s"
        print(told, file=sys.stderr, flush=True)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument(
        "--minutes", type=float, default=600.0, help="of asking, before it stops cleanly"
    )
    parser.add_argument("--fresh", action="store_true", help="ask the fresh prompts")
    parser.add_argument("--only", nargs="*", default=[], help="names of faults")
    args = parser.parse_args()
    from transformers import AutoTokenizer

    model = args.model or packaged_model()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    done = done_faults(args.out)
    every = (*HEALTHY, *FAULTS)
    if args.fresh:
        every = (*map(with_fresh_prompts, FAULTS), *FRESH_HEALTHY)
    faults = [f for f in every if f.name not in done]
    if args.only:
        faults = [f for f in faults if f.name in args.only]
    if not faults:
        return
    spec = EngineSpec(model, NAME, SERVER_ARGS, env={"VLLM_SERVER_DEV_MODE": "1"}, drain_s=5.0)
    engine = LocalEngine(args.work or settings.home() / "bench-exchanges")
    with running(engine, spec, timeout_s=1500.0) as instance:
        tokenizer = AutoTokenizer.from_pretrained(model)
        until = time.monotonic() + args.minutes * 60
        complete = asyncio.run(collect(instance.endpoint, tokenizer, args.out, faults, until))
    sys.exit(0 if complete else MORE)


if __name__ == "__main__":
    main()
