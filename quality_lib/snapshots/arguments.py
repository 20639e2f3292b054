"""The arguments of a vLLM server, brought into a form in which two lists can be compared. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from quality_lib.snapshots.manifest import canonical_json

SECRET_OPTIONS = frozenset({"--api-key", "--hf-token", "--ssl-keyfile-password"})
PLACE_OPTIONS = frozenset({
    "--host",
    "--port",
    "--uds",
    "--model",
    "--served-model-name",
    "--shutdown-timeout",
})
"""Where a server listens, what it is called and how it stops says nothing about its answers; nor
does where its files lie, for the weights are compared by their hashes."""

OBSERVERS = frozenset({
    "--middleware quality_lib.serving.introspection.Introspection",
    "--worker-extension-cls quality_lib.serving.live_weights_worker.LiveWeights",
})
"""What only looks."""


def comparable(args: Iterable[str]) -> tuple[str, ...]:
    """Return ``--option value`` entries, sorted, without secrets and without places.

    ``--max_model_len 8`` and ``--max-model-len=8`` are the same to vLLM and so they are here.
    """
    options: list[list[str]] = []
    for arg in args:
        if arg.startswith("--"):
            name, sign, value = arg.partition("=")
            options.append([_option(name), value] if sign else [_option(name)])
        elif options:
            options[-1].append(arg)
        # What stands before the first option is the model's place (`vllm serve MODEL`).
    ignored = SECRET_OPTIONS | PLACE_OPTIONS
    entries = (" ".join(option) for option in options if option[0] not in ignored)
    return tuple(sorted(entry for entry in entries if entry not in OBSERVERS))


def args_sha256(args: Iterable[str]) -> str:
    """Return SHA-256 over the comparable form, so that another port is no other deployment."""
    return hashlib.sha256(canonical_json(list(comparable(args))).encode()).hexdigest()


def _option(name: str) -> str:
    return "--" + name.removeprefix("--").replace("_", "-")
