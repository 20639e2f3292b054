"""Whole records: every text is masked, and nothing spells what was."""

from __future__ import annotations

import json
from typing import Any

from quality_lib.exchanges.record_masking import mask_record

SECRET = "anna@example.com"


def record(**response: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-4111111111111111",
        "service": "chat",
        "request": {"messages": [{"role": "user", "content": "hello"}], "params": {}},
        "response": {"text": "fine", "token_ids": [1, 2], "logprobs": [-0.1, -0.2], **response},
        "gates": [],
    }


def test_nothing_to_mask_changes_nothing() -> None:
    given = record()
    masked = mask_record(given)
    assert masked.pop("masked") == {}
    assert masked == given
    assert "masked" not in given


def test_a_masked_answer_loses_what_spells_it() -> None:
    tokens = [{"token": "anna", "bytes": [97], "logprob": -0.1, "top_logprobs": []}]
    masked = mask_record(record(text=f"write to {SECRET}", content_logprobs=tokens))
    assert masked["response"]["text"] == "write to [email]"
    assert masked["response"]["logprobs"] == [-0.1, -0.2]
    assert masked["response"]["content_logprobs"] == [{"logprob": -0.1}]
    assert "token_ids" not in masked["response"]
    assert masked["masked"]["kinds"] == {"email": 1}
    assert masked["masked"]["fields"] == ["response.text"]
    assert "response.token_ids" in masked["masked"]["dropped"]
    assert "anna" not in json.dumps(masked)


def test_a_masked_prompt_leaves_the_answer_alone() -> None:
    given = record(prompt_token_ids=[7, 8])
    given["request"] |= {
        "messages": [{"role": "user", "content": [{"type": "text", "text": f"I am {SECRET}"}]}],
        "prompt_token_ids": [7],
        "user": "+49 151 23456789",
        "tools": [{"properties": {"token": {"description": f"as {SECRET}"}}}],
    }
    masked = mask_record(given)
    assert masked["response"] == record()["response"]
    assert "prompt_token_ids" not in masked["request"]
    assert masked["request"]["user"] == "[phone]"
    assert masked["masked"]["kinds"] == {"email": 2, "phone": 1}
    assert "anna" not in json.dumps(masked)


def test_tool_arguments_stay_json() -> None:
    call = {"id": "call_4111111111111111", "name": "dial", "arguments": '{"phone": 5551234567}'}
    masked = mask_record(record(tool_calls=[call]))["response"]["tool_calls"][0]
    assert masked["id"] == call["id"]
    assert json.loads(masked["arguments"]) == {"phone": "[phone]"}


def test_numbers_in_a_list_do_not_hide_a_text() -> None:
    masked = mask_record(record(text=None, logprobs=[1, SECRET]))
    assert SECRET not in json.dumps(masked)


def test_a_prompt_of_token_ids_cannot_be_judged_and_goes() -> None:
    given = record()
    given["request"]["prompt"] = [[1, 2], [3]]
    masked = mask_record(given)
    assert masked["request"]["prompt"] is None
    assert masked["masked"]["dropped"] == ["request.prompt"]


def test_gates_do_not_quote_half_of_a_masked_value() -> None:
    given = record(text=f"write to {SECRET}")
    given["gates"] = [
        {"gate": "echo", "sentence": f"It says {SECRET}.", "evidence": {"at": 9, "snippet": "anna@ex", "bound": "learned"}}
    ]  # fmt: skip
    gate = mask_record(given)["gates"][0]
    assert gate["sentence"] == "It says [email]."
    assert gate["evidence"] == {"at": 9, "snippet": "[text]", "bound": "learned"}


def test_an_image_is_kept_as_its_size() -> None:
    given = record()
    given["request"]["messages"][0]["content"] = "data:image/png;base64," + "A" * 5000
    content = mask_record(given)["request"]["messages"][0]["content"]
    assert content == "data:image/png;base64,[5022 characters]"


def test_odd_records_are_masked_too() -> None:
    assert SECRET not in json.dumps(mask_record({"request": SECRET, "response": [SECRET], "x": 1}))
    assert mask_record({}) == {"masked": {}}
