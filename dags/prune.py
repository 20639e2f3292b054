"""Every night, remove what nobody needs any more: old snapshots, logs and evidence."""

from datetime import timedelta

import pendulum
from airflow.sdk import DAG, Param
from quality_airflow.assets import HEALTH
from quality_airflow.forms import one_or_all_services
from quality_airflow.notifier import QualityNotifier
from quality_airflow.operators import ListServices, retry_outside_faults
from quality_airflow.pruning import Prune

DOC = """
### What it does

Keeps so many healthy snapshots, logs and evidence of each service as its retention says, and removes the
rest. Never removed: the snapshot that serves, the last healthy one, a pinned one, and one that an open
incident needs.

### What the colours mean

| task | green | red |
|---|---|---|
| `list_services` | | `quality.yaml` is broken: the log names file, line and fix |
| `prune` | done; its log lists what went and why the rest stays | MLflow or S3 did not answer. Nothing is lost, the next night goes on |

### By hand

*Trigger* with **Dry run** lists what would go.
"""

with DAG(
    dag_id="prune",
    description="Removes snapshots, logs and evidence that the retention no longer keeps.",
    doc_md=DOC,
    schedule="45 2 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["quality", "snapshot"],
    default_args={"owner": "llm-serving", "retries": 0},
    params={
        "service": one_or_all_services(),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="List what would be removed, remove nothing.",
        ),
    },
) as dag:
    services = ListServices(
        task_id="list_services",
        execution_timeout=timedelta(minutes=2),
        on_failure_callback=QualityNotifier("prune_failed", "prune"),
    )
    Prune.partial(
        task_id="prune",
        inlets=[HEALTH],
        map_index_template="{{ task.service }}",
        execution_timeout=timedelta(hours=2),
        retries=2,
        retry_policy=retry_outside_faults(timedelta(minutes=1)),
        on_failure_callback=QualityNotifier("prune_failed", "prune"),
        on_success_callback=QualityNotifier("recovered", "prune"),
    ).expand(service=services.output)
