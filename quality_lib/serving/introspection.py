"""The facts of a running vLLM server, answered at ``GET /quality/server``.

``GET /quality/weights`` reads the weights as they lie in memory (``live_weights``).

Loaded with vLLM's own ``--middleware quality_lib.serving.introspection.Introspection``. It answers
these paths and hands everything else through untouched. Facts are found by looking for features,
never by version numbers; what this vLLM does not have is ``null``.

Who may ask: with ``--api-key`` or ``VLLM_API_KEY`` whoever has the key. Without a key only a direct
caller on the loopback interface, because arguments and paths are nobody else's business; set
``QUALITY_INTROSPECTION=open`` in the server's environment where a network policy protects it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from importlib import metadata
from typing import Any

from quality_lib.serving.arguments import mask_secrets
from quality_lib.serving.live_weights import CannotRead, LiveWeightsReader
from quality_lib.serving.tokenizer_facts import chat_template_sha256, tokenizer_sha256

PATH = "/quality/server"
WEIGHTS_PATH = "/quality/weights"
OPEN_ENV = "QUALITY_INTROSPECTION"
FORMAT = 1
WAIT_S = 5.0
"""How long an asker for facts may wait for the fingerprint that is taken after loading."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class Introspection:
    """Answer ``GET /quality/server`` and ``/quality/weights``; pass everything else through."""

    def __init__(
        self,
        app: ASGIApp,
        env: Mapping[str, str] | None = None,
        argv: Sequence[str] | None = None,
    ) -> None:
        self._app = app
        self._env = os.environ if env is None else env
        self._argv = tuple(sys.argv if argv is None else argv)
        self._fixed: dict[str, Any] | None = None
        self._weights = LiveWeightsReader()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI event."""
        if scope["type"] == "lifespan":
            # Before the first request: reading a tokenizer while a request uses it can fail that
            # request ("Already borrowed").
            self._read_fixed(scope)
            self._weights.start(_state(scope))
        elif scope["type"] == "http" and scope["method"] == "GET":
            path = _path(scope)
            if path in {PATH, WEIGHTS_PATH}:
                await self._answer(path, scope, send)
                return
        await self._app(scope, receive, send)

    async def _answer(self, path: str, scope: Scope, send: Send) -> None:
        state = _state(scope)
        refusal = self._refusal(scope, state)
        if refusal is not None:
            await _send_error(send, *refusal)
        elif path == WEIGHTS_PATH:
            try:
                await _send_json(send, 200, await self._weights.take(state))
            except CannotRead as problem:
                await _send_error(send, 503, f"The live weights cannot be read: {problem}")
        else:
            changing = {
                "adapters": _seen(lambda: adapters(state)),
                "live_fingerprint": await self._weights.loaded(WAIT_S),
            }
            await _send_json(send, 200, {**self._read_fixed(scope), **changing})

    def _read_fixed(self, scope: Scope) -> dict[str, Any]:
        if self._fixed is None:
            self._fixed = fixed_facts(_state(scope), self._argv)
        return self._fixed

    def _refusal(self, scope: Scope, state: Any) -> tuple[int, str] | None:
        keys = [key for key in _keys(state, self._env) if key]
        headers = {bytes(k).lower(): bytes(v) for k, v in scope.get("headers", ())}
        if keys:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            known = [secrets.compare_digest(_sha(given), _sha(key.encode())) for key in keys]
            if scheme.lower() == b"bearer" and any(known):
                return None
            return 401, "Unauthorized: the server's API key is needed"
        direct = not ({b"x-forwarded-for", b"forwarded", b"x-real-ip"} & headers.keys())
        client = (scope.get("client") or ("",))[0]
        if self._env.get(OPEN_ENV) == "open" or (direct and _is_loopback(client)):
            return None
        return 403, (
            "Server facts are given to loopback callers only, because the server has no API key. "
            f"Start it with --api-key, or with {OPEN_ENV}=open behind a network policy."
        )


def fixed_facts(state: Any, argv: Sequence[str]) -> dict[str, Any]:
    """Read what does not change while the server runs; each fact that cannot be read is ``None``."""
    config: Any = getattr(state, "vllm_config", None)
    model: Any = getattr(config, "model_config", None)
    cache: Any = getattr(config, "cache_config", None)
    tokenizer = _seen(lambda: _tokenizer(state))
    template = _seen(lambda: _chat_template(state, model, tokenizer))
    dtype = _seen(lambda: _dtype(model.dtype))
    kv_dtype = _seen(lambda: str(cache.cache_dtype))
    return {
        "format": FORMAT,
        "vllm_version": _seen(_vllm_version),
        "args": list(mask_secrets(argv[1:])),
        "model_path": _seen(lambda: str(model.model)),
        "served_names": _seen(
            lambda: [p.name for p in state.openai_serving_models.base_model_paths]
        ),
        "dtype": dtype,
        # "auto" stands for the model's own type
        "kv_cache_dtype": dtype if kv_dtype == "auto" else kv_dtype,
        "max_model_len": _seen(lambda: int(model.max_model_len)),
        "quantization": _seen(lambda: model.quantization),
        "generation_config": _seen(lambda: dict(model.get_diff_sampling_param())),
        "chat_template_sha256": _seen(lambda: chat_template_sha256(template)),
        "tokenizer_sha256": _seen(lambda: tokenizer_sha256(tokenizer)),
        "environment": environment(),
        "pid": os.getpid(),
        "started_at": _seen(_started_at),
    }


def adapters(state: Any) -> list[str]:
    """Return the names of the LoRA adapters served right now, sorted."""
    return sorted(lora.lora_name for lora in state.openai_serving_models.lora_requests.values())


def environment() -> dict[str, Any]:
    """Return the hardware and the libraries under the server; GPU facts are ``None`` without one."""
    return {
        "python": platform.python_version(),
        "torch": _seen(lambda: metadata.version("torch")),
        "transformers": _seen(lambda: metadata.version("transformers")),
        "cuda": _seen(lambda: sys.modules["torch"].version.cuda),
        "cpu": _seen(_cpu_name),
        **(_seen(_nvidia) or {"gpu": None, "driver": None}),
    }


def _seen(read: Callable[[], Any]) -> Any:
    """Return what ``read`` finds, or ``None``: a vLLM that lacks a feature must still serve."""
    try:
        return read()
    except Exception:  # noqa: BLE001  any failure of a look inside means: cannot be seen
        return None


def _path(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _state(scope: Scope) -> Any:
    return getattr(scope.get("app"), "state", None)


def _keys(state: Any, env: Mapping[str, str]) -> list[str]:
    given = getattr(getattr(state, "args", None), "api_key", None)
    if isinstance(given, str):
        given = [given]
    return list(given or [env.get("VLLM_API_KEY", "")])


def _sha(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _is_loopback(client: str) -> bool:
    return client.startswith(("127.", "::ffff:127.")) or client in {"::1", "localhost"}


def _vllm_version() -> str:
    return str(sys.modules["vllm"].__version__)


def _dtype(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _tokenizer(state: Any) -> Any:
    renderer = getattr(state.engine_client, "renderer", None)
    if renderer is not None:
        return renderer.get_tokenizer()
    return state.engine_client.tokenizer


def _chat_template(state: Any, model: Any, tokenizer: Any) -> Any:
    """Find the template in vLLM's own order: the option, then the processor's, then the tokenizer's."""
    given = None
    for holder in ("online_renderer", "openai_serving_render", "openai_serving_chat"):
        given = given or getattr(getattr(state, holder, None), "chat_template", None)
    try:
        from vllm.renderers.hf import resolve_chat_template
    except ImportError:
        return given or getattr(tokenizer, "chat_template", None)
    return resolve_chat_template(tokenizer, given, None, model_config=model)


