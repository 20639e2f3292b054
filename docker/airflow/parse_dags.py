"""Parse every DAG file of this image on a fresh SQLite database; exit 1 on any error or no DAG.

Fed to the image's Python by docker/build_without_docker.sh. The last line is the result as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

# Before Airflow is imported: it reads its settings then.
os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = (  # noqa: TID251
    f"sqlite:///{tempfile.mkdtemp()}/airflow.db"
)

from airflow import plugins_manager
from airflow.dag_processing.dagbag import DagBag
from airflow.utils.db import initdb

initdb()
plugins_manager.ensure_plugins_loaded()
bag = DagBag()
result = {
    "dags": sorted(bag.dag_ids),
    "dag_errors": bag.import_errors,
    "plugins": sorted(plugin.name for plugin in plugins_manager._get_plugins()[0] if plugin.name),
    "plugin_errors": plugins_manager.get_import_errors(),
}
print(json.dumps(result))  # noqa: T201
sys.exit(0 if bag.dag_ids and not bag.import_errors and not result["plugin_errors"] else 1)
