from pathlib import Path

import pytest

from quality_lib.adapters.engine.log import TAIL_BYTES, last_errors

AT_START = """\
(APIServer pid=1) INFO 11-29 20:08:55 [api_utils.py:347] version 0.32.0
(EngineCore pid=2) ERROR 11-29 20:09:00 [core.py:9] Traceback (most recent call last):
(EngineCore pid=2) ERROR 11-29 20:09:00 [core.py:9]   File "core.py", line 1, in run
(EngineCore pid=2) ERROR 11-29 20:09:00 [core.py:9] ValueError: the KV cache is too small
(EngineCore pid=2) ValueError: the KV cache is too small
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.
"""


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (AT_START, ("ValueError: the KV cache is too small",)),
        ("usage: x\nserver.py: error: unrecognized arguments: --no\n",
         ("server.py: error: unrecognized arguments: --no",)),
        ("loading\n\nstill loading\n", ("loading", "still loading")),
        ("", ()),
    ],
)  # fmt: skip
def test_the_cause_is_found(log: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "log").write_text(log)
    assert last_errors(tmp_path / "log") == expected


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("OSError: long ago\n" + "x" * TAIL_BYTES + "\nloading\n")
    assert last_errors(tmp_path / "log") == ("loading",)


def test_a_missing_log_says_nothing(tmp_path: Path) -> None:
    assert last_errors(tmp_path / "log") == ()
