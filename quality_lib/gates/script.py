"""Level 4: pieces of another script where the caller asked for none. Pure.

The prompt decides: a script that it uses, or a language that it names, may appear. What stands in
brackets or quotes, or behind a colon, is a word that the answer speaks of and passes too.
"""

from __future__ import annotations

import re
from typing import Any

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, snippet, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.scripts_of import CJK, LATIN, ScriptRun, foreign_runs, letters_by_script
from quality_lib.records import Outcome, Verdict

_ANTHROPIC = "Anthropic post-mortem of September 2025"
REASONS = (
    Reason(
        "script_mix",
        Outcome.FAILED,
        "Pieces of other scripts stand inside the sentences, glued to words or again and again.",
        "gates.output.foreign_runs",
        f"{_ANTHROPIC}, sglang#1434, LMCache#4247, GLM-5#163",
    ),
    Reason(
        "script_stray",
        Outcome.SUSPECT,
        "A piece of another script stands inside a sentence.",
        "gates.output.foreign_runs",
        _ANTHROPIC,
    ),
    Reason(
        "script_switch",
        Outcome.FAILED,
        "The answer goes over to another script in the middle.",
        source="tensai#244, TGI#2106",
    ),
    Reason(
        "script_unasked",
        Outcome.SUSPECT,
        "The whole answer is in a script that neither the prompt nor a wish explains.",
        source="tensai#244",
    ),
)
_HEAD, _TAIL = 4_000, 8_000
_OPENERS = frozenset("([{<\"'“‘«‹「『【《〈（［:：;；—–-=/|*_>•·→~,、，.。!！?？\n\t`")
_CLOSERS = frozenset(")]}>\"'”’»›」』】》〉）］:：—–-=/|*_<`\n\t")
_SHOWN = frozenset(":：=→([（「『“\"'«*\n\t|–—>")
"""Behind one of these a word is shown, whatever follows."""
_SYMBOL = 2
"""Greek this short is a symbol: π, Δt, μm."""
_LONG = 24
"""Letters in a row of another script that are a passage and no word."""


def script(limits: OutputLimits, view: View) -> Gate:
    """Fail scripts that are mixed into an answer without a reason in the prompt."""

    def look(answer: AnswerView) -> Verdict | None:
        if answer.is_ascii:
            return _to_latin(answer)
        plain = answer.plain
        found = [r for r in foreign_runs(plain) if r.script != "Greek" or r.end - r.start > _SYMBOL]
        if not found:
            return _to_latin(answer)
        known = _scripts_of_prompt(answer) | answer.wishes.scripts
        counts = letters_by_script(plain, found)
        main = counts.most_common(1)[0][0]
        strange = [r for r in found if r.script not in known and r.script != main]
        if main != LATIN and main not in known:
            return _unasked(answer, main, counts[main], found) or _mixed(
                answer, strange, main, limits
            )
        return _mixed(answer, strange, main, limits) or _drift(answer, found, main)

    return output_gate("script", view, look, REASONS)


def _scripts_of_prompt(answer: AnswerView) -> frozenset[str]:
    asked = answer.asked
    if len(asked) > _HEAD + _TAIL:
        asked = asked[:_HEAD] + asked[-_TAIL:]
    return frozenset(run.script for run in foreign_runs(asked))


def _mixed(
    answer: AnswerView, strange: list[ScriptRun], main: str, limits: OutputLimits
) -> Verdict | None:
    if not strange:
        return None
    text = answer.plain
    long = [r for r in strange if r.end - r.start >= _LONG]
    loose = [r for r in strange if not _is_framed(text, r)]
    glued = [r for r in loose if _is_glued(text, r)]
    scripts = {r.script for r in loose}
    if not long and not loose:
        return None
    if answer.wishes.languages and not (len(glued) >= 3 and len(scripts) >= 3):
        return None
    at = (glued or loose or long)[0]
    evidence: dict[str, Any] = {
        "start": at.start,
        "piece": snippet(text[at.start : at.end]),
        "pieces": len(loose),
        "glued": len(glued),
        "scripts": sorted({r.script for r in strange}),
    }
    sentence = f"{len(loose)} piece(s) of {', '.join(evidence['scripts'])} in a text in {main}."
    letters = sum(r.end - r.start for r in strange)
    if (
        letters >= _LONG
        and (long or letters > 0.15 * len(text))
        and strange[0].start > 0.15 * len(text)
    ):
        return failed("script_switch", sentence, **evidence)
    if len(loose) >= limits.foreign_runs and (
        glued or len(scripts) >= 2 or len(loose) > limits.foreign_runs
    ):
        return failed("script_mix", sentence, **evidence)
    if loose or long:
        return suspect("script_stray", sentence, **evidence)
    return None


