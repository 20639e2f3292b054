"""The real reference model: sense, nonsense, dead tails, batches, and texts that are odd or empty."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean

import pytest

from quality_lib.adapters.model import reference_model
from quality_lib.adapters.model.reference_model import ReferenceModel
from quality_lib.errors import BadInput
from quality_lib.gates.perplexity import windowed_perplexities

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SENSE = (
    "What is the capital of France?",
    "The capital of France is Paris, which lies on the river Seine in the north of the country.",
)
NONSENSE = (
    SENSE[0],
    "capital banana of seventeen quickly blue Paris of of table run green soup door",
)


@pytest.fixture(scope="module")
def model(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> ReferenceModel:
    return ReferenceModel(str(model_folder), tmp_path_factory.mktemp("cache"), memory_mb=128)


def logprobs(model: ReferenceModel, pairs: list[tuple[str, str]]) -> list[tuple[float, ...]]:
    return [reading.logprobs for reading in model.read(pairs)]


def perplexity(said: tuple[float, ...]) -> float:
    return math.exp(-sum(said) / len(said))


def test_sense_is_likely_and_nonsense_is_not(model: ReferenceModel) -> None:
    sense, nonsense = logprobs(model, [SENSE, NONSENSE])
    assert perplexity(sense) < 30
    assert perplexity(nonsense) > 1000


def test_what_was_asked_for_is_likely_however_odd(model: ReferenceModel) -> None:
    rows = "| 7 | 49 |\n" * 12
    asked, unasked = logprobs(
        model,
        [
            (f"Repeat this table row by row, exactly:\n{rows}", rows),
            ("Who wrote Hamlet?", rows),
        ],
    )
    assert perplexity(asked) < perplexity(unasked)


def test_a_batch_says_the_same_as_each_text_alone(model: ReferenceModel) -> None:
    pairs = [SENSE, ("Hi", "Hello! How can I help?"), NONSENSE, ("", "One."), ("Hi", "")]
    together = logprobs(model, pairs)
    assert [len(values) for values in together][-1] == 0
    for pair, values in zip(pairs, together, strict=True):
        alone = logprobs(model, [pair])[0]
        # Where the processor multiplies 16-bit numbers a batch moves single tokens a little.
        assert len(alone) == len(values)
        assert fmean(alone or [0]) == pytest.approx(fmean(values or [0]), abs=0.3)


def test_a_dead_tail_of_a_long_answer_shows(
    model: ReferenceModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference_model, "SEGMENT_TOKENS", 48)
    monkeypatch.setattr(reference_model, "CONTEXT_TOKENS", 32)
    monkeypatch.setattr(reference_model, "LONGEST_ANSWER", 160)
    head = "The river rises in the mountains and flows slowly to the sea. " * 20
    tail = " zq kwx jhf vbn pqr lkj mnb wqe zxc asd fgh jkl yui opl mko" * 2
    (said,) = logprobs(model, [("Tell me about a river.", head + tail)])
    assert len(said) == 160  # its two ends
    found = windowed_perplexities(said, 32)
    assert max(found[-2:]) > 20 * min(found)


@pytest.mark.parametrize(
    "text", ["\x00\x01", "\ufffd" * 20, "🙂" * 20, "你好，世界。" * 5, " \n \n"]
)
def test_odd_texts_have_finite_numbers(model: ReferenceModel, text: str) -> None:
    (reading,) = model.read([("q", text)])
    assert all(math.isfinite(value) and value <= 0 for value in reading.logprobs)
    assert all(math.isfinite(value) and value >= 0 for value in reading.entropies)
    assert len(reading.entropies) == len(reading.logprobs)


def test_progress_ends_with_everything(model_folder: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    model = ReferenceModel(
        str(model_folder), tmp_path, memory_mb=64, progress=lambda *what: told.append(what)
    )
    model.read([SENSE, NONSENSE])
    assert told[-1][1] == told[-1][2]


def test_a_folder_that_holds_no_model_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no model folder"):
        ReferenceModel(str(tmp_path), tmp_path).read([SENSE])
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}')
    (tmp_path / "x.safetensors").write_bytes(b"")
    with pytest.raises(BadInput, match=r"reference_model.*language model"):
        ReferenceModel(str(tmp_path), tmp_path).read([SENSE])


def test_an_end_is_likely_behind_a_sentence_and_not_within(model: ReferenceModel) -> None:
    asked, text = SENSE
    ends = {
        cut: text[: text.index(cut) + len(cut)]
        for cut in ("country.", "country", "lies on the", "north of")
    }
    closing = {
        cut: one.closing
        for (cut, _), one in zip(
            ends.items(), model.read([(asked, t) for t in ends.values()]), strict=True
        )
    }
    assert all(value is not None and value <= 0 for value in closing.values())
    whole = [closing["country."], closing["country"]]
    within = [closing["lies on the"], closing["north of"]]
    assert min(v for v in whole if v is not None) > -2
    assert max(v for v in within if v is not None) < -6


def test_the_end_of_a_long_answer_is_that_of_its_last_piece(model: ReferenceModel) -> None:
    long = "It rained all day. " * 200
    together = model.read([("Why?", long + "It rained all"), ("Why?", ""), SENSE])
    alone = model.read([("Why?", long + "It rained all")])
    assert together[0].closing == pytest.approx(alone[0].closing, abs=0.05)
    assert together[1].closing is None
    assert together[0].closing is not None
    assert together[0].closing < -4
