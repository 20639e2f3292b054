#!/usr/bin/env python3
"""Say by exit code whether one Airflow component of this stack is alive.

The component is the argument or ``$AIRFLOW_COMPONENT``: api-server, scheduler, triggerer, dag-processor.
All four are asked of the API server, which reads their heartbeats from the database: a tenth of a
second, where `airflow jobs check` imports Airflow for several seconds in every container.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request

TIMEOUT_S = 8


def main() -> int:
    """Return 0 when the component is healthy; else 1 and the reason on stderr."""
    env = os.environ  # noqa: TID251
    component = sys.argv[1] if len(sys.argv) > 1 else env.get("AIRFLOW_COMPONENT", "api-server")
    base = env.get("AIRFLOW_HEALTH_URL", "http://127.0.0.1:8080")
    url = f"{base}/api/v2/monitor/health"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310
            health = json.load(answer)
    except (OSError, ValueError) as error:
        print(f"{url}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    # That the API server answers is half of its health; the other half is its database.
    asked = "metadatabase" if component == "api-server" else component.replace("-", "_")
    status = (health.get(asked) or {}).get("status")
    if status != "healthy":
        print(f"{component}: {status or 'unknown to the API server'}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
