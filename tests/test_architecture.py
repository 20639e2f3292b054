"""The arrows that import-linter cannot see: DAG files, and what parsing them costs."""

from __future__ import annotations

import ast
import os
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


@pytest.mark.parametrize("file", DAGS, ids=lambda file: file.stem)
def test_parsing_a_dag_imports_no_heavy_library(file: Path) -> None:
    code = (
        f"import runpy, sys; runpy.run_path({str(file)!r});"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


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
