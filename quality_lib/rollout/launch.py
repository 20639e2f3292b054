"""From the arguments that a server was seen with to those that start it again. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from quality_lib.errors import BadInput
from quality_lib.snapshots.arguments import PLACE_OPTIONS, SECRET_OPTIONS

MASK = "***"
"""What stands in a recorded argument list where a secret was."""

_OURS = PLACE_OPTIONS | SECRET_OPTIONS
_INTROSPECTION = "quality_lib.serving.introspection.Introspection"


def launch_args(recorded: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments without places, names and keys, which the engine sets itself.

    The model's place before the first option and the introspection middleware go too.

    Raises:
        BadInput: a secret that the engine does not set was masked, so the list cannot be used.
    """
    kept: list[str] = []
    option: list[str] = []
    for arg in recorded:
        if arg.startswith("--"):
            kept += _own(option)
            option = [arg]
        elif option:
            option.append(arg)
    kept += _own(option)
    for arg in kept:
        if MASK in arg:
            raise BadInput(
                f"the argument '{arg}' was recorded without its secret, so nothing can be started "
                "with it",
                fix="pass the secret through the server's environment and register a new snapshot",
            )
    return tuple(kept)


def _own(option: list[str]) -> list[str]:
    if not option:
        return []
    name, sign, value = option[0].partition("=")
    if "--" + name.removeprefix("--").replace("_", "-") in _OURS:
        return []
    if name == "--middleware" and (value if sign else "".join(option[1:])) == _INTROSPECTION:
        return []
    return option
