"""Parts of an answer that are no prose: code, tables, formulas, addresses, rulers. Pure.

Public detectors were switched off by their users because they took such parts for loops, so every
statistic of this package is taken over what is left when they are blanked out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(
    r"^[ \t>]*(```+|~~~+)([^\n`]*)\n(.*?)(?:^[ \t>]*\1|\Z)", re.DOTALL | re.MULTILINE
)
_INLINE_CODE = re.compile(r"`[^`\n]+`")
_TABLE_ROW = re.compile(r"^[ \t]*\|.*\|[ \t]*$", re.MULTILINE)
_LOOSE_ROW = re.compile(r"^.*\|.*$", re.MULTILINE)
_FORMULA = re.compile(
    # Bounded, so that a flood of opening marks stays cheap.
    r"\$\$.{1,2000}?\$\$|\$[^$\n]{1,200}\$|\\\(.{1,500}?\\\)|\\\[.{1,2000}?\\\]",
    re.DOTALL,
)
_ADDRESS = re.compile(r"https?://\S+")
_LINK_TARGET = re.compile(r"\]\([^()\s]*\)")
_RULER = re.compile(r"[-=_*~#.+|<>^/\\:·•–—─━═│┃║▀▄█░▒▓\s]+")
_CODE_START = re.compile(
    r"(?:def|class|import|from|return|if|elif|else|for|while|try|except|with|var|let|const|function|public|private|static|void|int|using"
    r"|namespace|package|func|fn|impl|struct|enum|interface|export|async|await|echo|sudo|apt|pip|npm|git|docker|curl|cd|SELECT|INSERT"
    r"|UPDATE|DELETE|CREATE|ALTER|DROP|FROM|WHERE|JOIN|VALUES|BEGIN|END)\b.*[(){}\[\];:=\\,'\"]"
    r"|(?:import|from)\s+[\w.]+(?:\s+import\s.*|\s+as\s+\w+)?$"
    r"|[\w.\[\],]+(?: [\w.\[\],]+){0,2} ?[-+*/|:]?= ?\S|\.\. [\w-]+::|[#$>%]{1,3} \S|//|/\*|\*/|@\w+|<[/!?\w][^>]*>"
    r"|[\"']?[\w.-]+[\"']?\s*[:=]\s*[\"'\[{\d]"
)
_CODE_ENDS = (";", "{", "}", "};", "),", "],", "},", "\\")
_LAID_OUT = re.compile(
    r"(?:\t| {2,})\S|[-*+#.;:<>\[({\"'/$|@%\\~^&\d}]|[\w./+-]{1,40}(?:[ \t]*[:=]|[ \t]{2,}|\t|$)|[A-Z][A-Z0-9_-]+ |\S+(?: \S+)?$|.*[;{}\\]$"
)
"""How lines start that are no sentences: indented, with a mark, number, key or column, or of one word."""
_FEW_LINES = 3
_LINE_START = 80
"""Characters of a line that are looked at; a longer line is prose or data anyway."""


@dataclass(frozen=True)
class Fence:
    """A fenced block of code."""

    language: str
    """As written behind the marks, lower case; empty when nothing was."""
    code: str
    start: int
    """Offset of the code in the answer."""
    closed: bool
    outer: tuple[int, int]
    """Where it starts and ends with its marks."""


def fences(text: str) -> tuple[Fence, ...]:
    """Return the fenced blocks; one that is not closed reaches to the end."""
    # One mark is looked for many times faster than three.
    if ("`" not in text or "```" not in text) and ("~" not in text or "~~~" not in text):
        return ()
    return tuple(
        Fence(
            (m[2].split() or [""])[0].lower(),
            m[3],
            m.start(3),
            m.end() > m.end(3),
            m.span(),
        )
        for m in _FENCE.finditer(text)
    )


def blanked(text: str, blocks: tuple[Fence, ...]) -> str:
    """Blank out fenced code; every offset stays."""
    if not blocks:
        return text
    parts: list[str] = []
    at = 0
    for block in blocks:
        start, end = block.outer
        parts += (text[at:start], _blanks(text[start:end]))
        at = end
    return "".join((*parts, text[at:]))


def without_inline_code(text: str) -> str:
    """Blank out code inside a line; every offset stays."""
    return _INLINE_CODE.sub(_blank, text) if "`" in text else text


def prose_of(text: str) -> str:
    """Blank out all beside code that is no prose; every offset and every line end stays."""
    if "|" in text:
        # Rows without outer bars are rows only below a head with its line of dashes.
        has_head = "-|-" in text or "- | -" in text or "-+-" in text
        text = (_LOOSE_ROW if has_head else _TABLE_ROW).sub(_blank, text)
    if "$" in text or "\\" in text:
        text = _FORMULA.sub(_blank, text)
    if "://" in text:
        text = _ADDRESS.sub(_blank, text)
    if "]" in text and "](" in text:
        text = _LINK_TARGET.sub(_blank, text)
    return text


def is_ruler(unit: str) -> bool:
    """Whether a repeated unit only draws: dividers, leaders, boxes, borders of tables."""
    return _RULER.fullmatch(unit) is not None


def is_short_lined(text: str) -> bool:
    """Whether it is a list, a table, a poem or a log rather than paragraphs."""
    lines = [len(line) for line in text.splitlines() if line and not line.isspace()]
    return len(lines) >= 3 and sum(lines) / len(lines) < 50


def is_laid_out(text: str) -> bool:
    """Whether most lines open or end as those of logs, listings, configuration and change logs do."""
    lines = [line for line in text.splitlines() if line.strip()]
    laid = sum(_LAID_OUT.match(line[:_LINE_START]) is not None for line in lines)
    return len(lines) >= _FEW_LINES and laid >= 0.6 * len(lines)


def code_line_share(text: str) -> float:
    """Return the share of non-blank lines that look like code, data or a log."""
    lines = [line for line in text.splitlines() if line.strip()]
    return sum(map(_is_code_line, lines)) / max(1, len(lines))


def without_code_lines(text: str) -> str:
    """Drop the lines that look like code, data or a log."""
    return "\n".join(line for line in text.splitlines() if not _is_code_line(line))


def _is_code_line(line: str) -> bool:
    start = line.strip()
    if (line[:1] == "\t" or len(line) - len(line.lstrip()) >= 4) and len(start) < 2 * _LINE_START:
        return True
    if len(start) < 4 * _LINE_START and start.endswith(_CODE_ENDS):
        return True
    if start.count(",") >= 2 and " " not in start and len(start) < _LINE_START:
        return True
    if start[:1] in "([" and start[-1:] in ")],":
        return True
    if len(start) < _LINE_START and start[-1:] == ")" and " " not in start.split("(", 1)[0]:
        return True
    return len(start) < 4 * _LINE_START and _CODE_START.match(start[:_LINE_START]) is not None


def _blank(match: re.Match[str]) -> str:
    return _blanks(match[0])


def _blanks(text: str) -> str:
    lines = text.split("\n")
    return " " * len(lines[0]) if len(lines) == 1 else "\n".join(" " * len(line) for line in lines)
