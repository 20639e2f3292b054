"""The arrows that import-linter cannot see: DAG files, and what parsing them costs."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DAGS = sorted((ROOT / "dags").glob("*.py"))
MAY_IMPORT = {"airflow", "pendulum", "datetime", "quality_airflow"}
HEAVY = (
    "torch", "transformers", "sentence_transformers", "mlflow", "pandas", "pyarrow", "boto3",
    "safetensors", "matplotlib", "vllm", "scipy", "kubernetes", "quality_lib.commands",
    "quality_lib.wiring", "airflow.providers.http.hooks.http",
)  # fmt: skip


def imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("file", DAGS, ids=lambda file: file.stem)
def test_a_dag_file_declares_and_imports_nothing_else(file: Path) -> None:
    assert imported(file) <= MAY_IMPORT


def test_parsing_the_dags_imports_no_heavy_library() -> None:
    code = (
        "import json, runpy, sys\n"
        "found = {}\n"
        f"for file in {[str(file) for file in DAGS]!r}:\n"
        "    runpy.run_path(file)\n"
        f"    found[file] = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print(json.dumps(found))\n"
    )
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    # All are parsed in one process, so the first that is named is the one that has imported it.
    assert json.loads(done.stdout.splitlines()[-1]) == {str(file): [] for file in DAGS}


def test_no_pattern_repeats_a_group_without_going_back() -> None:
    """Python before 3.11.5 matches possessive groups and atomic ones wrongly (gh-106052); Debian 12 has 3.11.2."""
    wrong = re.compile(r"\)(?:[*+?]|\{\d+(?:,\d*)?\})\+|\(\?>")
    assert wrong.search(r"(?:ab)*+") and wrong.search(r"(?>ab)")
    assert not wrong.search(r"[ab]{1,64}+(?:c)+d*+")
    files = [*(ROOT / "quality_lib").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]
    found = {
        f"{file.relative_to(ROOT)}:{number}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if wrong.search(line)
    }
    assert not found


def test_only_the_package_speaks_to_the_command_line() -> None:
    package = ROOT / "plugins/quality_airflow"
    for file in package.glob("*.py"):
        lazy = "settings" in file.read_text(encoding="utf-8")
        top = {
            node.module
            for node in ast.parse(file.read_text(encoding="utf-8")).body
            if isinstance(node, ast.ImportFrom)
        }
        assert not lazy or "quality_lib.settings" not in top, file
