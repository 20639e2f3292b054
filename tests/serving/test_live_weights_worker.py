"""What the worker finds of a model, and that it names what changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from quality_lib.serving.live_tensors import find_live_tensors
from tests.serving.small_worker import NativeHandler, SmallModel, SmallWorker, flip, packed, read


def found(model: torch.nn.Module) -> dict[str, str]:
    return {one.name: one.kind for one in find_live_tensors({"": model}).tensors}


def test_everything_that_a_model_multiplies_with_is_found_once() -> None:
    assert found(SmallModel()) == {
        "W_UV": "packed",
        "counts": "attribute",
        "embed.weight": "parameter",
        "gate.bias": "parameter",
        "gate.cpu_linear.handler": "packed",
        "norm.bias": "parameter",
        "norm.weight": "parameter",
        "out.cpu_linear.packed_weight": "packed",
        "rotary": "buffer",
    }


def test_tied_tensors_are_counted_once_and_told() -> None:
    result = read(SmallWorker())
    assert result["tied"] == {"head.weight": "embed.weight"}
    assert result["unseen"] == []


def handler_of(model: Any) -> NativeHandler:
    (cell,) = model.gate.cpu_linear.__closure__
    handler: NativeHandler = cell.cell_contents
    return handler


def closure_of(model: Any) -> torch.Tensor:
    (cell,) = model.out.cpu_linear.__closure__
    tensor: torch.Tensor = cell.cell_contents
    return tensor


PLACES: dict[str, Callable[[Any], torch.Tensor]] = {
    "embed.weight": lambda model: model.embed.weight,
    "norm.weight": lambda model: model.norm.weight,
    "gate.bias": lambda model: model.gate.bias,
    "gate.cpu_linear.handler": lambda model: handler_of(model).weight[0],
    "out.cpu_linear.packed_weight": closure_of,
    "rotary": lambda model: model.rotary,
    "W_UV": lambda model: model.W_UV,
}


@pytest.mark.parametrize("name", PLACES)
def test_one_bit_is_named_with_its_tensor_and_goes_away_when_flipped_back(name: str) -> None:
    worker = SmallWorker()
    first = read(worker)
    assert (first["changed"], first["is_first"]) == ([], True)
    assert read(worker)["root"] == first["root"]

    flip(PLACES[name](worker.model))
    second = read(worker)
    assert [one["name"] for one in second["changed"]] == [name]
    assert second["changed"][0]["judged"] is True
    assert second["root"] != second["loaded_root"] == first["root"]

    flip(PLACES[name](worker.model))
    assert read(worker)["changed"] == []


def test_what_may_be_scratch_space_is_shown_and_not_judged() -> None:
    worker = SmallWorker()
    first = read(worker)
    worker.model.counts += 1
    second = read(worker)
    assert [(one["name"], one["judged"]) for one in second["changed"]] == [("counts", False)]
    assert second["root"] == first["root"]


def test_the_kv_cache_is_left_out_by_name_and_by_address() -> None:
    worker = SmallWorker()
    cache = torch.zeros(128)
    worker.model.attention_memory = cache
    worker.model_runner.kv_caches = [cache]
    read(worker)
    cache += 1
    worker.model.kv_cache += 1
    assert read(worker)["changed"] == []


class VocabParallelEmbedding(torch.nn.Linear):
    """vLLM's embedding, by its name; packed like a linear layer."""


class ParallelLMHead(VocabParallelEmbedding):
    """vLLM's output layer, by its name."""


@pytest.mark.parametrize("has_head", [True, False])
def test_the_packed_embedding_counts_only_where_it_is_the_head(has_head: bool) -> None:
    model = torch.nn.Module()
    model.embed = VocabParallelEmbedding(4, 8, bias=False)
    packed(model.embed)
    if has_head:
        model.head = ParallelLMHead(4, 8, bias=False)
        packed(model.head)
    name = "head" if has_head else "embed"
    assert found(model) == {f"{name}.cpu_linear.handler": "packed"}


def test_a_handler_that_nobody_can_ask_is_told() -> None:
    worker = SmallWorker()
    worker.model.other = NativeHandler(torch.ones(8, 4))
    (unseen,) = read(worker)["unseen"]
    assert (unseen["name"], unseen["bytes"]) == ("other", 32)


def test_a_weight_that_was_emptied_and_put_nobody_knows_where_is_told() -> None:
    worker = SmallWorker()
    lost = torch.nn.Linear(4, 4, bias=False)
    lost.weight = torch.nn.Parameter(torch.empty(0))
    worker.model.lost = lost
    assert [one["name"] for one in read(worker)["unseen"]] == ["lost.weight"]


def test_a_tensor_that_came_or_went_is_a_change() -> None:
    worker = SmallWorker()
    read(worker)
    worker.model.register_parameter("late", torch.nn.Parameter(torch.ones(3)))
    worker.model.norm.bias = None
    changed = {one["name"]: (one["loaded"], one["now"]) for one in read(worker)["changed"]}
    assert changed["late"][0] is None
    assert changed["norm.bias"][1] is None


def test_restarts_give_the_same_root_and_another_place_another_layout() -> None:
    one, other = SmallWorker(), SmallWorker()
    first, second = read(one), read(other)
    assert (first["root"], first["layout"]) == (second["root"], second["layout"])
    elsewhere = SmallWorker()
    elsewhere.device = torch.device("meta")
    third = read(elsewhere)
    assert (third["root"], third["layout"] != first["layout"]) == (first["root"], True)


def test_a_reading_goes_on_in_calls_of_the_asked_length() -> None:
    worker = SmallWorker()
    worker.quality_weights_open("t")
    answers: list[dict[str, Any]] = []
    while not answers or "result" not in answers[-1]:
        answers.append(worker.quality_weights_read("t", 1e-9))  # one slice a call
    result = answers[-1]["result"]
    assert result["calls"] == len(answers) > result["tensors"]
    assert result["bytes"] == sum(one.size for one in find_live_tensors({"": worker.model}).tensors)


def test_many_readings_at_once_give_way_to_the_newest() -> None:
    worker = SmallWorker()
    for token in "abcde":
        worker.quality_weights_open(token)
    assert worker.quality_weights_read("a", 1.0)["lost"] is True
    assert "result" in worker.quality_weights_read("e", 60.0)
    assert worker.quality_weights_read("never opened", 1.0)["lost"] is True


def test_names_do_not_clash_with_those_of_vllms_worker() -> None:
    own = [name for name in dir(SmallWorker.__mro__[1]) if not name.startswith("__")]
    assert own
    assert all(name.startswith("quality_weights_") for name in own)
