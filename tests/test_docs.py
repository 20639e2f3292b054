"""What README, ARCHITECTURE and the pages name exists: paths, links, commands, make targets."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import typer.main

from quality_lib.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.*-]*|[\w-]+\.(?:md|toml|yaml|txt|json))`")
LINK = re.compile(r"\]\(([^)#:]+)\)")
COMMAND = re.compile(r"\bquality ((?:[a-z-]+ ?)+)")
INSIDE = ("quality_lib", "dags", "plugins", "tests", "docker", "docs", "design", "bench", "scripts")


def is_made_by_users(path: str) -> bool:
    """Whether git ignores it: secrets, environment files, overrides."""
    command = ["git", "-C", str(ROOT), "check-ignore", "--quiet", path]
    return subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_and_links_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = {p for p in PATH.findall(text) if p.split("/")[0] in INSIDE}
    paths = {p.replace("NNN-title.md", "") for p in paths}
    missing = [p for p in sorted(paths) if not (ROOT / p).exists() and not is_made_by_users(p)]
    links = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert (missing, links) == ([], [])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    root = typer.main.get_command(app)
    for words in COMMAND.findall(page.read_text(encoding="utf-8")):
        names = words.split()
        group = getattr(root, "commands", {}).get(names[0])
        if group is None:
            # Prose such as "quality baseline"; a command in code always names a group.
            continue
        if len(names) > 1 and hasattr(group, "commands"):
            assert names[1] in group.commands, f"{page.name}: quality {words}"


def test_every_command_in_a_code_block_starts_with_a_known_group() -> None:
    known = set(getattr(typer.main.get_command(app), "commands", {}))
    for page in PAGES:
        for line in re.findall(r"^\$ (?:\.venv/bin/)?quality (\S+)", page.read_text("utf-8"), re.M):
            assert line in known, f"{page.name}: quality {line}"


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for page in PAGES:
        code = re.findall(r"`make ([a-z]+)|^\$ make ([a-z]+)", page.read_text("utf-8"), re.M)
        for target in filter(None, (a or b for a, b in code)):
            assert target in targets, f"{page.name}: make {target}"
