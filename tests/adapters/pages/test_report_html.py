from __future__ import annotations

import html
import math
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from quality_lib.adapters.pages.report_html import render_report
from quality_lib.golden.comparison import Statistic
from quality_lib.golden.drift_record import DriftReason, DriftStep
from quality_lib.golden.result import GoldenResult
from quality_lib.records import Outcome, Summary, Tri
from tests.builders import (
    RUN_ID,
    case_comparison,
    comparison,
    drift_record,
    finding,
    golden_result,
    golden_verdict,
    healthy_findings,
    reason,
    startup_verdict,
    trend,
    trend_point,
)

HOSTILE = (
    "</div></main><script>alert(1)</script><img src=x onerror=alert(2)><style>*{display:none}</style>"
    "<!-- --> ]]> {{ 7*7 }} {% raw %} &amp; \x00\x1b[31m \u202e \ud800 \ufffd \u2028 'quoted\" "
)
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """What a browser would see: elements, visible text and whether all elements are closed."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def with_case(**changes: object) -> GoldenResult:
    case = case_comparison("bad-case", **changes)
    return golden_result(
        verdict=golden_verdict(Summary.FAILED, reasons=(reason(),), worst_cases=("bad-case",)),
        comparison=comparison(cases=(case, case_comparison("good-case"))),
    )


def page_of(result: GoldenResult, runs: int = 0) -> Page:
    page = Page(render_report(result, trend(runs)))
    assert page.open == []
    return page


@pytest.mark.parametrize("summary", list(Summary))
def test_each_verdict_has_its_word_its_colour_and_its_symbol(summary: Summary) -> None:
    page = page_of(golden_result(verdict=golden_verdict(summary)))
    assert f"chat is {summary.value}" in page.text
    assert ("class", f"card headline {summary.value}") in page.attributes
    assert ("class", f"icon {summary.value}") in page.attributes


@pytest.mark.parametrize("changed", list(Tri))
def test_changed_is_told_apart_from_the_summary(changed: Tri) -> None:
    page = page_of(golden_result(verdict=golden_verdict(changed=changed)))
    assert f"Changed against the snapshot: {changed.value}" in page.text
    assert "chat is healthy" in page.text


def test_inconclusive_never_reads_as_good_or_bad() -> None:
    verdict = golden_verdict(Summary.INCONCLUSIVE)
    result = golden_result(
        verdict=verdict, comparison=comparison(mean_similarity=None, cases=(), findings=())
    )
    text = page_of(result).text
    assert "not enough data for a verdict" in text
    assert "server and the network first" in text
    assert "No case could be compared" in text
    assert "Nothing to do" not in text


def test_a_bad_verdict_names_reasons_place_and_next_command() -> None:
    verdict = golden_verdict(Summary.FAILED, reasons=(reason(),), suspected="the sampler")
    text = page_of(golden_result(service="chat two", verdict=verdict)).text
    assert "mean similarity 0.212 is below 0.8 similarity_below_failed_floor" in text
    assert "Where it probably sits the sampler" in text
    assert "quality snapshot verify serving --service 'chat two'" in text


def test_without_a_calibration_the_report_says_so() -> None:
    text = page_of(golden_result()).text
    assert "Uncalibrated: bands, no stated false-alarm rate" in text


def test_the_decision_shows_layer_evidence_budget_and_place() -> None:
    recheck = DriftStep("again", 16, "cold", Tri.YES, "L2", 58.0)
    drift = drift_record(
        changed=Tri.YES,
        layer="L2",
        e_value=58.25,
        level=200_000.0,
        suspected="the forward pass",
        steps=(*drift_record().steps, recheck),
        reasons=(DriftReason("evidence", HOSTILE),),
        state_from=HOSTILE,
        is_watched=True,
        endpoints=10,
    )
    page = page_of(golden_result(drift=drift))
    assert "script" not in page.tags
    for words in (
        "L2, evidence over hours",
        "58.25",
        "2e+05, alarm from 1.752e+05",
        "at most 0.1 a year and endpoint, shared by 10 endpoints",
        "240 healthy checks over 4 server starts",
        "the forward pass",
        "16 at once, cache cold: changed yes, e-value 58",
        "Watch line crossed",
    ):
        assert words in page.text


def test_another_engine_is_told_as_advice() -> None:
    verdict = golden_verdict(changed=Tri.YES, needs_calibration=True)
    text = page_of(golden_result(verdict=verdict)).text
    assert "another engine or host" in text
    assert "quality golden baseline --service chat" in text


def test_worst_case_shows_both_texts_with_the_difference_marked() -> None:
    result = with_case(
        similarity=0.61,
        logprob_delta=0.25,
        failed_checks=("json_unparsable",),
        critical_failed=True,
        baseline_text="The capital is Paris.",
        current_text="The capital is Rome.",
    )
    source = render_report(result, [])
    assert "The capital is <del>Paris</del>." in source
    assert "The capital is <ins>Rome</ins>." in source
    text = Page(source).text
    assert "0.610" in text
    assert "0.2500" in text
    assert "json_unparsable" in text
    assert "critical case" in text
    assert "good-case" not in text


def test_no_worst_case_is_said_in_words() -> None:
    assert "No case stands out." in page_of(golden_result()).text


def test_a_missing_answer_says_why() -> None:
    text = page_of(with_case(missing="HTTP 500: out of memory", current_text="")).text
    assert "No answer: HTTP 500: out of memory" in text
    assert "(empty)" in text


def test_a_worst_case_without_details_does_not_stop_the_report() -> None:
    verdict = golden_verdict(Summary.DEGRADED, worst_cases=("gone",))
    assert "gone The result holds no details" in page_of(golden_result(verdict=verdict)).text


def test_hostile_text_stays_text_wherever_it_comes_from() -> None:
    result = replace(
        with_case(
            prompt=HOSTILE,
            baseline_text=HOSTILE,
            current_text=HOSTILE + "more",
            missing=HOSTILE,
            failed_checks=(HOSTILE,),
        ),
        service=HOSTILE,
        model=HOSTILE,
        endpoint=HOSTILE,
        run_id=HOSTILE,
        snapshot_id=HOSTILE,
        started_at=HOSTILE,
        deployment_key=HOSTILE,
        environment={HOSTILE: HOSTILE},
        startup=(startup_verdict(HOSTILE, sentence=HOSTILE),),
        tokens={HOSTILE: 1},
    )
    result = replace(
        result,
        verdict=replace(result.verdict, suspected=HOSTILE, reasons=(reason(sentence=HOSTILE),)),
        comparison=replace(
            result.comparison,
            findings=(finding(sentence=HOSTILE, outcome=Outcome.UNJUDGED),),
            baseline_run_ids=(HOSTILE,),
            golden_digest=HOSTILE,
        ),
    )
    source = render_report(result, trend(5))
    source.encode()
    page = Page(source)
    assert page.open == []
    assert {"script", "img", "link", "iframe"}.isdisjoint(page.tags)
    assert page.tags.count("style") == 1
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in page.text
    assert not re.search(r"[\x00\x1b\u202e\u2028\ud800]", source)
    assert "⟨U+202E⟩" in source


def test_start_up_facts_say_what_was_found_or_why_not() -> None:
    facts = (
        startup_verdict("vllm_version", expected="0.32.0"),
        startup_verdict("adapters", expected=()),
        startup_verdict("args", Outcome.FAILED, sentence="args: the server has --dtype half"),
        startup_verdict("dtype", Outcome.UNJUDGED, sentence="dtype: could not be observed"),
    )
    text = page_of(golden_result(startup=facts)).text
    assert "vllm_version as recorded 0.32.0" in text
    assert "adapters as recorded none" in text
    assert "args differs the server has --dtype half" in text
    assert "dtype not judged could not be observed" in text
    assert "start-up check was not made" in page_of(golden_result(startup=())).text


def test_the_file_needs_nothing_from_outside() -> None:
    source = render_report(golden_result(), trend(10))
    outside = re.findall(r"""(?:src|href)="(?!\#)[^"]*"|url\((?!\#)|@import""", source)
    assert outside == []
    assert "<script" not in source


