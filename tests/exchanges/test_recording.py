"""Which detail, which prompt, and whether masked."""

from __future__ import annotations

from typing import Any

import pytest

from quality_lib.exchanges.recording import (
    gets_detail,
    preparation,
    with_hashed_prompt,
    without_detail,
)


def record(**more: Any) -> dict[str, Any]:
    return {
        "id": "a",
        "request": {"messages": [{"role": "user", "content": "a@b.de"}], "params": {"top_p": 1}},
        "response": {"text": "fine", "token_ids": [1], "logprobs": [-1.0], "prompt_token_ids": [5]},
        **more,
    }


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_the_share_of_requests_with_detail(share: float) -> None:
    taken = sum(gets_detail(f"chatcmpl-{n}", share) for n in range(2000)) / 2000
    assert taken == pytest.approx(share, abs=0.03 if 0 < share < 1 else 0)


def test_the_same_request_always_decides_alike() -> None:
    assert len({gets_detail("x", 0.5) for _ in range(10)}) == 1
    more = [n for n in range(500) if gets_detail(str(n), 0.4) and not gets_detail(str(n), 0.6)]
    assert more == []


def test_without_detail_the_text_stays() -> None:
    given = record()
    assert without_detail(given)["response"] == {"text": "fine"}
    assert given["response"]["token_ids"] == [1]


@pytest.mark.parametrize("detail", [True, False])
def test_a_record_decides_for_itself(detail: bool) -> None:
    prepare = preparation(detail_share=0.0 if detail else 1.0, prompt="text", mask=True)
    written = prepare(record(detail=detail))
    assert ("token_ids" in written["response"]) is detail
    assert written["detail"] is detail


def test_a_hashed_prompt_holds_no_word_of_it() -> None:
    given = record(
        error={"type": "BadRequestError", "message": "cannot take a@b.de"},
        gates=[{"gate": "echo", "sentence": "It says a@b.de", "evidence": {"n": 1, "s": "a@b.de"}}],
    )
    hashed = with_hashed_prompt(given)
    assert "a@b.de" not in str(hashed)
    assert "prompt_token_ids" not in hashed["response"]
    assert hashed["error"] == {"type": "BadRequestError"}
    assert hashed["request"]["params"] == {"top_p": 1}
    assert hashed["gates"] == [{"gate": "echo", "evidence": {"n": 1}}]
    assert (
        hashed["request"]["prompt_sha256"]
        == with_hashed_prompt(record())["request"]["prompt_sha256"]
    )
    other = record()
    other["request"]["messages"][0]["content"] = "b"
    assert with_hashed_prompt(other)["request"] != hashed["request"]


def test_masking_can_be_switched_off() -> None:
    plain = preparation(detail_share=1.0, prompt="text", mask=False)(record())
    assert plain["request"] == record()["request"]
    assert "masked" not in plain
    masked = preparation(detail_share=1.0, prompt="text", mask=True)(record())
    assert masked["masked"]["kinds"] == {"email": 1}
