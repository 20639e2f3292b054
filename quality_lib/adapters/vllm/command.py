"""The command line and the environment of vLLM's OpenAI server as a local process."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import quality_lib
from quality_lib.adapters.engine.port import EngineSpec
from quality_lib.adapters.machine.ports import LOOPBACK
from quality_lib.errors import BadInput
from quality_lib.serving.live_weights import EXTENSION as LIVE_WEIGHTS

INTROSPECTION = "quality_lib.serving.introspection.Introspection"
EXTENSION_OPTION = "--worker-extension-cls"
WHOLE_PROMPTS = "--no-enable-chunked-prefill"
PROMPT_PARTS = {"--enable-chunked-prefill", WHOLE_PROMPTS, "--max-num-batched-tokens"}
OURS = {"--model", "--served-model-name", "--host", "--port", "--uds"}

DEFAULT_ENV = {
    # A serving instance must not depend on, nor tell, anybody outside.
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # GiB; the CPU back-end's own default takes a large share of the machine's memory.
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # Seconds. Its workers do not notice the end by themselves, and with the default of 5 even an
    # idle server took 10 s to stop; nothing is lost, because the requests have drained by then.
    "VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS": "1",
}

HUGE_PAGES = {
    # glibc asks for large pages for what comes from its heap, so everything has to come from there:
    # tensors below 1 GiB, and Python's objects, for which Python has an allocator of its own.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824"
    ":glibc.malloc.top_pad=67108864",
    "PYTHONMALLOC": "malloc",
}
"""Large pages by glibc 2.35 and later; other C libraries ignore it."""


def vllm_command(spec: EngineSpec, port: int) -> tuple[str, ...]:
    """Return the argument list that serves ``spec`` on a loopback port."""
    options = {arg.partition("=")[0].replace("_", "-") for arg in spec.args if arg.startswith("--")}
    if clash := sorted(options & OURS):
        raise BadInput(
            f"the engine sets {', '.join(clash)} itself",
            field="engine.args",
            fix="leave these out of the arguments",
        )
    drain = (
        ()
        if "--shutdown-timeout" in options
        else (
            "--shutdown-timeout",
            # vLLM's default of 0 drops the requests in flight.
            str(math.ceil(spec.drain_s)),
        )
    )
    return (
        sys.executable,
        # The console script `vllm` does not work in the CPU package.
        *("-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(spec.model_path)),
        *("--served-model-name", spec.served_name),
        *("--host", LOOPBACK),
        *("--port", str(port)),
        *drain,
        # A request with a seed whose prompt is read in two steps ends the engine of a CPU build: vLLM
        # 0.32 moves its random generator back, which generators of a CPU cannot do.
        *((WHOLE_PROMPTS,) if is_cpu_build() and not options & PROMPT_PARTS else ()),
        *(("--middleware", INTROSPECTION) if spec.introspection else ()),
        *(
            (EXTENSION_OPTION, LIVE_WEIGHTS)
            # One worker extension is all that vLLM takes, and the operator's own goes first.
            if spec.introspection and EXTENSION_OPTION not in options and takes_extension()
            else ()
        ),
        *spec.args,
    )


def server_env(inherited: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the server's environment: ``given`` over what is inherited over the defaults."""
    package_root = str(Path(quality_lib.__file__).parents[1])
    path = inherited.get("PYTHONPATH")
    return {
        **DEFAULT_ENV,
        **(_for_processors(len(os.sched_getaffinity(0))) if is_cpu_build() else {}),
        **inherited,
        # The server imports our middleware, installed or not.
        "PYTHONPATH": f"{package_root}:{path}" if path else package_root,
        **given,
    }


@functools.cache
def takes_extension() -> bool:
    """Return whether the vLLM of this environment knows the option for a worker extension.

    Its source is looked at: to import vLLM for an answer takes ten seconds. False without vLLM.
    """
    spec = importlib.util.find_spec("vllm")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    for place in places:
        try:
            source = (Path(place) / "engine/arg_utils.py").read_text(encoding="utf-8")
        except OSError:
            continue
        return f'"{EXTENSION_OPTION}"' in source
    return False


@functools.cache
def is_cpu_build() -> bool:
    """Return whether this environment's vLLM is built for processors alone."""
    for name in ("vllm-cpu", "vllm"):
        try:
            release = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return name == "vllm-cpu" or "cpu" in release.partition("+")[2]
    return False


def _for_processors(processors: int) -> dict[str, str]:
    """Return what the CPU back-end needs to be quick, also beside a second instance.

    By itself it starts a worker process beside the engine, and the two wait for each other without
    sleeping; on two cores that costs a third of the speed, and two instances, which every rollback
    has, stop each other: 83 and 117 tokens/s beside each other where 160 and 154 are reached so. And
    it reads all weights and half of Python's objects for every token: in pages of 4 KiB a virtual
    machine looks most of its time for addresses, 29 tokens/s where large pages give 176
    (``design/017-two-instances-on-two-cores.md``).
    """
    return {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "OMP_NUM_THREADS": str(max(1, processors // 2)),
        **HUGE_PAGES,
    }
