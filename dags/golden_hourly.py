"""Every hour, ask every service the golden set and tell when its answers have become worse."""

from datetime import timedelta

import pendulum
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, task_group
from quality_airflow.configuration import gpu_queue
from quality_airflow.forms import one_or_all_services
from quality_airflow.notifier import QualityNotifier
from quality_airflow.operators import (
    GoldenRun,
    Judge,
    ListServices,
    PublishRun,
    retry_outside_faults,
)

DOC = """
### What it does

Asks each service of `quality.yaml` the golden set, compares the answers with those of its snapshot, stores
the run in MLflow and judges it. Each service is a lane of its own: a bad one does not stop another.

### What the colours mean at 3 a.m.

| task | red | orange | pink |
|---|---|---|---|
| `list_services` | `quality.yaml` is broken: the log names file, line and fix | | |
| `run_golden` | **the checker is broken**, nothing is known about the model. Its log says what could not be reached | | |
| `publish` | MLflow is away; the run is safe in its folder. Clear the task when MLflow is back | the run before it failed | |
| `recorded` | | the result is not in MLflow: see the task before it | |
| `judge` | **the answers are bad or have changed.** Open *Report* on the task: reasons first, worst cases beside the healthy text | | nothing is known (no snapshot yet, too few answers, or the check itself failed): never a pass |

Yellow `run_golden` (up for retry) is a server or store that did not answer; the next try goes on where the
last one stopped.

### By hand

*Trigger* with one service name, or `all`. A new run asks again; clearing a finished `run_golden` only
judges the stored answers again.
"""

with DAG(
    dag_id="golden_hourly",
    description="Golden set against every service: verdict, report, alert.",
    doc_md=DOC,
    schedule="@hourly",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["quality", "golden"],
    default_args={"owner": "llm-serving", "retries": 0},
    params={"service": one_or_all_services()},
) as dag:
    services = ListServices(
        task_id="list_services",
        execution_timeout=timedelta(minutes=2),
        on_failure_callback=QualityNotifier("checker_broken"),
    )

    @task_group(group_id="services", prefix_group_id=False)
    def check(service: str) -> None:
        """Hold one service against its snapshot."""
        run = GoldenRun(
            task_id="run_golden",
            service=service,
            pool="gpu",
            queue=gpu_queue(),
            execution_timeout=timedelta(minutes=30),
            retries=2,
            retry_policy=retry_outside_faults(timedelta(minutes=1)),
            on_failure_callback=QualityNotifier("checker_broken"),
        )
        publish = PublishRun(
            task_id="publish",
            run=run.output,
            execution_timeout=timedelta(minutes=10),
            retries=3,
            retry_delay=timedelta(seconds=30),
            retry_exponential_backoff=True,
            on_failure_callback=QualityNotifier("not_recorded"),
            on_success_callback=QualityNotifier("recorded"),
        )
        Judge(
            task_id="judge",
            service=service,
            run=run.output,
            published=publish.output,
            on_failure_callback=QualityNotifier("quality_bad"),
            on_skipped_callback=QualityNotifier("no_data"),
            on_success_callback=QualityNotifier("recovered"),
        )
        # Judge runs whatever failed before it; this leaf makes such a failure the DAG run's own.
        publish >> EmptyOperator(task_id="recorded")

    check.expand(service=services.output)