def _started_at() -> str:
    import datetime

    import psutil

    started = psutil.Process().create_time()
    return datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(timespec="seconds")


def _cpu_name() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123  procfs
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} x{len(names)}"


def _nvidia() -> dict[str, Any]:
    # NVML, not torch.cuda: asking torch would create a CUDA context in the API server.
    try:
        from vllm.third_party import pynvml
    except ImportError:
        import pynvml  # type: ignore[import-untyped,import-not-found,no-redef,unused-ignore]

    pynvml.nvmlInit()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        names = [_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
        return {
            "gpu": ", ".join(f"{name} x{names.count(name)}" for name in sorted(set(names))),
            "driver": _text(pynvml.nvmlSystemGetDriverVersion()),
        }
    finally:
        pynvml.nvmlShutdown()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


async def _send_error(send: Send, status: int, message: str) -> None:
    await _send_json(send, status, {"error": {"message": message, "type": "quality"}})


async def _send_json(send: Send, status: int, body: Mapping[str, Any]) -> None:
    payload = json.dumps(body, ensure_ascii=False, default=str).encode()
    await send({
        "type": "http.response.start",
        "status": status,
        "headers": [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(payload)).encode()),
            (b"cache-control", b"no-store"),
        ],
    })
    await send({"type": "http.response.body", "body": payload})
