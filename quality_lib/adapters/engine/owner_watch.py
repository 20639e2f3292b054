"""Ends an instance when the process that owns it dies: ``python -m … STATE_DIR INSTANCE_ID``.

``kill -9`` gives an owner no chance to clean up, and a forgotten server holds gigabytes.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from quality_lib.adapters.engine.local import LocalEngine

INTERVAL_S = 1.0


def main() -> None:
    """Wait until the owner or the server is gone, then end what is left of the instance."""
    state_dir, instance_id = sys.argv[1:]
    engine = LocalEngine(Path(state_dir))
    instance = engine.find(instance_id)
    while engine.is_running(instance) and not engine.owner_is_gone(instance):
        time.sleep(INTERVAL_S)
    engine.stop(instance, drain_s=0.0)


if __name__ == "__main__":
    main()
