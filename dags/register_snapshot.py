"""Register what serves, with its baseline, once it has been healthy long enough or when a person asks."""

from datetime import timedelta

import pendulum
from airflow.sdk import DAG, Param, task_group
from quality_airflow.configuration import gpu_queue
from quality_airflow.forms import one_or_all_services
from quality_airflow.notifier import QualityNotifier
from quality_airflow.operators import (
    BuildBaseline,
    CreateSnapshot,
    IsEligible,
    ListServices,
    retry_outside_faults,
)

DOC = """
### What it does

Looks every hour whether a service has been healthy for its `stable_hours` (24 by default) and is not yet
registered. Then it runs the golden set several times for a baseline, and registers weights, image,
arguments and baseline as a snapshot in MLflow. From then on `golden_hourly` compares with it, and a
rollback can go back to it.

### What the colours mean

| task | red | pink |
|---|---|---|
| `is_eligible` | MLflow, or the server of an eligible service, could not be asked | **not yet**: the log says why (usual at most hours). After a rollback: `quality.yaml` still names the folder that was left; the log names the line to change |
| `build_baseline` | the server did not answer, or its answers are too unstable for a baseline | not eligible |
| `create_snapshot` | weights or MLflow could not be read or written; nothing half-made is left | not eligible |

### By hand

*Trigger* with the service's name and **force** to register now, for example the very first snapshot or
right after a planned change. You vouch for it: whatever serves at that moment becomes the yardstick.
Your name and reason go into the audit trail.
"""

with DAG(
    dag_id="register_snapshot",
    description="Registers a healthy deployment and its baseline as a snapshot.",
    doc_md=DOC,
    schedule="30 * * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["quality", "snapshot"],
    default_args={"owner": "llm-serving", "retries": 0},
    params={
        "service": one_or_all_services(),
        "force": Param(
            False,
            type="boolean",
            title="Force",
            description="Register now, without waiting for stable hours.",
        ),
        "reason": Param(
            "",
            type="string",
            maxLength=200,
            title="Reason",
            description="Why, for the audit trail.",
        ),
    },
) as dag:
    services = ListServices(
        task_id="list_services",
        execution_timeout=timedelta(minutes=2),
        on_failure_callback=QualityNotifier("registration_failed"),
    )

    @task_group(group_id="services", prefix_group_id=False)
    def register(service: str) -> None:
        """Take one service from eligible to registered."""
        patient = {
            "retries": 2,
            "retry_policy": retry_outside_faults(timedelta(minutes=1)),
            "on_failure_callback": QualityNotifier("registration_failed"),
        }
        eligible = IsEligible(
            task_id="is_eligible",
            service=service,
            execution_timeout=timedelta(minutes=5),
            **patient,
        )
        baseline = BuildBaseline(
            task_id="build_baseline",
            service=service,
            pool="gpu",
            queue=gpu_queue(),
            execution_timeout=timedelta(hours=2),
            **patient,
        )
        snapshot = CreateSnapshot(
            task_id="create_snapshot",
            service=service,
            baseline=baseline.output,
            execution_timeout=timedelta(hours=2),
            on_success_callback=QualityNotifier("snapshot_registered"),
            **patient,
        )
        eligible >> baseline >> snapshot

    register.expand(service=services.output)
