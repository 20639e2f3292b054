"""When a rollback counts as left behind, and which end it is taken to."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from quality_lib.rollout.journal import Bad, Done, Journal
from quality_lib.rollout.left_behind import GRACE, left_behind, patience
from quality_lib.rollout.machine import steps_of
from quality_lib.rollout.strategy import StepName
from tests.rollout.plans import NOW, journal

WAIT = timedelta(minutes=30)
MINUTE = timedelta(minutes=1)


def after(last: StepName | None, **changes: Any) -> Journal:
    """Return a journal whose steps are done up to one, touched just now."""
    begun = journal(updated_at=NOW, **{"state": "rolling", **changes})
    done: list[Done] = []
    for step in steps_of(begun) if last is not None else ():
        if done and done[-1].step is last and step.name is not last:
            break
        done.append(Done(step.name, step.index, NOW, 1.0, "done"))
    return journal(updated_at=NOW, done=tuple(done), **{"state": "rolling", **changes})


BAD = Bad(StepName.RECOVER, None, NOW, "answers are bad", False)


@pytest.mark.parametrize(
    ("found", "quiet", "end", "following"),
    [
        (after(StepName.CHECK), WAIT + GRACE, "back", "move 0"),
        (after(StepName.CHECK), WAIT + GRACE - MINUTE, None, ""),
        (after(None), WAIT + GRACE, "back", "validate"),
        # After the last move nobody is asked any more.
        (after(StepName.MOVE), GRACE, "forward", "retire"),
        (after(StepName.MOVE), GRACE - MINUTE, None, ""),
        (after(StepName.RECOVER), GRACE, "forward", "report"),
        # A check that failed leads back, also after the last move, and may wait for an approval.
        (after(StepName.RETIRE, bad=BAD), GRACE, None, ""),
        (after(StepName.RETIRE, bad=BAD), WAIT + GRACE, "back", "abort"),
        # Planned and not begun: deciding again starts it.
        (after(None, state="open"), 9 * WAIT, None, ""),
        # It has ended here, so it is asked only because the store calls it open.
        (after(StepName.REPORT, state="done", closed_at=NOW), MINUTE, "told", ""),
        (after(StepName.MOVE), timedelta(days=-1), None, ""),
    ],
)
def test_how_it_was_left(found: Journal, quiet: timedelta, end: str | None, following: str) -> None:
    left = left_behind(found, NOW + quiet, WAIT)
    assert (left.end if left else None) == end
    if left is None:
        return
    assert (left.next, left.quiet) == (following, quiet)
    assert "quality rollback reconcile --service chat --older-than-minutes 0" in left.sentence
    assert "chat-abc-0" in left.sentence and (following in left.sentence)


def test_a_journal_that_was_never_touched_counts_from_its_opening() -> None:
    found = journal(state="rolling")
    assert left_behind(found, NOW + WAIT + GRACE, WAIT) is not None
    assert patience(found, WAIT) == WAIT + GRACE
