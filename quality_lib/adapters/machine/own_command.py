"""Runs a command of this library as a process of its own, as a user or a DAG would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quality_lib.errors import EXIT_BAD_QUALITY, EXIT_GOOD, OutsideFailure

TIMEOUT_S = 600.0


def run_quality(*arguments: str, config: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return what ``quality ARGUMENTS --config CONFIG --json`` prints, of good and of bad quality.

    Raises:
        OutsideFailure: it could judge nothing; with the last lines it said.
    """
    command = [sys.executable, "-m", "quality_lib", *arguments, "--config", str(config), "--json"]
    name = f"quality {' '.join(arguments[:2])}"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, **env},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OutsideFailure(f"{name} was not done after {TIMEOUT_S:.0f} s") from error
    if done.returncode not in {EXIT_GOOD, EXIT_BAD_QUALITY}:
        said = "\n".join((done.stderr or done.stdout).splitlines()[-10:])
        raise OutsideFailure(f"{name} ended with exit code {done.returncode}: {said}")
    return dict(json.loads(done.stdout))