def test_infinite_zero_and_unknown_values_are_shown_as_what_they_are() -> None:
    scored = {"statistic": Statistic.LOGPROB_DELTA, "limit": 0.05, "healthy": 0.0}
    findings = (
        finding(**scored, value=math.inf, outcome=Outcome.FAILED),
        finding(**scored, value=0.0),
        finding(value=None, healthy=None, limit=None, cases=0, outcome=Outcome.UNJUDGED),
        finding(value=0.5, limit=0.9, healthy=0.95, outcome=Outcome.FAILED),
    )
    source = render_report(golden_result(comparison=comparison(findings=findings)), [])
    assert re.findall(r'data-label="Value">([^<]*)<', source) == ["∞", "0", "–", "0.500"]
    assert re.findall(r"--at: ([\d.]+)", source) == ["1.0", "0.0", "0.9"]
    assert "not judged" in source
    assert not re.search(r">\s*(nan|inf|None)\b", source)


@pytest.mark.parametrize(
    ("value", "position"), [(0.996, "0.0"), (0.986, "0.5"), (1.0, "0.0"), (0.966, "0.75")]
)
def test_a_bar_is_half_way_at_the_limit(value: float, position: str) -> None:
    row = finding(value=value, healthy=0.996, limit=0.986)
    source = render_report(golden_result(comparison=comparison(findings=(row,))), [])
    assert re.findall(r"--at: ([\d.]+)", source) == [position]


