"""Every hour, let models look at fewer production answers: similarity, perplexity, reference replay."""

import pendulum
from airflow.sdk import DAG
from quality_airflow.forms import one_or_all_services
from quality_airflow.scoring import score_lanes

DOC = """
### What it does

Takes a smaller sample of the last hour of each service's production log than `score_logs` and asks models
besides the gates: similarity with recent answers to the same prompt, perplexity under a reference model,
and *reference replay*, where a healthy instance of the snapshot reads the served answers and says which
tokens it finds impossible. It is a DAG of its own, so that waiting for a GPU never holds up the quick pass.

### What the colours mean

| task | red | orange | pink |
|---|---|---|---|
| `list_services` | `quality.yaml` is broken: the log names file, line and fix | | |
| `plan_window` | the log cannot be listed, or the service has none | | **not due yet**, or deep passes are off |
| `planned` | | a service has no plan: see `plan_window` | |
| `score` | **the checker is broken**: the log says which model or endpoint failed | | nothing is due |
| `merge` | a partition is missing: see `score`. The window is read again by the next run | | nothing is due |
| `publish` | MLflow is away; the score is safe in its folder. Clear the task when MLflow is back | the merge before it failed | |
| `recorded` | | the score is not in MLflow: see the task before it | |
| `judge` | **bad answers, or another model than the reference.** Open *Report* on the task | | nothing is known: never a pass |

### By hand

*Trigger* with one service name, or `all`. Without `scoring.replay_endpoint` in `quality.yaml` nothing is
replayed, and the report says so.
"""

with DAG(
    dag_id="score_logs_deep",
    description="Models look at a sample of production answers: perplexity, similarity, replay.",
    doc_md=DOC,
    # Away from golden_hourly at :00 and register_snapshot at :30, which want the GPU too.
    schedule="15 * * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["quality", "logs"],
    default_args={"owner": "llm-serving", "retries": 0},
    params={"service": one_or_all_services()},
) as dag:
    score_lanes("deep")
