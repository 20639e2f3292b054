"""Scores on disk: whole or not there, the same when read back, and refused when they are not ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from quality_lib.adapters.logs.score_files import (
    has_score,
    read_part,
    read_parts,
    read_plan,
    read_score,
    write_part,
    write_plan,
    write_score,
)
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.exchanges.row import BadLine, DropReason
from quality_lib.exchanges.sampling import Counts
from quality_lib.scoring.replay import BadToken, Contradiction, ReplayTotals, RowReplay
from quality_lib.scoring.result import Depth
from tests.adapters.pages.test_scores_report import result
from tests.scoring.builders import GOOD, LOW, part

COUNTS = Counts(
    entries=9,
    dropped={DropReason.CACHE_HIT: 3},
    strata={"all": 2},
    bad_examples=(BadLine("a.jsonl", 1, "no JSON"),),
)
REPLAY = ReplayTotals(
    rows=1,
    largest=float("inf"),
    skipped={"no_token_ids": 2},
    shown=(
        RowReplay("r", "", "", 2, 2, 1.0, 1.0, 1, (BadToken(1, 3, "x", Contradiction.IMPOSSIBLE, -20.0, None),)),
    ),
)  # fmt: skip


def test_a_partition_comes_back_as_it_was(tmp_path: Path) -> None:
    wanted = part([LOW, GOOD], 1, 3, counts=COUNTS, replay=REPLAY, depth=Depth.DEEP)
    write_part(tmp_path, wanted)
    assert read_part(tmp_path, 1, 3) == wanted
    assert read_parts(tmp_path) == [wanted]
    assert read_part(tmp_path, 0, 3) is None
    assert not list(tmp_path.glob("*.part"))


def test_a_score_comes_back_as_it_was(tmp_path: Path) -> None:
    wanted = result(counts=COUNTS)
    assert not has_score(tmp_path)
    write_score(tmp_path, wanted)
    assert has_score(tmp_path)
    assert read_score(tmp_path) == wanted


def test_a_plan_comes_back_and_none_is_none(tmp_path: Path) -> None:
    assert read_plan(tmp_path / "new") is None
    write_plan(tmp_path / "new", {"a": 1})
    assert read_plan(tmp_path / "new") == {"a": 1}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"result": {"schema": 99}}', '{"result": {"schema": 1}}']
)
def test_what_is_no_score_of_ours_is_bad_input(tmp_path: Path, text: str) -> None:
    (tmp_path / "score.json").write_text(text)
    with pytest.raises(BadInput, match=r"score\.json"):
        read_score(tmp_path)


def test_a_folder_without_a_score_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="quality logs merge"):
        read_score(tmp_path)


def test_a_folder_that_cannot_be_made_is_an_outside_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for write in (
        lambda: write_part(tmp_path / "file", part([GOOD])),
        lambda: write_plan(tmp_path / "file/x", {}),
    ):
        with pytest.raises(OutsideFailure, match="cannot be written"):
            write()
