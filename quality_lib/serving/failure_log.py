"""Failed verdicts as structured log lines, a few a second at most."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from quality_lib.gates.gate import GateVerdict
from quality_lib.records import Outcome

SNIPPET_CHARACTERS = 120
MASKED_CHARACTERS = 16_384
"""Masked of a text, so that a line costs little however long the text is."""
_CUT_WORD = re.compile(r"^[!-~]+")


class FailureLog:
    """Write one JSON line per FAILED verdict; what exceeds the rate is counted in the next line."""

    def __init__(
        self,
        clock: Callable[[], float],
        mask: Callable[[str], str] | None = None,
        per_second: float = 5.0,
        logger: Any = None,
    ) -> None:
        self._clock = clock
        self._mask = mask
        self._per_second = per_second
        self._logger = _json_logger() if logger is None else logger
        self._allowance = per_second
        self._last = clock()
        self._unwritten = 0

    def failed(
        self, request_id: str, said: Sequence[GateVerdict], text: str | None = None, **more: Any
    ) -> None:
        """Log the FAILED ones of what gates have said, with a masked piece of the text."""
        for one in said:
            if one.verdict.outcome is not Outcome.FAILED:
                continue
            if not self._may_write():
                self._unwritten += 1
                continue
            if self._unwritten:
                more["unwritten"], self._unwritten = self._unwritten, 0
            self._logger.warning(
                "quality_check_failed",
                request_id=request_id,
                check=one.gate,
                gate_level=int(one.level),
                reason=one.verdict.reason,
                sentence=self._masked(one.verdict.sentence),
                snippet=self._snippet(text or ""),
                **more,
            )

    def _snippet(self, text: str) -> str | None:
        """Return the end of a text; masked before it is cut, since half a secret is not known as one."""
        if len(text) > MASKED_CHARACTERS:
            # What the first cut may have halved is left out.
            text = _CUT_WORD.sub("", text[-MASKED_CHARACTERS:], count=1)
        masked = self._masked(text)
        return masked and masked[-SNIPPET_CHARACTERS:]

    def _masked(self, text: str) -> str | None:
        # Without a mask no text of a user is logged.
        return self._mask(text) if self._mask is not None and text else None

    def _may_write(self) -> bool:
        now = self._clock()
        gained = (now - self._last) * self._per_second
        self._last = now
        self._allowance = min(self._per_second, self._allowance + gained)
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True


def _json_logger() -> Any:
    """Make a logger of our own, so that the server's logging stays as it is configured."""
    import structlog

    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        cache_logger_on_first_use=True,
    )
