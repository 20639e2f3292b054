"""Take a service back to a healthy snapshot: validate it in staging, move the traffic, retire the old one."""

from datetime import timedelta

import pendulum
from airflow.sdk import DAG, Param, TriggerRule
from quality_airflow.approval import Approval
from quality_airflow.assets import HEALTH, ROLLBACK
from quality_airflow.configuration import gpu_queue
from quality_airflow.notifier import QualityNotifier
from quality_airflow.operators import retry_outside_faults
from quality_airflow.rollback import (
    BeginRollback,
    MoveTraffic,
    PlanRollback,
    RollbackStep,
    TakeWeightsBack,
)

DOC = """
### What it does

Takes one service back to a healthy snapshot. The target is re-hashed and asked the whole golden set in
staging before anything else; then a production instance is started and checked, and only then does the
traffic move, a share at a time, each watched and checked. At last the old instance is drained, its evidence
kept, and a post-mortem written. **Until the last share has moved, any failure restores the starting weights.**

### To end it now

Trigger **`abort_rollback`** with the service. Do not mark this run as failed: that works too, but then
`decide_rollback` puts the weights back only within five minutes.

### What the colours mean at 3 a.m.

| task | green | red | orange | pink |
|---|---|---|---|---|
| `plan` | press *Plan*: what happens, in which order, how long | it cannot be done: the log says why and what to do. **Nothing was changed** | | |
| `approve_first` | somebody said yes, or nobody has to be asked | rejected, or no answer in time. **Nothing was changed** | `plan` failed | a dry run |
| `begin` | from here on something is started | | see the task before it | a dry run |
| `validate` | the target is healthy | **no snapshot passed its check**; nothing was changed, a person must act | | |
| `start`, `check` | the new instance runs and answers well | it does not; traffic was not touched | | |
| `approve_last` | somebody said yes, or nobody has to be asked | rejected, or no answer in time | | |
| `move` | this share is served well | the share was served badly: see `abort` | | the move before it failed |
| `retire` | the old instance is out, its evidence kept | **the target serves; only the old one is left over.** `decide_rollback` goes on within five minutes; clearing the task does it now | | |
| `recover` | health is back | after the change the answers are still bad: **a person must act** | | |
| `report` | press *Report* for the post-mortem | it could not be stored. `decide_rollback` does it when MLflow is back | | |
| `stop_staging` | the staging instance is gone | it still holds a GPU: clear the task | | |
| `abort` | **the starting weights are back** | **they are not**: `decide_rollback` tries again every five minutes. See the log | | not needed |

Yellow is something outside that did not answer, or a step that waits for its turn; every step can be run
again and goes on where it stopped. Orange everywhere behind a red task is usual.

### By hand

*Trigger* opens the form. Only **Service** must be given; what is left empty comes from `quality.yaml`. With
**Dry run** the plan is made and shown, and nothing else happens.
"""

STRATEGIES = ["surge", "rolling", "in-place"]
MODES = ["auto", "approve-first", "approve-last"]
AS_CONFIGURED = "Empty: as configured."

