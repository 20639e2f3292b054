"""Every ten minutes, score the answers that users have just been given, from the production logs."""

import pendulum
from airflow.sdk import DAG
from quality_airflow.forms import one_or_all_services
from quality_airflow.scoring import score_lanes

DOC = """
### What it does

Samples the last window of each service's production log, asks the gates that need no model (levels 1, 2
and 4), estimates the share of low-quality answers, stores it in MLflow and judges it. More than 5 % bad
answers, proven by an exact test, is *degraded*; more than 25 % is *failed*. `score_logs_deep` asks models
too, every hour.

### What the colours mean at 3 a.m.

| task | red | orange | pink |
|---|---|---|---|
| `list_services` | `quality.yaml` is broken: the log names file, line and fix | | |
| `plan_window` | the log cannot be listed, or the service has none | | **not due yet**: each service has its own rhythm |
| `planned` | | a service has no plan: see `plan_window` | |
| `score` | **the checker is broken**, nothing is known of the answers | | nothing is due |
| `merge` | a partition is missing: see `score`. The window is read again by the next run | | nothing is due |
| `publish` | MLflow is away; the score is safe in its folder. Clear the task when MLflow is back | the merge before it failed | |
| `recorded` | | the score is not in MLflow: see the task before it | |
| `judge` | **users get bad answers.** Open *Report* on the task: who gets them, why, and the worst of them | | too few answers, an unreadable or redacted log, or the check itself failed: never a pass |

A window with too few answers is read again together with the next one, up to an hour; only then the
alert *no data* is sent.

### By hand

*Trigger* with one service name, or `all`. It scores the window that is due; how far each log was read is
kept in the state store of the asset `llm/logs`. Clearing tasks of a finished run asks nothing twice.
"""

with DAG(
    dag_id="score_logs",
    description="Low-quality rate of the last production answers: verdict, report, alert.",
    doc_md=DOC,
    # Windows end at full tens; three minutes later their last objects have arrived.
    schedule="3-59/10 * * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["quality", "logs"],
    default_args={"owner": "llm-serving", "retries": 0},
    params={"service": one_or_all_services()},
) as dag:
    score_lanes("quick")
