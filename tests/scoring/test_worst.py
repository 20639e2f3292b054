"""Which answers a report shows, and that they are masked and cut before anybody sees them."""

from __future__ import annotations

from quality_lib.exchanges.exchange import Answer, ToolCall
from quality_lib.exchanges.masking import mask_text
from quality_lib.exchanges.row import Facts
from quality_lib.gates.gate import Level
from quality_lib.records import Outcome
from quality_lib.scoring.tally import Score
from quality_lib.scoring.worst import (
    LONGEST_TEXT,
    MOST_OF_A_KIND,
    MOST_SHOWN,
    ShownRow,
    Worst,
    cut,
    shown_row,
)
from tests.scoring.builders import GOOD, LOW, exchange, said, score


def shown(number: int = 0, found: Score = LOW, text: str | None = "x", **more: object) -> ShownRow:
    return shown_row(
        exchange(number, text, **more),
        Facts(),
        found,
        "all",
        "a.jsonl:3",
        lambda t: mask_text(t).text,
    )


def test_personal_data_is_masked_everywhere() -> None:
    found = score(said("FAILED", "echo", sentence="It repeats 'write to jo@example.org'."))
    row = shown(0, found, "Call jo@example.org", prompt="from jo@example.org", messages=None)
    assert "jo@example.org" not in str(row)
    assert row.text == "Call [email]"


def test_masking_comes_before_cutting_so_that_no_half_address_is_left() -> None:
    head = "x" * (LONGEST_TEXT * 2 // 3 - 5)
    row = shown(text=f"{head} jo@example.org {'y' * 9000}")
    assert "jo@ex" not in row.text


def test_a_long_answer_keeps_its_end() -> None:
    row = shown(text="good " * 5000 + "THE END")
    assert row.text.endswith("THE END")
    assert len(row.text) < LONGEST_TEXT + 60


def test_half_characters_can_be_stored() -> None:
    assert cut("a\ud83d", 10).encode() == b"a?"


def test_null_text_and_tool_calls_are_shown() -> None:
    answer = Answer(None, tool_calls=(ToolCall("find", '{"q": 1'),))
    assert shown(answer=answer).text == '→ find({"q": 1)'
    assert shown(answer=None).text == ""


def test_the_fault_of_the_answer_stands_before_that_of_the_request() -> None:
    found = score(
        said("FAILED", "too_long", Level.INPUT), said("SUSPECT", "odd"), said("FAILED", "loop")
    )
    assert [r.code for r in shown(found=found).reasons] == ["loop", "odd", "too_long"]


def fill(worst: Worst, found: Score, numbers: range) -> None:
    for number in numbers:
        if worst.wants(found):
            worst.add(shown(number, found))


def test_one_kind_of_damage_does_not_push_the_others_out() -> None:
    worst = Worst()
    fill(worst, LOW, range(1000))
    fill(worst, score(said("FAILED", "mojibake")), range(1000, 1002))
    kinds = [row.kind for row in worst.rows]
    assert kinds.count("loop_only") == MOST_OF_A_KIND
    assert kinds.count("mojibake") == 2


def test_failed_stands_before_suspect_and_good_is_never_shown() -> None:
    worst = Worst()
    fill(worst, score(said("SUSPECT", "odd")), range(3))
    fill(worst, LOW, range(3, 6))
    assert not worst.wants(GOOD)
    assert [row.outcome for row in worst.rows] == [Outcome.FAILED] * 3 + [Outcome.SUSPECT] * 3


def test_a_worse_answer_takes_the_place_of_a_bad_one() -> None:
    worst = Worst()
    fill(worst, LOW, range(50))
    worse = score(said("FAILED", "loop_only"), said("FAILED", "control_token"))
    fill(worst, worse, range(50, 51))
    assert worst.rows[0].id == "r0050"


def test_partitions_show_together_what_one_task_would_have_shown() -> None:
    one, first, second = Worst(), Worst(), Worst()
    for number in range(60):
        found = score(said("FAILED", f"kind{number % 7}"))
        for worst in (one, first if number < 30 else second):
            if worst.wants(found):
                worst.add(shown(number, found))
    first.include(second.rows)
    assert [row.id for row in first.rows] == [row.id for row in one.rows]
    assert len(one.rows) == MOST_SHOWN
