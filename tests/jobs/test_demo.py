"""The pure parts of the demo; CI tells its whole story."""

from __future__ import annotations

import pytest

from quality_lib.adapters.files.cases import load_cases
from quality_lib.golden.plan import decode_channel
from quality_lib.jobs.demo import FULL, USUAL
from quality_lib.jobs.demo_stage import thinned


@pytest.mark.parametrize("every", [FULL, USUAL])
def test_every_form_keeps_every_channel_and_the_core(every: int) -> None:
    whole = load_cases("builtin:core")
    asked = thinned(whole, every)
    assert {decode_channel(case) for case in asked} == {decode_channel(case) for case in whole}
    assert {case.id for case in whole if "core" in case.tags} <= {case.id for case in asked}
    assert len(asked) <= len(whole) / every + 10