with DAG(
    dag_id="rollback",
    description="Validate, shift, retire, report: back to a healthy snapshot.",
    doc_md=DOC,
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    # Services fall ill together (a driver, an image); each has its own run, and the library allows one
    # rollback per service.
    max_active_runs=16,
    tags=["quality", "rollback"],
    default_args={
        "owner": "llm-serving",
        "retries": 0,
        # Before golden runs that wait for the same GPU: users get bad answers now.
        "priority_weight": 1000,
        "on_failure_callback": QualityNotifier("rollback_step_failed", "rollback"),
    },
    params={
        "service": Param(
            type="string",
            minLength=1,
            title="Service",
            description="A name from quality.yaml.",
        ),
        "target": Param(
            None,
            type=["null", "string"],
            title="Target snapshot",
            description="Id, number or alias. Empty: the newest healthy one that is not the bad one.",
        ),
        "strategy": Param(
            None,
            type=["null", "string"],
            enum=[None, *STRATEGIES],
            title="Strategy",
            description=f"Spare hardware (surge), replica by replica, or in place. {AS_CONFIGURED}",
        ),
        "step_percent": Param(
            None,
            type=["null", "integer"],
            enum=[None, 25, 50, 100],
            title="Step size in percent",
            description=f"How much traffic each move takes. 100 is the emergency. {AS_CONFIGURED}",
        ),
        "soak": Param(
            None,
            type=["null", "number"],
            minimum=0,
            title="Soak in seconds",
            description=f"How long each share is watched. {AS_CONFIGURED}",
        ),
        "mode": Param(
            None,
            type=["null", "string"],
            enum=[None, *MODES],
            title="Mode",
            description=f"Who is asked, and when. {AS_CONFIGURED}",
        ),
        "reason": Param(
            "",
            type=["null", "string"],
            maxLength=200,
            title="Reason",
            description="Why, for the post-mortem.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Make and show the plan, change nothing.",
        ),
        "incident_id": Param(
            None,
            type=["null", "string"],
            title="Incident",
            description="Filled in by decide_rollback. Empty: the open incident, or a new one.",
        ),
    },
) as dag:
    outside = {"retries": 3, "retry_policy": retry_outside_faults(timedelta(seconds=20))}
    gpu = {"pool": "gpu", "queue": gpu_queue(), **outside}
    told = {"on_success_callback": QualityNotifier("rollback_step", "rollback")}

    plan = PlanRollback(
        task_id="plan",
        execution_timeout=timedelta(minutes=10),
        on_success_callback=QualityNotifier("rollback_started", "rollback"),
        **outside,
    )
    approve_first = Approval(
        task_id="approve_first", mode="approve-first", question="start the rollback?"
    )
    begin = BeginRollback(
        task_id="begin", execution_timeout=timedelta(minutes=2), **outside
    ).as_setup()
    validate = RollbackStep(
        task_id="validate", step="validate", execution_timeout=timedelta(hours=3), **gpu, **told
    )
    start = RollbackStep(
        task_id="start", step="start", execution_timeout=timedelta(hours=1), **gpu, **told
    )
    check = RollbackStep(
        task_id="check", step="check", execution_timeout=timedelta(minutes=30), **gpu, **told
    )
    approve_last = Approval(
        task_id="approve_last", mode="approve-last", question="move the traffic?"
    )
    # Not in the pool: traffic must never wait behind somebody's golden run.
    move = MoveTraffic.partial(
        task_id="move",
        map_index_template="{{ task.move.name }}",
        inlets=[HEALTH, ROLLBACK],
        max_active_tis_per_dagrun=1,
        execution_timeout=timedelta(hours=26),
        **outside,
        **told,
    ).expand(move=begin.output)
    retire = RollbackStep(
        task_id="retire", step="retire", execution_timeout=timedelta(hours=2), **outside, **told
    )
    recover = RollbackStep(
        task_id="recover", step="recover", execution_timeout=timedelta(hours=1), **outside, **told
    )
    report = RollbackStep(
        task_id="report",
        step="report",
        execution_timeout=timedelta(minutes=15),
        on_success_callback=QualityNotifier("rollback_done", "rollback"),
        **outside,
    )
    abort = TakeWeightsBack(
        task_id="abort",
        trigger_rule=TriggerRule.ONE_FAILED,
        execution_timeout=timedelta(minutes=30),
        retries=5,
        retry_policy=retry_outside_faults(timedelta(seconds=20)),
        on_success_callback=QualityNotifier("rollback_aborted", "rollback"),
        on_failure_callback=QualityNotifier("abort_failed", "rollback"),
    )
    stop_staging = RollbackStep(
        task_id="stop_staging",
        step="stop-staging",
        execution_timeout=timedelta(minutes=15),
        retries=5,
        retry_policy=retry_outside_faults(timedelta(seconds=20)),
        on_failure_callback=QualityNotifier("staging_left", "rollback"),
    ).as_teardown(setups=begin)

    plan >> approve_first >> begin >> validate >> start >> check >> stop_staging
    check >> approve_last >> move >> retire >> recover >> report
    # Not ``begin``: Airflow wants every task behind a setup to wait for success. Its failure arrives here by
    # the task after it.
    [approve_first, validate, start, check, approve_last, move, retire, recover] >> abort
