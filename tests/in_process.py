"""The command ``quality`` in this process: its own entry point, without the seconds of a start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from quality_lib import cli

QualityHere = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def quality_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> QualityHere:
    """Run ``quality`` with arguments; for tests in which the process itself is not the point."""

    def run(*args: object) -> subprocess.CompletedProcess[str]:
        words = [str(arg) for arg in args]
        monkeypatch.setattr(sys, "argv", ["quality", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        code = ended.value.code
        return subprocess.CompletedProcess(words, code if isinstance(code, int) else 1, out, err)

    return run