def test_below_the_band_by_too_few_cases_is_neither_within_nor_outside() -> None:
    told = "similarity (long context): 0.000 over 2 cases, 2 lower than ever in health"
    row = finding(value=0.0, healthy=1.0, limit=0.98, cases=2, sentence=told)
    page = page_of(golden_result(comparison=comparison(findings=(row,))))
    assert "too few to tell" in page.text
    assert "within band" not in page.text
    assert told in page.text


def test_a_band_that_allows_every_share_has_no_limit() -> None:
    row = finding(value=0.5, healthy=0.6, limit=-1.6)
    source = render_report(golden_result(comparison=comparison(findings=(row,))), [])
    assert re.findall(r'data-label="Limit">([^<]*)<', source) == ["none"]


def test_an_empty_history_is_said_in_words() -> None:
    page = page_of(golden_result())
    assert "There is no earlier run" in page.text
    assert "figure" not in page.tags


def test_the_trend_has_an_alternative_text_and_marks_this_run() -> None:
    page = page_of(golden_result(), runs=20)
    assert "21 runs: 21 healthy. Mean similarity from" in page.text
    assert page.text.count("this run") == 2  # one per layout
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_runs_without_numbers_are_crosses_not_points() -> None:
    gap = trend_point(2, summary=Summary.INCONCLUSIVE, mean_similarity=None, raw_logprob_delta=None)
    known = [trend_point(3), trend_point(1, raw_logprob_delta=math.inf)]
    with_gap = render_report(golden_result(), [*known, gap])
    assert "1 inconclusive" in with_gap
    assert with_gap.count("stroke: var(--inconclusive)") > 0
    assert "stroke: var(--inconclusive)" not in render_report(golden_result(), known)


@pytest.mark.parametrize("started_at", ["yesterday", "2026-03-14T08:00:00"])
def test_a_time_that_is_odd_does_not_stop_the_trend(started_at: str) -> None:
    page = Page(
        render_report(golden_result(), [trend_point(3), trend_point(started_at=started_at)])
    )
    assert "figure" in page.tags


def test_the_run_itself_in_the_history_counts_once() -> None:
    source = render_report(golden_result(), [*trend(3), trend_point(0, run_id=RUN_ID)])
    assert "4 runs: 4 healthy" in source


def test_the_same_input_gives_the_same_bytes() -> None:
    result = with_case(current_text="Rome it is.")
    assert render_report(result, trend(50)) == render_report(result, trend(50)[::-1])