def _is_framed(text: str, run: ScriptRun) -> bool:
    """Whether a piece is shown as a word: in brackets or quotes, behind a colon, alone on a line."""
    before = text[max(0, run.start - 60) : run.start]
    if before.count("(") > before.count(")") or before.count("（") > before.count("）"):
        return True
    left = before.rstrip(" ")[-1:] or "\n"
    right = text[run.end : run.end + 40].lstrip(" ")[:1] or "\n"
    return left in _OPENERS and (right in _CLOSERS or left in _SHOWN)


def _is_glued(text: str, run: ScriptRun) -> bool:
    left, right = text[max(0, run.start - 1) : run.start], text[run.end : run.end + 1]
    return _is_latin(left) or _is_latin(right)


def _is_latin(character: str) -> bool:
    return character.isalpha() and character < "\u0250"


def _unasked(answer: AnswerView, main: str, letters: int, found: list[ScriptRun]) -> Verdict | None:
    latin = sum(map(str.isascii, answer.exchange.last_asked)) if answer.asked else 0
    if latin < 12 or letters < 12 or answer.wishes.languages:
        return None
    return suspect(
        "script_unasked",
        f"{letters} letters of {main}, which the prompt does not use.",
        script=main,
        letters=letters,
        start=found[0].start,
    )


_KANA = re.compile(r"[\u3041-\u30fa]")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_CHINESE = re.compile(r"[的了们這这在也是和吗呢说為为会對对]")
_LATIN_WORDS = re.compile(r"\b[a-z]{2,}\b")


def _drift(answer: AnswerView, found: list[ScriptRun], main: str) -> Verdict | None:
    """Find Japanese that goes on in Chinese, and other scripts that go on in Latin."""
    if main == CJK:
        verdict = _to_chinese(answer)
        if verdict is not None:
            return verdict
    return _to_latin(answer, found)


def _to_chinese(answer: AnswerView) -> Verdict | None:
    """Find Japanese that goes on in Chinese: no syllables any more, but Chinese particles."""
    text = answer.plain
    kana = list(_KANA.finditer(text))
    if len(kana) < 8 or (answer.wishes.languages and "翻" in answer.asked):
        return None
    last = kana[-1].end()
    tail = text[last:]
    han = len(_HAN.findall(tail))
    if len(kana) < 0.25 * last or han < _LONG // 2 or len(_CHINESE.findall(tail)) < 3:
        return None
    if "中国語" in answer.asked or "中文" in answer.asked:
        return None
    return failed("script_switch", "Japanese goes on in Chinese.", start=last, piece=snippet(tail))


def _to_latin(answer: AnswerView, found: list[ScriptRun] | None = None) -> Verdict | None:
    """Find an answer in the prompt's own script that goes on in Latin words."""
    if not found:
        return None
    prose = answer.prose
    last = found[-1].end
    tail = prose[last:]
    if last < 0.2 * len(prose) or len(tail) < 0.4 * len(prose) or answer.wishes.languages:
        return None
    if len(_LATIN_WORDS.findall(tail)) < 20 or answer.wishes.code:
        return None
    return suspect(
        "script_stray",
        "The answer goes on in Latin letters.",
        start=last,
        piece=snippet(tail),
        pieces=1,
        glued=0,
        scripts=[LATIN],
    )
