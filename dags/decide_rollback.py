"""After every result, and every five minutes, decide whether a service must go back; start it once."""

from datetime import timedelta

import pendulum
from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable, task_group
from quality_airflow.assets import EVIDENCE
from quality_airflow.decision import Decide, IsFresh, StartRollback, TakeBack
from quality_airflow.forms import one_or_all_services
from quality_airflow.notifier import QualityNotifier
from quality_airflow.operators import ListServices, retry_outside_faults

DOC = """
### What it does

Asks `quality decide` for each service: bad golden runs (A), low-quality answers (B), engine signals (C), put
together by the service's policy, `(A and B) or C` by default. When it says *roll back*, it starts the DAG
`rollback` with a run named after the incident, so that an incident has one rollback, however often and by
whomever it is decided. It runs when a golden run or a score of the log was stored, and every five minutes.

### What the colours mean at 3 a.m.

| task | green | red | orange | pink |
|---|---|---|---|---|
| `list_services` | | `quality.yaml` is broken: the log names file, line and fix | | |
| `is_fresh` | golden runs arrive | | | **nobody is looking**: no golden run was stored for too long. Look at `golden_hourly` |
| `take_back` | no rollback is left behind, or it was ended here: taken back, or finished where its target serves everything | **an unfinished rollback could not be ended**: the log says what did not answer, or which check failed | | the target serves, and the last steps cannot be done yet; the next run tries again |
| `decide` | decided; the log has the conditions with their numbers | the decision itself failed | see the task before it | nothing usable is known: never a pass, never a rollback |
| `start_rollback` | **a rollback was started**: see the DAG `rollback` | **it should have started and did not**, most likely because the DAG `rollback` is paused | | nothing to start, or it runs already |

### By hand

*Trigger* with one service name, or `all`. To see the whole truth table: `quality decide --service NAME
--explain`. To go back without waiting for evidence, trigger `rollback` itself.
"""

with DAG(
    dag_id="decide_rollback",
    description="Decides over the recorded evidence and starts a rollback once per incident.",
    doc_md=DOC,
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable("*/5 * * * *", timezone="UTC"), assets=[EVIDENCE]
    ),
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    # To finish a rollback whose driver died may take as long as its old instance needs to drain. Meanwhile
    # the other services are decided by the next runs; a second one waits for nobody and does nothing twice.
    max_active_runs=4,
    tags=["quality", "rollback"],
    default_args={"owner": "llm-serving", "retries": 0},
    params={"service": one_or_all_services()},
) as dag:
    services = ListServices(
        task_id="list_services",
        execution_timeout=timedelta(minutes=2),
        on_failure_callback=QualityNotifier("checker_broken", "decision"),
    )

    @task_group(group_id="services", prefix_group_id=False)
    def decide_on(service: str) -> None:
        """Look at one service."""
        patient = {
            "retries": 2,
            "retry_policy": retry_outside_faults(timedelta(seconds=20)),
            "execution_timeout": timedelta(minutes=5),
        }
        IsFresh(
            task_id="is_fresh",
            service=service,
            execution_timeout=timedelta(minutes=2),
            on_failure_callback=QualityNotifier("checker_broken", "stale"),
            on_skipped_callback=QualityNotifier("stale_data"),
            on_success_callback=QualityNotifier("fresh_data"),
        )
        take_back = TakeBack(
            task_id="take_back",
            service=service,
            on_failure_callback=QualityNotifier("abort_failed", "rollback"),
            on_skipped_callback=QualityNotifier("rollback_unfinished", "rollback"),
            on_success_callback=QualityNotifier("went_back", "rollback"),
            **{**patient, "execution_timeout": timedelta(hours=1)},
        )
        decide = Decide(
            task_id="decide",
            service=service,
            on_failure_callback=QualityNotifier("checker_broken", "decision"),
            on_success_callback=QualityNotifier("decided", "decision"),
            **patient,
        )
        start = StartRollback(
            task_id="start_rollback",
            service=service,
            decision=decide.output,
            execution_timeout=timedelta(minutes=2),
            retries=2,
            retry_delay=timedelta(seconds=20),
            on_failure_callback=QualityNotifier("rollback_not_started", "decision"),
        )
        take_back >> decide >> start

    decide_on.expand(service=services.output)
