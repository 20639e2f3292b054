"""Whose evidence is collected, within which limits, and what one part of it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.evidence.secrets import SecretMask
from quality_lib.errors import QualityError
from quality_lib.settings import EvidenceSettings
from quality_lib.snapshots.manifest import Manifest


@dataclass(frozen=True)
class PackLimits:
    """How much is collected, and how long each part may take."""

    part_s: float = 30.0
    hash_s: float = 1800.0
    """A hundred gigabytes from a fast disk take about a minute."""
    core_s: float = 900.0
    log_bytes: int = 16 << 20
    """The end of the engine's log."""
    exchanges: int = 200
    """The last recorded exchanges."""


def limits_of(settings: EvidenceSettings) -> PackLimits:
    """Return the limits that a service's configuration sets."""
    return PackLimits(
        part_s=settings.part_timeout_s,
        hash_s=settings.hash_timeout_s,
        log_bytes=settings.log_mb << 20,
        exchanges=settings.exchanges,
    )


@dataclass(frozen=True)
class Scene:
    """One instance, and what may be asked of it."""

    instance: Instance
    mask: SecretMask
    limits: PackLimits
    manifest: Manifest | None = None
    api_key: str | None = None
    exchange_folder: Path | None = None
    exchange_service: str = ""
    transport: httpx.BaseTransport | None = None


@dataclass(frozen=True)
class Part:
    """One part: where it goes, what it is, how long it may take."""

    name: str
    what: str
    limit_s: float
    collect: Callable[[Path], str]
    is_in_archive: bool = True


class NotGiven(QualityError):
    """A part that the server does not give."""
