"""The button that ends a rollback: the starting weights come back, at whatever step it is."""

from datetime import timedelta

import pendulum
from airflow.sdk import DAG, Param
from quality_airflow.abort_button import PressAbort
from quality_airflow.notifier import QualityNotifier
from quality_airflow.operators import retry_outside_faults

DOC = """
### What it does

Ends the rollback of one service: the step that runs now stops within seconds, the weights that it started
with are restored, what it has started is ended, and the incident is closed with a post-mortem. It works too
while the rollback waits for an approval, and when its DAG run is gone. The run of `rollback` then turns red.

### What the colours mean

| task | green | red |
|---|---|---|
| `abort` | **the starting weights are back** | no rollback was going on, or the weights could not be restored: the log says which, and what did not answer. Trigger again |

### By hand

*Trigger* with the service and a **reason**; both stand in the post-mortem with your name.
"""

with DAG(
    dag_id="abort_rollback",
    description="Ends a rollback and restores the weights it started with.",
    doc_md=DOC,
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["quality", "rollback"],
    default_args={"owner": "llm-serving", "retries": 0, "priority_weight": 1000},
    params={
        "service": Param(
            type="string",
            minLength=1,
            title="Service",
            description="A name from quality.yaml.",
        ),
        "reason": Param(
            type="string",
            minLength=3,
            maxLength=200,
            title="Reason",
            description="Why, for the post-mortem.",
        ),
    },
) as dag:
    PressAbort(
        task_id="abort",
        execution_timeout=timedelta(minutes=30),
        retries=3,
        retry_policy=retry_outside_faults(timedelta(seconds=10)),
        on_failure_callback=QualityNotifier("abort_failed", "rollback"),
        on_success_callback=QualityNotifier("went_back", "rollback"),
    )
