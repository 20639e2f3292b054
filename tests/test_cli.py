"""Exit codes of the real command: what scripts and DAGs branch on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.in_process import QualityHere


def quality(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quality_lib", *args],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


def test_help_teaches_the_exit_codes(quality_here: QualityHere) -> None:
    done = quality_here("--help")
    assert done.returncode == 0
    for words in (
        "0 good",
        "1 bad quality",
        "2 wrong use",
        "3 something outside",
        "4 inconclusive",
    ):
        assert words in " ".join(done.stdout.split()).replace("│", ""), words


@pytest.mark.parametrize(
    "args",
    [("nonsense",), ("golden", "run"), ("golden", "validate", "--nope"), ("weights", "diff")],
)
def test_wrong_use_ends_with_2_and_without_a_traceback(
    quality_here: QualityHere, args: tuple[str, ...]
) -> None:
    done = quality_here(*args)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_mismatch_ends_with_1(tmp_path: Path) -> None:
    """``typer.Exit`` raised inside a command must reach the shell."""
    for name, byte in (("a", b"\x00"), ("b", b"\x01")):
        folder = tmp_path / name
        folder.mkdir()
        header = b'{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
        (folder / "model.safetensors").write_bytes(
            len(header).to_bytes(8, "little") + header + byte
        )
    assert quality("weights", "diff", str(tmp_path / "a"), str(tmp_path / "b")).returncode == 1


def test_a_defect_of_our_own_is_not_bad_quality(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from quality_lib import cli\n"
        "@cli.app.command('explode')\n"
        "def explode(): raise ZeroDivisionError('boom')\n"
        "sys.argv = ['quality', 'explode']\n"
        "cli.main()\n"
    )
    done = python(code)
    assert done.returncode == 3
    assert "boom" in done.stderr
    assert "defect" in done.stderr


def test_a_command_imports_its_own_group_alone() -> None:
    """A DAG starts a dozen commands; each import that it does not need is paid every time."""
    script = (
        "import sys\n"
        "sys.argv = ['quality', 'weights', '--help']\n"
        "from quality_lib.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        "print(sorted(n for n in sys.modules if n.startswith('quality_lib.commands.')))\n"
    )
    done = python(script)
    assert done.returncode == 0
    loaded = done.stdout.splitlines()[-1]
    assert "quality_lib.commands.weights" in loaded
    assert "quality_lib.commands.golden" not in loaded
    assert "quality_lib.commands.check'" not in loaded


def test_a_slip_of_the_pen_is_met_with_the_right_name(quality_here: QualityHere) -> None:
    done = quality_here("chekc")
    assert done.returncode == 2
    assert "Did you mean 'check'" in done.stderr
