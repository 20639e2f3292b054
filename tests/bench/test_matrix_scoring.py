"""From recordings to the result: thresholds from one half, numbers from the other, table and plots."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.matrix.halves import split
from bench.matrix.methods import every_method, product
from bench.matrix.parquet_files import read_checks
from bench.matrix.plots import delays, write_plots
from bench.matrix.recording import HEALTHY, Check, Row, Track
from bench.matrix.scoring import (
    falls_short,
    first_prompts,
    reference_of,
    result_of,
    score_tracks,
    train,
)
from bench.matrix.table import markdown, summary
from bench.measures import share
from quality_lib.errors import BadInput
from tests.bench.recordings import check, made, recorded


def _similarity(pairs: Sequence[tuple[str, str]]) -> list[float]:
    return [0.7] * len(pairs)


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    scored = score_tracks(recorded(), every_method(_similarity), runs=2)
    return {
        "date": "2026-01-01",
        "machine": "test",
        "load": "0.0",
        "form": "short form",
        **json.loads(json.dumps(result_of(scored))),
    }


def test_the_fault_is_found_and_health_is_silent(result: dict[str, Any]) -> None:
    for track in ("deterministic", "noisy"):
        told = result["tracks"][track]["methods"]["scored delta"]
        assert told["gross"]["share"] == 1.0
        assert told["false_alarms"]["hits"] == 0
        assert told["false_alarms"]["of"] == 16
        (kind,) = [k for k in told["kinds"] if k["kind"] == "int8 weights"]
        assert (kind["found"]["hits"], kind["auroc"], kind["delay_checks"]["p50"]) == (5, 1.0, 1.0)


def test_a_blind_method_is_told_to_be_blind(result: dict[str, Any]) -> None:
    """Without forks, exact match cannot see the small change."""
    told = result["tracks"]["deterministic"]["methods"]["exact match"]
    (kind,) = [k for k in told["kinds"] if k["number"] == 18]
    assert kind["found"]["hits"] == 0
    assert kind["auroc"] == 0.5
    assert told["tiny_change_macro_auc"] == 0.5
    assert kind["delay_checks"] == {"p50": None, "p90": None, "p99": None}


def test_the_articles_own_rule_is_counted_beside_the_common_threshold(
    result: dict[str, Any],
) -> None:
    told = result["tracks"]["deterministic"]["methods"]["article's rule"]
    # Two of five answers differ and are rated 0.7: the mean is 0.88, above 0.85.
    assert told["own_rule"]["gross"]["hits"] == 0
    assert told["gross"]["hits"] == 5


def test_controls_are_counted_as_false_alarms_or_not(result: dict[str, Any]) -> None:
    told = result["tracks"]["deterministic"]["methods"]["scored delta"]
    assert told["controls"] == [
        {"control": "load-32", "alarms": {"hits": 0, "of": 1, "share": 0.0, "interval": [0.0, 0.7935]}}
    ]  # fmt: skip
    assert "load-32" not in {fault["fault"] for fault in told["faults"]}


def test_thresholds_never_see_the_evaluating_half() -> None:
    """Doubling what is judged changes no threshold."""
    checks = recorded()
    more = [*checks, *(made(f"new{n}", 2, noise=5.0, track=Track.NOISY) for n in range(5))]
    (method,) = [m for m in every_method(_similarity) if m.name == "scored delta"]
    before = train(method, split(checks, Track.NOISY), reference_of(checks))
    after = train(method, split(more, Track.NOISY), reference_of(more))
    assert after.limit == before.limit
    assert len(after.healthy) == len(before.healthy) + 5


def test_power_against_tokens_grows_and_is_told_by_budget(result: dict[str, Any]) -> None:
    rows = result["tracks"]["noisy"]["methods"]["scored delta"]["by_tokens"]
    assert [row["prompts"] for row in rows] == [1, 2, 4, 5]
    assert rows[0]["tokens"] < rows[1]["tokens"] < rows[2]["tokens"]
    assert set(rows[-1]["tokens_to_auc_0.999"]) == {"5 int8 weights", "18 TinyChange noise"}


def test_mixtures_are_composed_of_the_rows_that_have_sources(result: dict[str, Any]) -> None:
    assert result["tracks"]["mixture"]["methods"]["scored delta"]["kinds"] == []


def test_a_result_without_faults_still_makes_a_page() -> None:
    healthy = [c for c in recorded() if c.head.fault == HEALTHY]
    scored = score_tracks(healthy, every_method(_similarity), runs=2)
    page = markdown({"date": "d", "machine": "m", "load": "0", "form": "f", **result_of(scored)})
    assert "| scored delta |" in page


def test_too_few_checks_are_refused() -> None:
    few: list[Check] = [made("a", 1), made("b", 1), made("c", 2)]
    with pytest.raises(BadInput, match="too few"):
        score_tracks(few, every_method(_similarity))


def test_the_page_tells_halves_methods_and_rows(result: dict[str, Any]) -> None:
    page = markdown(result)
    assert "calibration 16 checks of server starts 1, 3" in page
    assert "| 5 | int8 weights | 5 |" in page
    assert "100% / 1.000" in page
    assert all(len(line) < 1500 for line in page.splitlines())
    assert len(summary(result)) == 24


def test_plots_are_drawn(result: dict[str, Any], tmp_path: Path) -> None:
    files = write_plots(result, tmp_path, "matrix")
    assert [file.name for file in files] == [
        "matrix_power.png", "matrix_delay.png", "matrix_false_alarms.png"
    ]  # fmt: skip
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


@pytest.mark.parametrize("found", ["nothing", "no intensities", "no tokens"])
def test_plots_are_drawn_of_what_little_was_found(
    result: dict[str, Any], found: str, tmp_path: Path
) -> None:
    result = copy.deepcopy(result)
    for one in result["tracks"]["noisy"]["methods"].values():
        match found:
            case "nothing":
                one["faults"] = [fault | {"hits": 0} for fault in one["faults"]]
                assert delays(one["faults"]), "the recorded faults have no intensities"
            case "no intensities":
                one["faults"] = []
            case "no tokens":
                one["by_tokens"] = []
    assert all(file.stat().st_size for file in write_plots(result, tmp_path, "matrix"))


def test_the_recordings_in_the_repository_are_those_of_their_result() -> None:
    results = Path(__file__).parents[2] / "bench" / "results"
    checks = read_checks(results / "matrix_short" / "recordings")
    told = json.loads((results / "matrix_short.json").read_text())
    assert told["form"] == "short form"
    assert told["recordings"] == {
        "checks": len(checks), "probes": sum(len(one.rows) for one in checks)
    }  # fmt: skip
    found = score_tracks(checks, [product.METHOD], runs=2)
    for name, one in result_of(found)["tracks"].items():
        method = one["methods"]["product, one check"]
        assert method == told["tracks"][name]["methods"]["product, one check"]


def test_intensities_are_read_from_names() -> None:
    faults = [
        {"fault": "noise-2^-7-0", "hits": 1, "of": 2}, {"fault": "noise-2^-7-1", "hits": 2, "of": 2},
        {"fault": "noise-2^-3-0", "hits": 4, "of": 4}, {"fault": "int8", "hits": 4, "of": 4},
    ]  # fmt: skip
    assert delays(faults) == {"noise": [(7, 0.75), (3, 1.0)]}


@pytest.mark.parametrize(
    ("found", "area", "is_gross", "pages", "words"),
    [
        ((9, 9), 1.0, True, (0, 4), []),
        ((8, 9), 0.99, True, (0, 4), ["found int8 in 8 of 9"]),
        ((0, 9), 1.0, True, (0, 4), []),
        ((0, 9), None, True, (0, 4), ["found int8 in 0 of 9"]),
        ((9, 9), 1.0, True, (1, 4), ["paged in 1 of 4"]),
        ((9, 9), 1.0, True, (0, 0), ["no healthy check"]),
        ((8, 9), 0.5, False, (0, 4), ["no gross fault"]),
    ],
)
def test_what_the_product_must_never_miss(
    found: tuple[int, int],
    area: float | None,
    is_gross: bool,
    pages: tuple[int, int],
    words: list[str],
) -> None:
    kind = {"kind": "int8", "is_gross": is_gross, "found": share(*found), "auroc": area}
    track = {
        "methods": {product.METHOD.name: {"kinds": [kind]}},
        "procedure": {"healthy": {"pages": share(*pages)}},
    }
    told = falls_short({"tracks": {"deterministic": track}})
    assert len(told) == len(words)
    assert all(word in line for word, line in zip(words, told, strict=True))


def test_a_procedure_that_was_not_run_is_no_pass() -> None:
    track = {
        "methods": {product.METHOD.name: {"kinds": []}},
        "procedure": {"refused": "too few checks"},
    }
    told = falls_short({"tracks": {"deterministic": track}})
    assert [word in line for word, line in zip(("no gross", "too few checks"), told, strict=True)] == [True, True]  # fmt: skip


def test_few_prompts_are_taken_from_each_channel_in_turn_and_the_long_one_last() -> None:
    rows = [Row(f"{channel}-{n}", channel) for channel in ("long_context", "greedy", "seeded") for n in range(2)]  # fmt: skip
    rows += [Row(f"greedy-{n}", "raw_scored") for n in range(2)]
    asked = check(*rows)
    assert first_prompts([asked], product.METHOD, 3) == ["greedy-0", "seeded-0", "greedy-1"]
    assert first_prompts([asked], product.METHOD, 9) == [
        "greedy-0", "seeded-0", "greedy-1", "seeded-1", "long_context-0", "long_context-1",
    ]  # fmt: skip


def test_a_budget_is_learned_and_judged_with_its_prompts_alone(result: dict[str, Any]) -> None:
    told = result["tracks"]["deterministic"]["methods"][product.METHOD.name]["by_tokens"]
    assert [row["prompts"] for row in told] == [1, 2, 4, 5]
    assert [row["tokens"] for row in told] == sorted(row["tokens"] for row in told)
    for row in told:
        assert row["gross"]["of"] >= 1
        assert row["gross"]["hits"] == row["gross"]["of"]
        assert row["false_alarms"]["hits"] == 0
    page = markdown(result)
    assert "With as many prompts as 1,250 tokens a check pay" in page
