"""The end of a file that something may still be writing."""

from __future__ import annotations

from pathlib import Path


def tail(file: Path, most: int) -> tuple[str, int]:
    """Return the last whole lines of at most so many bytes, and the size of the file."""
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - most))
        text = stream.read(most).decode("utf-8", "replace")
    # The first line is cut: half of a secret would not be recognised.
    return (text.partition("\n")[2] if size > most else text), size


def last_lines(file: Path, count: int, most: int) -> list[str]:
    """Return the last lines that are not blank, of at most so many bytes."""
    text, _ = tail(file, most)
    return [line for line in text.split("\n") if line.strip()][-count:]
