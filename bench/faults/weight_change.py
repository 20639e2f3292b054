"""Harmed weights: in a copy of the model folder, or in the memory of a running server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bench.faults.fault import Target, Undo, Where
from bench.faults.weight_steps import Flip, Step, chosen, drawn_flips, flipped, harmed
from quality_lib.adapters.model.bit_flip import flip_bit
from quality_lib.adapters.model.safetensors_files import TensorPlace, tensors_of


@dataclass(frozen=True)
class Weights:
    """Steps over tensors, applied in place where a worker is, else to the folder."""

    steps: tuple[Step, ...]
    source: str = ""
    """A folder whose tensors replace those of the same names before the steps."""
    is_of_weights: ClassVar = True

    @property
    def places(self) -> tuple[Where, ...]:
        """In memory first: a start costs a minute."""
        return (Where.WORKER, Where.FOLDER)

    def apply(self, target: Target, seed: int) -> Undo:
        """Apply the steps."""
        if target.worker is not None:
            return self._in_memory(target, seed)
        assert target.folder is not None
        return apply_to_folder(target.folder, self.steps, seed, self.source)

    def _in_memory(self, target: Target, seed: int) -> Undo:
        worker = target.worker
        assert worker is not None
        given = {"steps": [s.as_json() for s in self.steps], "seed": seed, "source": self.source}
        worker.call("fault_weights", json.dumps(given))
        return lambda: worker.call("fault_mend", "weights")


def changed_tensors(
    folder: Path, steps: Sequence[Step], seed: int, source: str = ""
) -> Iterator[tuple[str, Any]]:
    """Give name and harmed tensor of everything that the steps touch, one at a time.

    Steps see the tensors as the steps before them left them.
    """
    places = tensors_of(folder)
    sizes = {name: _elements(place) for name, place in places.items()}
    flips: dict[int, list[Flip]] = {
        number: drawn_flips(sizes, step, seed)
        for number, step in enumerate(steps)
        if step.op == "flip"
    }
    touched: dict[str, list[int]] = {}
    if source:
        touched.update({name: [] for name in sorted(tensors_of(Path(source))) if name in places})
    for number, step in enumerate(steps):
        names = (
            {f.tensor for f in flips[number]}
            if number in flips
            else chosen(list(places), step.tensors)
        )
        for name in sorted(names):
            touched.setdefault(name, []).append(number)
    for name in sorted(touched):
        tensor = read_tensor(Path(source) if source else folder, name)
        for number in touched[name]:
            tensor = (
                flipped(tensor, [f for f in flips[number] if f.tensor == name])
                if number in flips
                else harmed(tensor, steps[number], name, seed)
            )
        yield name, tensor


def apply_to_folder(folder: Path, steps: Sequence[Step], seed: int, source: str = "") -> Undo:
    """Write harmed tensors into the files of a folder and return what writes the old bytes back."""
    places = tensors_of(folder)
    if not source and all(step.op == "flip" for step in steps):
        return _flip_in_files(folder, places, steps, seed)
    old: dict[str, bytes] = {}
    for name, tensor in changed_tensors(folder, steps, seed, source):
        old[name] = _exchange(places[name], _bytes_of(tensor))

    def undo() -> None:
        for name, data in old.items():
            _exchange(places[name], data)

    return undo


def read_tensor(folder: Path, name: str) -> Any:
    """Return one tensor of a folder, without memory mapping: the file may be written to."""
    import torch

    place = tensors_of(folder)[name]
    with place.file.open("rb") as file:
        file.seek(place.offset)
        data = bytearray(file.read(place.size))
    kind = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}[place.dtype]
    return torch.frombuffer(data, dtype=kind).view(place.shape)


def _flip_in_files(
    folder: Path, places: dict[str, TensorPlace], steps: Sequence[Step], seed: int
) -> Undo:
    sizes = {name: _elements(place) for name, place in places.items()}
    flips = [flip for step in steps for flip in drawn_flips(sizes, step, seed)]
    for flip in flips:
        flip_bit(folder, flip.tensor, flip.element, flip.bit)

    def undo() -> None:
        for flip in flips:
            flip_bit(folder, flip.tensor, flip.element, flip.bit)

    return undo


def _elements(place: TensorPlace) -> int:
    count = 1
    for side in place.shape:
        count *= side
    return count


def _bytes_of(tensor: Any) -> bytes:
    import torch

    return bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes())


def _exchange(place: TensorPlace, data: bytes) -> bytes:
    with place.file.open("r+b") as file:
        file.seek(place.offset)
        old = file.read(place.size)
        file.seek(place.offset)
        file.write(data)
    return old
