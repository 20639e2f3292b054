"""The last steps that all gateway formats share: from choices to rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from quality_lib.exchanges.exchange import Exchange
from quality_lib.exchanges.lost_text import is_redacted, is_request_whole, is_truncated
from quality_lib.exchanges.row import Dropped, DropReason, Facts, Row, Scored


def rows_of_choices(
    exchanges: Sequence[Exchange], facts: Facts, key: str, line: int, request_id: str
) -> Iterator[Row]:
    """Give a row per choice; texts that the log removed or cut are dropped.

    A request whose own text was removed keeps its answer: what judges answers alone still can.
    """
    for exchange in exchanges:
        answer = exchange.answer
        if answer is None:
            yield Dropped(DropReason.NO_ANSWER, key, line, request_id)
        elif is_redacted(answer):
            yield Dropped(DropReason.REDACTED, key, line, request_id)
        elif is_truncated(exchange):
            yield Dropped(DropReason.TRUNCATED, key, line, request_id)
        else:
            whole = is_request_whole(exchange)
            yield Scored(
                exchange=exchange if whole else replace(exchange, messages=None, prompt=None),
                facts=facts,
                key=key,
                line=line,
                request_id=request_id,
            )