def test_a_full_week_with_long_texts_stays_small() -> None:
    cases = tuple(
        case_comparison(f"c{i}", current_text="ab cd " * 20_000, similarity=0.1) for i in range(12)
    )
    result = golden_result(
        verdict=golden_verdict(Summary.FAILED, worst_cases=tuple(c.case_id for c in cases)),
        comparison=comparison(cases=cases, findings=healthy_findings()),
    )
    source = render_report(result, trend(400))
    assert len(source.encode()) < 400_000
    assert "The last 168 runs" in source
    assert source.count("117,000 more characters") == 10


def test_tables_and_headings_can_be_read_aloud() -> None:
    page = page_of(golden_result(), runs=3)
    assert ("lang", "en") in page.attributes
    assert page.tags.count("h1") == 1
    scopes = [value for name, value in page.attributes if name == "scope"]
    assert page.tags.count("th") == len(scopes)
    assert "title" in page.tags


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(c * w for c, w in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_every_text_colour_has_contrast_aa(scheme: int) -> None:
    source = render_report(golden_result(), [])
    blocks = re.findall(r":root \{(.*?)\n\s*\}", source, flags=re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", blocks[scheme]))
    pairs = [
        *((ink, ground) for ink in ("ink", "muted") for ground in ("page", "surface", "soft")),
        *((tone.value, "surface") for tone in Summary),
        ("accent", "surface"),
        *(("ink", f"{tone.value}-soft") for tone in Summary),
        ("ink", "own-before"),
        ("ink", "own-after"),
    ]
    poor = {pair: c for pair in pairs if (c := _contrast(*(colours[p] for p in pair))) < 4.5}
    assert poor == {}


def _chromium(page: Path, *options: str) -> str:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is missing: apt-get install chromium")
    return subprocess.run(
        [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--virtual-time-budget=5000",
            f"--user-data-dir={page.parent / 'profile'}",
            *options,
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout


@pytest.mark.browser
def test_the_page_fits_phones_and_wide_screens_inside_a_viewer(tmp_path: Path) -> None:
    report = render_report(
        with_case(prompt="x" * 5000, current_text="W" * 50_000 + HOSTILE, logprob_delta=math.inf),
        trend(168),
    )
    widths = (360, 400, 768, 850, 1280, 1600)
    frames = "".join(
        f'<iframe width="{w}" height="800" frameborder="0" srcdoc="{html.escape(report)}" onload="'
        "const d = this.contentDocument; const p = document.createElement('p'); p.textContent = "
        "[this.width, d.documentElement.scrollWidth - d.documentElement.clientWidth, d.querySelector('h1').innerText.trim(), "
        "getComputedStyle(d.querySelector('svg.wide')).display].join('|'); "
        'document.body.append(p)"></iframe>'
        for w in widths
    )
    viewer = tmp_path / "viewer.html"
    viewer.write_text(f'<!doctype html><meta charset="utf-8"><body>{frames}', encoding="utf-8")
    seen = re.findall(r"<p>(\d+)\|(\d+)\|([^|]*)\|(\w+)</p>", _chromium(viewer, "--dump-dom"))
    assert sorted(int(width) for width, *_ in seen) == sorted(widths)
    for width, overflow, heading, wide in seen:
        assert overflow == "0"
        assert " ".join(heading.split()) == "chat is failed"
        assert wide == ("none" if int(width) <= 832 else "block")


@pytest.mark.browser
def test_the_page_is_drawn(tmp_path: Path) -> None:
    from PIL import Image

    report = tmp_path / "report.html"
    report.write_text(render_report(with_case(), trend(30)), encoding="utf-8")
    picture = tmp_path / "report.png"
    _chromium(report, f"--screenshot={picture}", "--window-size=1280,1000", "--hide-scrollbars")
    with Image.open(picture) as image:
        colours = image.convert("RGB").getcolors(1 << 24)
    assert colours is not None
    assert {(0xB3, 0x26, 0x1E), (0xFF, 0xFF, 0xFF)} <= {colour for _, colour in colours}
