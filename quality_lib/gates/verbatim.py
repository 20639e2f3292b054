"""Where blanks carry meaning: code, tables, columns, indentation; elsewhere runs are shortened. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

WIDE_BLANKS = "\u00a0\u2000-\u200a\u202f\u205f\u3000"
"""Inside a character class: blanks that are not U+0020."""
BLANK = f"[ {WIDE_BLANKS}]"
_FENCE = re.compile(r"^[ \t]{0,12}(?:>[ \t]?)*(?P<mark>`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_HTML = re.compile(r"<(pre|code|textarea)\b[^<>]*>", re.IGNORECASE)
_HTML_END = {tag: re.compile(rf"</{tag}\s*>", re.IGNORECASE) for tag in ("pre", "code", "textarea")}
_MAX_RUNS = 64
"""Runs of backticks looked at for the one that closes another."""
_TICKS = re.compile(r"`+")
_INNER_RUN = re.compile(rf"(?<=\S){BLANK}{{2,}}(?=\S)")
_TRAILING = (
    " \t\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)
_TABLE = re.compile(r"[|\t\u2500-\u257f]")
_LOOKED_AT = 400
"""Lines, and characters of a line, that decide whether a text is code."""
_CODE_LINE = re.compile(
    r"(?:(?:def|class|if|elif|else|for|while|with|try|except|switch|case)\b.*:\s*$"
    r"|(?:import|from|package|using|return|var|let|const|public|private|func|fn)\b"
    r"|#(?:include|define|ifn?def|if|elif|else|endif|pragma)\b|//|/\*"
    r"|(?:SELECT|INSERT|UPDATE|DELETE|CREATE|FROM|WHERE|JOIN)\b"
    r"|.*[;{}]\s*$|</?\w[^>]*>\s*$|[\w.\[\]]+\s*[-+*/]?=\s*\S|\$ |>>> )"
)


def verbatim_spans(text: str) -> list[tuple[int, int]]:
    """Find code that is marked as such: fences, inline code and HTML; sorted, without overlap."""
    if "`" not in text and "~~~" not in text and "<" not in text:
        return []
    spans: list[tuple[int, int]] = []
    at = 0
    for start, end in _fences(text):
        spans += _inline(text, at, start)
        spans.append((start, end))
        at = end
    return spans + _inline(text, at, len(text))


def _fences(text: str) -> list[tuple[int, int]]:
    """A fence ends at a mark of its own kind that is at least as long, or with the text."""
    spans: list[tuple[int, int]] = []
    opened: tuple[int, str] | None = None
    for match in _FENCE.finditer(text):
        mark = match["mark"]
        if opened is None:
            if mark[0] == "`" and "`" in match.group().split(mark, 1)[1]:
                continue  # ```inline``` on one line is no fence
            opened = match.start(), mark
        elif mark.startswith(opened[1]) and match.group().strip("> \t") == mark:
            spans.append((opened[0], match.end()))
            opened = None
    if opened is not None:
        spans.append((opened[0], len(text)))
    return spans


def _inline(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """A run of backticks is closed by the next run of the same length, inside one paragraph."""
    spans: list[tuple[int, int]] = []
    at, paragraph = start, -1
    runs = [(m.start(), m.end()) for m in _TICKS.finditer(text, start, end)]
    index = 0
    while index < len(runs):
        opened = runs[index]
        if paragraph < opened[1]:
            found = text.find("\n\n", opened[1], end)
            paragraph = end if found < 0 else found
        close = _closing(runs, index, paragraph)
        if close is None:
            index += 1
            continue
        spans += _html(text, at, opened[0])
        spans.append((opened[0], runs[close][1]))
        at = runs[close][1]
        index = close + 1
    return spans + _html(text, at, end)


def _closing(runs: Sequence[tuple[int, int]], index: int, limit: int) -> int | None:
    length = runs[index][1] - runs[index][0]
    for number in range(index + 1, min(len(runs), index + _MAX_RUNS)):
        if runs[number][1] > limit:
            return None
        if runs[number][1] - runs[number][0] == length:
            return number
    return None


def _html(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Find HTML that keeps its blanks; a tag that is not closed is looked for once only."""
    if text.find("</", start, end) < 0:
        return []
    spans: list[tuple[int, int]] = []
    unclosed: set[str] = set()
    at = start
    for match in _HTML.finditer(text, start, end):
        tag = match[1].lower()
        if match.start() < at or tag in unclosed:
            continue
        closed = _HTML_END[tag].search(text, match.end(), end)
        if closed is None:
            unclosed.add(tag)
            continue
        at = closed.end()
        spans.append((match.start(), at))
    return spans


