"""Code in an answer: its blocks, and whether they parse. Pure.

Python is parsed by Python itself and JSON by its own parser. Other languages are parsed by
tree-sitter where a grammar is installed as a package; none is ever fetched over the network.
"""

from __future__ import annotations

import ast
import importlib
import json
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from quality_lib.gates.layout import fences

Problem = Callable[[str], str | None]
"""Says what is wrong with a piece of code; None when it parses."""

_NAMES = {
    "py": "python",
    "python3": "python",
    "py3": "python",
    "js": "javascript",
    "jsx": "javascript",
    "node": "javascript",
    "sh": "bash",
    "shell": "bash",
    "zsh": "bash",
    "c++": "cpp",
    "cxx": "cpp",
    "golang": "go",
    "rs": "rust",
    "ts": "typescript",
    "mjs": "javascript",
    "h": "c",
    "hpp": "cpp",
    "cc": "cpp",
}
_GRAMMARS = frozenset({
    "javascript",
    "bash",
    "c",
    "cpp",
    "go",
    "java",
    "rust",
    "python",
    "typescript",
})
"""Languages whose grammar packages are all called ``tree_sitter_<language>``."""


def language_of(name: str) -> str:
    """Return one name for all spellings of a language."""
    lowered = name.strip().lower()
    return _NAMES.get(lowered, lowered)


def code_blocks(text: str, language: str) -> list[str]:
    """Take the fenced blocks of a language, those without a name included, or the bare text."""
    found = fences(text)
    if not found:
        return [text] if text.strip() else []
    wanted = {"", language}
    return [f.code for f in found if language_of(f.language) in wanted and f.code.strip()]


def parser_of(language: str) -> Problem | None:
    """Return what parses a language; None when nothing here does."""
    if language == "python":
        return _python_problem
    if language == "json":
        return _json_problem
    return _grammar_problem(language) if language in _GRAMMARS else None


def lenient_parser_of(language: str) -> Problem | None:
    """Return the parser that objects to the least: Python must fail its grammar as well as its parser.

    The grammar also takes Python 2 and, on code that parses, is several times faster.
    """
    strict = parser_of(language)
    grammar = _grammar_problem(language) if language == "python" else None
    if strict is None or grammar is None:
        return strict

    def problem_of(code: str) -> str | None:
        return strict(code) if grammar(code) is not None else None

    return problem_of


def whole_lines(code: str, problem_of: Problem, most: int = 60) -> int | None:
    """Return how many lines must go from the end of cut code until it parses; None when none helps."""
    lines = code.splitlines()
    for dropped in range(1, min(len(lines), most)):
        head = "\n".join(lines[:-dropped])
        if head.strip() and problem_of(head) is None:
            return dropped
    return None


def _python_problem(code: str) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return str(error)
    return None


def _json_problem(code: str) -> str | None:
    try:
        json.loads(code)
    except (ValueError, RecursionError) as error:
        return str(error)
    return None


@cache
def _grammar_problem(language: str) -> Problem | None:
    try:
        tree_sitter: Any = importlib.import_module("tree_sitter")
        grammar: Any = importlib.import_module(f"tree_sitter_{language}")
        make = getattr(grammar, f"language_{language}", None) or grammar.language
        known = tree_sitter.Language(make())
        tree_sitter.Parser(known)
    except (ImportError, AttributeError, ValueError, TypeError):
        return None

    def problem_of(code: str) -> str | None:
        # A parser of its own for every call, for gates run in several threads.
        root = tree_sitter.Parser(known).parse(code.encode("utf-8", "replace")).root_node
        if not root.has_error:
            return None
        fault = _first_fault(root)
        line = fault.start_point[0] + 1 if fault is not None else 1
        return f"does not parse from line {line} on"

    return problem_of


def _first_fault(node: Any) -> Any:
    """Find the first node that the grammar could not place."""
    while True:
        if node.type == "ERROR" or node.is_missing:
            return node
        inside = [child for child in node.children if child.has_error or child.is_missing]
        if not inside:
            return None
        node = inside[0]
