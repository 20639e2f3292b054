"""The recording of one guarded server process: log and shipping, put together from its settings."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from quality_lib.exchanges.recording import preparation
from quality_lib.serving.exchange_log import ExchangeLog
from quality_lib.serving.log_files import LogFolder
from quality_lib.serving.metrics import GuardMetrics
from quality_lib.serving.shipping import S3Place, Shipper, Upload, s3_upload
from quality_lib.settings import ExchangeLogSettings


class Recording:
    """Records exchanges and ships them. ``append`` never raises and never waits."""

    def __init__(self, exchange_log: ExchangeLog, shipper: Shipper | None) -> None:
        self._log = exchange_log
        self._shipper = shipper
        self.append: Callable[[Mapping[str, Any]], None] = exchange_log.append

    def close(self, timeout_s: float = 10.0) -> None:
        """Finish the file and try to ship it; blocks for at most ``timeout_s``, so not in the event loop."""
        began = time.monotonic()
        self._log.close(timeout_s / 2)
        if self._shipper is not None:
            self._shipper.close(max(0.1, timeout_s - (time.monotonic() - began)))


def start_recording(
    settings: ExchangeLogSettings,
    service: str,
    metrics: GuardMetrics,
    *,
    clock: Callable[[], float] = time.time,
    upload: Upload | None = None,
) -> Recording | None:
    """Start to record as the settings say; ``None`` when they name no folder."""
    if settings.folder is None:
        return None
    folder = LogFolder(settings.folder, service, instance_id(), clock)
    exchange_log = ExchangeLog(
        folder,
        settings,
        prepare=preparation(
            detail_share=settings.detail_share, prompt=settings.prompt, mask=settings.mask
        ),
        on_lost=metrics.records_lost,
        on_written=metrics.records_written,
    )
    # So that not even the first record waits in memory; a dead disk must not stop the server.
    exchange_log.wait_ready(1.0)
    shipper = None
    if settings.ship_to is not None:
        place = S3Place.parse(settings.ship_to)
        shipper = Shipper(folder, place.prefix, upload or s3_upload(place), metrics)
        shipper.start()
    return Recording(exchange_log, shipper)


def instance_id() -> str:
    """Return a name that no other process has: host, process id, and a random part for restarts."""
    return f"{socket.gethostname()[:40]}_{os.getpid()}_{secrets.token_hex(3)}"