def looks_like_code(lines: Sequence[str]) -> bool:
    """Whether unmarked lines are mostly code: at least two of them, and a third of all."""
    written = [line for line in lines if line.strip()]
    if len(written) < 2:
        return False
    looked_at = written[:_LOOKED_AT]
    code = sum(_CODE_LINE.match(line.strip()[:_LOOKED_AT]) is not None for line in looked_at)
    return code >= 2 and code * 3 >= len(looked_at)


def without_blank_runs(text: str, tell: Callable[[str, int], None]) -> str:
    """Shorten runs of blanks and of empty lines in prose; ``tell`` hears kind and offset.

    Two blanks or more between words become one; blanks at line ends go; of several empty lines one
    stays. A single line has no indentation, so blanks before it go too.
    """
    spans = verbatim_spans(text)
    lines = text.split("\n")
    free, at_line = _by_line(lines, spans)
    if looks_like_code([line for line, is_free in zip(lines, free, strict=True) if is_free]):
        return text
    has_run = [
        is_free and _INNER_RUN.search(line) is not None
        for line, is_free in zip(lines, free, strict=True)
    ]
    out: list[str] = []
    offset = 0
    for number, line in enumerate(lines):
        new = line
        if free[number]:
            around = has_run[number - 1 : number] + has_run[number + 1 : number + 2]
            is_column = has_run[number] and any(around)
            keeps = is_column or line.startswith("    ") or _TABLE.search(line) is not None
            new = _line(line, at_line[number], keep_runs=keeps)
            if new != line:
                tell("blanks", offset)
            if not new and len(out) >= 1 and not out[-1] and free[number - 1]:
                tell("blanks", offset)
                offset += len(line) + 1
                continue
        out.append(new)
        offset += len(line) + 1
    return _edges(out, free, tell, len(text))


def _edges(out: list[str], free: list[bool], tell: Callable[[str, int], None], size: int) -> str:
    """Empty lines at the start go; at the end one line end may stay."""
    first = 0
    while free[0] and first < len(out) - 1 and not out[first]:
        first += 1
    if first:
        tell("blanks", 0)
    last = len(out)
    while free[-1] and last - first > 2 and not out[last - 1] and not out[last - 2]:
        last -= 1
    if last < len(out):
        tell("blanks", size)
    kept = out[first:last]
    if len(kept) <= 2 and not any(kept[1:]) and free[0]:
        shown = kept[0].lstrip()
        if shown != kept[0]:
            tell("blanks", 0)
        kept[0] = shown
    return "\n".join(kept)


def _by_line(
    lines: Sequence[str], spans: Sequence[tuple[int, int]]
) -> tuple[list[bool], list[Sequence[tuple[int, int]]]]:
    """Tell of each line whether it lies outside spans of several lines, and the spans inside it."""
    free = [True] * len(lines)
    inside: list[Sequence[tuple[int, int]]] = [()] * len(lines)
    offset, index = 0, 0
    for number, line in enumerate(lines):
        end = offset + len(line)
        while index < len(spans) and spans[index][1] <= offset:
            index += 1
        first = index
        while index < len(spans) and spans[index][1] <= end:
            index += 1
        # The next span may begin on this line and end on a later one, or lie around it.
        reaches_over = index < len(spans) and spans[index][0] <= end
        free[number] = not reaches_over and (first == index or spans[first][0] >= offset)
        inside[number] = [(a - offset, b - offset) for a, b in spans[first:index]]
        offset = end + 1
    return free, inside


def _line(line: str, inside: Sequence[tuple[int, int]], *, keep_runs: bool) -> str:
    """Clean one line; the code inside it stays, and so does its indentation."""
    if not inside or inside[-1][1] < len(line):
        line = line.rstrip(_TRAILING)
    if keep_runs:
        return line

    pieces: list[str] = []
    at = index = 0
    for match in _INNER_RUN.finditer(line):
        while index < len(inside) and inside[index][1] <= match.start():
            index += 1
        if index < len(inside) and inside[index][0] <= match.start():
            continue
        pieces += (line[at : match.start()], " " if " " in match.group() else match.group()[0])
        at = match.end()
    pieces.append(line[at:])
    return "".join(pieces)
