"""Watches the text of a stream: loops, blanks, broken characters, markers, doubled words. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from quality_lib.gates.stream_limits import StreamLimits
from quality_lib.gates.stream_loop import LoopNeeds, closing_loop
from quality_lib.records import Outcome, Verdict

STEP = 64
"""Characters between two looks: what a look costs is shared by so many."""
TAIL = 8192
"""Characters that are remembered."""
WINDOW_WORDS = 64
BROKEN_WINDOW = 200
MARKER_WINDOW = 400

_MARKER = re.compile(
    r"<pad>|<\|?(?:unused|reserved|extra_id|placeholder)[\w-]*\d\|?>|\[PAD\]|\[unused\d+\]|<unk>"
    r"|<\|endoftext\|>|<\|(?:end|begin)_of_text\|>",
    re.I,
)


class TextWatch:
    """Judges text as it grows; remembers a bounded tail and whether a code fence is open."""

    def __init__(self, limits: StreamLimits, asked: str = "") -> None:
        self._limits = limits
        self._needs = LoopNeeds(limits, asked)
        self._asked = asked
        self._tail = ""
        self._line = ""
        self._fence = ""
        self._blanks = 0
        self._unchecked_words = 0
        self.replaced = 0
        """U+FFFD characters seen."""
        self._blank_run = re.compile(rf"\s{{{limits.whitespace_run}}}")

    def add(self, new: str) -> Iterator[Verdict]:
        """Take new text and judge the end of what there is now."""
        self._remember(new)
        yield from self._blank(new)
        yield from self._loop()
        if "\ufffd" in new:
            self.replaced += new.count("\ufffd")
            yield from self._broken()
        if ("<" in new or "[" in new or ">" in new or "]" in new) and not self._fence:
            yield from self._markers()
        self._unchecked_words += len(new)
        if self._unchecked_words >= 4 * STEP:
            yield from self.doubled_words()

    def _remember(self, new: str) -> None:
        """Append; a fence that opens or closes makes everything before it past."""
        since = 0
        if "`" in new or "~" in new or "`" in self._line or "~" in self._line:
            start = 0
            while (end := new.find("\n", start)) >= 0:
                if self._toggles((self._line + new[start:end]).strip()):
                    since = end + 1
                self._line, start = "", end + 1
            self._line = (self._line + new[start:])[:80]
        else:
            end = new.rfind("\n")
            self._line = (self._line + new if end < 0 else new[end + 1 :])[:80]
        self._tail = new[since:][-TAIL:] if since else (self._tail + new)[-TAIL:]

    def _toggles(self, line: str) -> bool:
        if self._fence:
            if line.startswith(self._fence) and not line.strip(self._fence[0]):
                self._fence = ""
                return True
            return False
        if line.startswith(("```", "~~~")):
            sign = line[0]
            length = len(line) - len(line.lstrip(sign))
            # A fence's info holds no fence sign: "```code```" is inline code.
            if sign not in line[length:] and (sign == "`" or length == 3):
                self._fence = sign * length
                return True
        return False

    def _blank(self, new: str) -> Iterator[Verdict]:
        limit = self._limits.whitespace_run
        rest = new.lstrip()
        run = self._blanks + len(new) - len(rest)
        self._blanks = run if not rest else len(new) - len(new.rstrip())
        if run >= limit or (len(new) >= limit and self._blank_run.search(new)):
            yield Verdict(
                Outcome.FAILED,
                "stream_whitespace",
                f"At least {limit} whitespace characters in a row.",
                {"limit": limit, "bound": "constant"},
            )

    def _loop(self) -> Iterator[Verdict]:
        need = self._needs.lenient if self._fence else self._needs.of
        found = closing_loop(self._tail, need, self._limits.max_period_characters)
        if found is None:
            return
        run, wanted = found
        is_lenient = wanted.kind == "lenient"
        yield Verdict(
            Outcome.SUSPECT if is_lenient else Outcome.FAILED,
            "stream_loop_in_code" if is_lenient else "stream_loop",
            f"A unit of {len(run.unit)} characters comes {run.copies} times in a row.",
            {
                "unit": run.unit[:80],
                "period": len(run.unit),
                "repeats": run.copies,
                "characters": run.length,
                "kind": wanted.kind,
                "bound": "constant",
            },
        )

    def _broken(self) -> Iterator[Verdict]:
        # The last one may be a character that is still coming, or was cut.
        count = self._tail[-BROKEN_WINDOW:-1].count("\ufffd")
        if count >= self._limits.replacement_characters and "\ufffd" not in self._asked:
            yield Verdict(
                Outcome.FAILED,
                "stream_broken_characters",
                f"{count} of the last {BROKEN_WINDOW} characters are U+FFFD: the tokens do not form text.",
                {"count": count, "limit": self._limits.replacement_characters, "bound": "constant"},
            )

    def _markers(self) -> Iterator[Verdict]:
        found = _MARKER.findall(self._tail[-MARKER_WINDOW:])
        if len(found) >= self._limits.suspicious_run and not all(m in self._asked for m in found):
            yield Verdict(
                Outcome.FAILED,
                "stream_suspicious_tokens",
                f"{len(found)} control markers such as {found[-1]} within {MARKER_WINDOW} characters.",
                {"markers": sorted(set(found))[:8], "count": len(found), "bound": "constant"},
            )

    def doubled_words(self) -> Iterator[Verdict]:
        """Judge the last words: many different ones that each come exactly twice."""
        self._unchecked_words = 0
        words = self._tail[-12 * WINDOW_WORDS :].split()[1:][-WINDOW_WORDS:]
        pairs = doubled(words)
        pairs = {word for word in pairs if any(map(str.isalpha, word))}
        if len(pairs) >= self._limits.stutter_pairs and not self._fence:
            yield Verdict(
                Outcome.FAILED,
                "stream_stutter",
                f"{len(pairs)} different words of the last {len(words)} come exactly twice in a row.",
                {"pairs": len(pairs), "window": len(words), "of": "words", "bound": "constant"},
            )


def doubled(items: list[str]) -> set[str]:
    """Return the items that come exactly twice in a row somewhere."""
    last = len(items) - 1
    return {
        item
        for i, item in enumerate(items)
        if i
        and items[i - 1] == item
        and (i < 2 or items[i - 2] != item)
        and (i == last or items[i + 1] != item)
    }
