"""What was served: the manifest of a snapshot, its canonical form and its id. Pure."""

from __future__ import annotations

import hashlib
import json
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from quality_lib.errors import BadInput

SCHEMA = 1
"""Number of the manifest's format; a reader refuses every other one."""


@dataclass(frozen=True)
class FileRecord:
    """One file by its name and content."""

    path: str
    """Relative to the recorded folder, with ``/`` on every platform."""
    size: int
    sha256: str


@dataclass(frozen=True)
class WeightsRecord:
    """Every file of a model folder."""

    files: tuple[FileRecord, ...]
    root_sha256: str
    uri: str
    """Where the folder lay when it was recorded; the hashes, not the place, are the identity."""


@dataclass(frozen=True)
class ImageRecord:
    """The container image that serves; both empty on a host without containers."""

    ref: str = ""
    digest: str = ""


@dataclass(frozen=True)
class CodeRecord:
    """The configuration repository's commit."""

    git_commit: str | None = None
    """``None`` outside a git checkout; a suffix ``+changes`` marks uncommitted ones."""


@dataclass(frozen=True)
class ServingRecord:
    """How the weights are served; ``None`` is a fact that was not recorded, never a default."""

    vllm_version: str | None = None
    args: tuple[str, ...] | None = None
    args_sha256: str | None = None
    generation_config: Mapping[str, Any] | None = None
    chat_template_sha256: str | None = None
    tokenizer_sha256: str | None = None
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    max_model_len: int | None = None
    adapters: tuple[str, ...] | None = None


@dataclass(frozen=True)
class EnvironmentRecord:
    """The machine and the libraries under the server."""

    gpu: str | None = None
    driver: str | None = None
    cuda: str | None = None
    torch: str | None = None
    python: str | None = None
    cpu: str | None = None


@dataclass(frozen=True)
class GoldenRecord:
    """The baseline that the snapshot is judged by."""

    digest: str
    """Digest of the golden set that the baseline was made with."""
    baseline_uri: str
    """Relative to the snapshot's own files."""
    baseline_sha256: str
    """Root hash over all files of the baseline folder."""


@dataclass(frozen=True)
class Manifest:
    """Everything that has to be the same for the same answers to come out."""

    weights: WeightsRecord
    image: ImageRecord
    code: CodeRecord
    serving: ServingRecord
    environment: EnvironmentRecord
    golden: GoldenRecord | None
    live_fingerprint: str | None
    """Checksum of the parameters in device memory, where the server can compute it."""
    created_at: str
    """ISO 8601, UTC."""
    created_by: str
    schema: int = SCHEMA

    def to_canonical_json(self) -> str:
        """Return the one text of this manifest: sorted keys, no blanks, UTF-8 kept."""
        return canonical_json(_plain(self))

    @property
    def snapshot_id(self) -> str:
        """SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.to_canonical_json().encode()).hexdigest()

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "manifest.json") -> Manifest:
        """Read a manifest.

        Raises:
            BadInput: it is no JSON, has another schema, or a field is missing, unknown or of the
                wrong type; the message names the field.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise BadInput(f"is no valid JSON: {error}", file=source) from None
        if not isinstance(data, dict):
            raise BadInput("is no JSON object", file=source)
        if data.get("schema") != SCHEMA:
            raise BadInput(
                f"has schema {data.get('schema')!r}; this release reads {SCHEMA}",
                file=source,
                field="schema",
                fix="use the release of vllm-quality that wrote the snapshot, or register it again",
            )
        read: Manifest = _read(cls, data, "", source)
        return read


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no blanks, so that equal values have equal texts."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def root_hash(files: Iterable[FileRecord]) -> str:
    r"""Return SHA-256 over the lines ``path\0size\0sha256\n``, sorted by path."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.path):
        digest.update(f"{file.path}\0{file.size}\0{file.sha256}\n".encode())
    return digest.hexdigest()


def deployment_key(weights_root: str, args_sha256: str | None, image: ImageRecord) -> str:
    """Return one short name for *these weights, served this way, by this image*."""
    image_name = image.digest or image.ref
    return hashlib.sha256(f"{weights_root}\0{args_sha256}\0{image_name}".encode()).hexdigest()[:16]


def was_redeployed(
    manifest: Manifest, weights_uri: str, args_sha256: str | None, image: ImageRecord
) -> bool:
    """Whether the place of the weights, the arguments or the image say that a change was meant.

    Other content in the same folder does not: it may be damage.
    """
    recorded = (manifest.weights.uri, manifest.serving.args_sha256, manifest.image)
    return (weights_uri, args_sha256, image) != recorded


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _read(kind: Any, value: Any, where: str, source: str) -> Any:
    """Turn parsed JSON into ``kind``; the field types of the dataclasses are the schema."""
    origin = typing.get_origin(kind)
    if origin in {types.UnionType, typing.Union}:
        if value is None:
            return None
        (kind,) = (option for option in typing.get_args(kind) if option is not type(None))
        return _read(kind, value, where, source)
    if is_dataclass(kind):
        return _read_record(kind, value, where, source)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong_type(value, "a list", where, source)
        item = typing.get_args(kind)[0]
        return tuple(_read(item, one, f"{where}[{i}]", source) for i, one in enumerate(value))
    expected = dict if origin is not None else kind
    if not isinstance(value, expected) or isinstance(value, bool):
        name = {"str": "a text", "int": "a whole number", "dict": "an object"}[expected.__name__]
        raise _wrong_type(value, name, where, source)
    return value


def _read_record(kind: Any, value: Any, where: str, source: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong_type(value, "an object", where, source)
    hints = typing.get_type_hints(kind)
    known = [f.name for f in fields(kind)]
    prefix = f"{where}." if where else ""
    for name in value.keys() - set(known):
        raise BadInput("is unknown in this schema", file=source, field=prefix + str(name))
    for name in known:
        # A written manifest holds every field, so that leaving one out never passes for a default.
        if name not in value:
            raise BadInput("is missing", file=source, field=prefix + name)
    return kind(**{name: _read(hints[name], value[name], prefix + name, source) for name in value})


def _wrong_type(value: Any, wanted: str, where: str, source: str) -> BadInput:
    return BadInput(f"should be {wanted}, not {value!r:.60}", file=source, field=where)
