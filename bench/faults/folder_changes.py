"""Faults of the small files of a model folder: configuration, tokenizer and chat template."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.faults.fault import Target, Undo, Where
from bench.faults.template_edits import edited_template
from quality_lib.errors import BadInput


@dataclass(frozen=True)
class Config:
    """Fields of ``config.json`` set to other values, by path with dots."""

    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def places(self) -> tuple[Where, ...]:
        """In the folder."""
        return (Where.FOLDER,)

    def apply(self, target: Target, seed: int) -> Undo:
        """Write the fields."""
        assert target.folder is not None
        return rewrite_file(target.folder / "config.json", self._edited)

    def _edited(self, text: str) -> str:
        config = json.loads(text)
        for path, value in self.fields.items():
            inner, (*parents, last) = config, path.split(".")
            for name in parents:
                inner = inner.setdefault(name, {})
            if last not in inner:
                raise BadInput(f"config.json has no field '{path}'")
            inner[last] = value
        return json.dumps(config, indent=2)


@dataclass(frozen=True)
class Tokenizer:
    """Ids of merged tokens exchanged among each other, as when vocabularies are mixed up."""

    count: int = 200

    @property
    def places(self) -> tuple[Where, ...]:
        """In the folder: the API server has read the tokenizer long ago."""
        return (Where.FOLDER,)

    def apply(self, target: Target, seed: int) -> Undo:
        """Permute the ids."""
        assert target.folder is not None
        return rewrite_file(
            target.folder / "tokenizer.json", lambda text: permuted(text, self.count, seed)
        )


@dataclass(frozen=True)
class Template:
    """Another chat template: by the request where the server trusts it, else in the folder."""

    edit: str
    """A name in ``template_edits``."""
    source: str = ""
    """The healthy template; needed for the way by the request."""

    @property
    def places(self) -> tuple[Where, ...]:
        """By the request, which needs ``--trust-request-chat-template``; else in the folder."""
        return (Where.REQUESTS, Where.FOLDER)

    def apply(self, target: Target, seed: int) -> Undo:
        """Give another template."""
        if target.shim is None:
            assert target.folder is not None
            file = target.folder / "chat_template.jinja"
            return rewrite_file(file, lambda text: edited_template(text, self.edit))
        if not self.source:
            raise BadInput(f"template fault '{self.edit}' has no healthy template to start from")
        template = edited_template(self.source, self.edit)

        def rewrite(path: str, body: dict[str, Any]) -> dict[str, Any]:
            return {**body, "chat_template": template} if "messages" in body else body

        shim = target.shim
        shim.rewrites.append(rewrite)
        return lambda: shim.rewrites.remove(rewrite)


def permuted(text: str, count: int, seed: int) -> str:
    """Return a ``tokenizer.json`` in which so many merged tokens have changed places in a circle.

    Merged tokens of letters alone are drawn, so that ordinary text meets them.
    """
    tokenizer = json.loads(text)
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    special = {entry["content"] for entry in tokenizer.get("added_tokens", ())}
    candidates = sorted(
        (token for token in vocabulary if _is_merged(token) and token not in special),
        key=lambda token: vocabulary[token],
    )[: 20 * count]
    if len(candidates) < count or count < 2:
        raise BadInput(f"the tokenizer has no {count} merged tokens to exchange")
    circle = random.Random(seed).sample(candidates, count)
    ids = [vocabulary[token] for token in circle]
    for token, other in zip(circle, [*ids[1:], ids[0]], strict=True):
        vocabulary[token] = other
    return json.dumps(tokenizer, ensure_ascii=False)


def _is_merged(token: str) -> bool:
    bare = token.removeprefix("Ġ")
    return len(bare) > 1 and bare.isascii() and bare.isalpha()


def rewrite_file(file: Path, edit: Callable[[str], str]) -> Undo:
    """Replace a file by an edited one under the same name; a link elsewhere keeps the old content."""
    old = file.read_bytes()
    _replace(file, edit(old.decode("utf-8")).encode("utf-8"))
    return lambda: _replace(file, old)


def _replace(file: Path, data: bytes) -> None:
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_bytes(data)
    temporary.replace(file)
