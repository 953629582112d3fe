"""The operator's commands: jobs, breakers, effects, costs. They work on the databases directly. Dead letters and the
outbox have modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from holdfast import cli_complete, cli_dead, cli_outbox
from holdfast.cli_reach import (
    check_id,
    dicts,
    each,
    fail,
    on_job,
    on_provider,
    say,
    show,
    show_page,
    show_rows,
    table_of,
)
from holdfast.cli_start import ME, Actor, AppPath, AsJson, Kind, Limit, SystemNames, Watching
from holdfast.core.case import CaseState, Cause
from holdfast.core.effect import EffectStatus
from holdfast.core.job import State
from holdfast.errors import NotFound
from holdfast.kernel import operate
from holdfast.kernel.deploy import WORKER_FRESH_MS
from holdfast.kernel.effects import answer
from holdfast.kernel.explain import explain
from holdfast.kernel.hold import force
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.schedule import list_schedules
from holdfast.kernel.spending import DAY_MS, spending
from holdfast.stores.seam import Row, Tx
from holdfast.system import OpenSystem
from holdfast.tables import breakers, effects, events, jobs, ops, workers

jobs_cli = typer.Typer(help="Look at jobs, cancel them, retry them.", no_args_is_help=True)
breakers_cli = typer.Typer(help="See, open and close circuit breakers.", no_args_is_help=True)
effects_cli = typer.Typer(help="See external effects; answer for those nobody else can know of.", no_args_is_help=True)

ProviderName = Annotated[str, typer.Argument(help="The provider's name.", autocompletion=cli_complete.providers)]


def add_to(cli: typer.Typer) -> None:
    cli.add_typer(jobs_cli, name="jobs")
    cli.add_typer(cli_dead.dead_cli, name="dead")
    cli.add_typer(breakers_cli, name="breakers")
    cli.add_typer(effects_cli, name="effects")
    cli.add_typer(cli_outbox.outbox_cli, name="outbox")
    cli.command()(costs)
    cli.command("schedules")(schedules_list)
    cli.command("workers")(workers_list)
    cli.command("actions")(actions_list)


@jobs_cli.command("list")
def jobs_list(
    state: Annotated[State | None, typer.Option(help="Only jobs in this state.")] = None,
    kind: Kind = None,
    limit: Limit = 50,
    system: SystemNames = None,
    app: AppPath = None,
    watch: Watching = False,
    as_json: AsJson = False,
) -> None:
    """The newest jobs first."""

    async def read(tx: Tx) -> Sequence[Row]:
        return await jobs.page(tx, state=state, kind=kind, limit=limit)

    columns = ["id", "kind", "stage", "state", "failures", "run_at", "hold", "error"]
    show_page(system, app, read, columns, as_json, watch, newest="id", limit=limit)


@jobs_cli.command("show")
def jobs_show(
    job_id: str, system: SystemNames = None, app: AppPath = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """One job: its row, its history, and in words why it is or is not running."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        async with one.kernel.store.reading() as tx:
            row = await jobs.show(tx, job_id)
            if row is None:
                return []
            history = dicts(await events.of_job(tx, job_id))
        why = await explain(one.kernel, job_id)
        return [{**dicts([row])[0], "why": why.sentence, "events": history}]

    def found() -> dict[str, Any]:
        rows = each(system, app, go)
        return rows[0] if rows else fail(f"There is no job {job_id}.")

    check_id(job_id, "job")
    show(found, _story, as_json, watch)


def _story(job: dict[str, Any]) -> RenderableType:
    title = Text.assemble((job["kind"], "bold"), f" {job['id']} is ", (job["state"], "bold"))
    return Group(title, Text(job["why"]), table_of(job["events"], ["at", "attempt", "type", "data"]))


@jobs_cli.command("cancel")
def jobs_cancel(
    job_id: str, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """End a job that has not ended."""
    on_job(system, app, job_id, lambda kernel: operate.cancel(kernel, job_id, actor))
    say(f"Job {job_id} is cancelled.", as_json, job_id=job_id, state="cancelled")


@jobs_cli.command("retry")
def jobs_retry(
    job_id: str,
    evidence: Annotated[str, typer.Option(help="What was mended, and how that is known.")],
    cause: Annotated[Cause, typer.Option(help="What kind of cause it was.")] = Cause.TRANSIENT,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Take a dead job through triage, remediation and replay in one go."""

    async def go(kernel: Kernel) -> None:
        async with kernel.store.reading() as tx:
            case = await ops.case_of_job(tx, job_id)
        if case is None:
            raise NotFound(f"Job {job_id} has no dead letter; only a dead job can be retried by hand.")
        if case["state"] != CaseState.REMEDIATED:  # somebody may have come so far already
            await operate.triage(kernel, case["id"], cause=cause, actor=actor)
        await operate.remediate(kernel, case["id"], evidence=evidence, actor=actor)
        await operate.replay(kernel, case["id"], actor=actor)

    on_job(system, app, job_id, go)
    say(f"Job {job_id} is queued again at its failed stage.", as_json, job_id=job_id, state="queued")


@breakers_cli.command("list")
def breakers_list(
    system: SystemNames = None, app: AppPath = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """Every provider that was ever called: its gate, and how many jobs wait for it."""
    show_page(system, app, breakers.listed, ["name", "gate", "parked", "not_before", "updated_at"], as_json, watch)


@breakers_cli.command("history")
def breakers_history(
    name: ProviderName, limit: Limit = 50, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """When a breaker opened and closed, and why, the newest first."""

    async def read(tx: Tx) -> Sequence[Row]:
        return await breakers.history(tx, name, limit)

    show_page(system, app, read, ["name", "gate", "at", "reason"], as_json)


@breakers_cli.command("open")
def breakers_open(
    name: ProviderName,
    reason: Annotated[str, typer.Option(help="Why; shown to whoever wonders.")] = "opened by hand",
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Stop all calls to a provider until it is closed by hand."""
    on_provider(system, app, name, lambda k: force(k, name, open=True, actor=actor, reason=reason))
    say(f"Breaker {name} is open; its jobs wait and spend nothing.", as_json, name=name, gate="open")


@breakers_cli.command("close")
def breakers_close(
    name: ProviderName, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Let calls through again."""
    on_provider(system, app, name, lambda k: force(k, name, open=False, actor=actor, reason="closed by hand"))
    say(f"Breaker {name} is closed; its jobs drain with a ramp.", as_json, name=name, gate="closed")


@effects_cli.command("list")
def effects_list(
    status: Annotated[EffectStatus | None, typer.Option(help="Only effects in this status.")] = None,
    limit: Limit = 50,
    system: SystemNames = None,
    app: AppPath = None,
    watch: Watching = False,
    as_json: AsJson = False,
) -> None:
    """External effects; `--status review` lists those that wait for a person."""

    async def read(tx: Tx) -> Sequence[Row]:
        return await effects.by_status(tx, status, limit)

    columns = ["key", "provider", "provider_class", "status", "provider_id", "sends"]
    show_page(system, app, read, columns, as_json, watch)


@effects_cli.command("answer")
def effects_answer(
    key: str,
    sent: Annotated[bool, typer.Option("--sent/--not-sent", help="Did it happen?")],
    provider_id: Annotated[str | None, typer.Option(help="The provider's id of it, if you know it.")] = None,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a doubtful effect happened; then replay its job."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        done = await answer(one.kernel, key, sent=sent, provider_id=provider_id, actor=actor)
        return [{"key": key}] if done else []

    if not each(system, app, go):
        fail(f"No effect with the key '{key}' waits for an answer.")
    say(f"Recorded: '{key}' was {'sent' if sent else 'not sent'}.", as_json, key=key, sent=sent)


def costs(
    days: Annotated[int, typer.Option(help="How many days back, today included.", min=1, max=3660)] = 7,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """What the calls to providers cost: by day, provider and kind of job, in millionths of a currency unit."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        today = one.kernel.now() // DAY_MS
        return await spending(one.kernel, (today - days + 1) * DAY_MS)

    def found() -> dict[str, Any]:
        items = sorted(each(system, app, go), key=lambda item: item["day"], reverse=True)
        return {"items": items, "total_cost_micros": sum(item["cost_micros"] for item in items)}

    show(found, _bill, as_json)


def _bill(found: dict[str, Any]) -> RenderableType:
    if not found["items"]:
        return Text("Nothing.")
    columns = ["day", "system", "provider", "kind", "calls", "failed", "cost_micros"]
    return Group(table_of(found["items"], columns), Text(f"In all: {found['total_cost_micros']:,} millionths"))


def schedules_list(
    system: SystemNames = None, app: AppPath = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """Cron schedules: what each enqueues, when it last did, and when it does next."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        return await list_schedules(one.kernel)

    show_rows(lambda: each(system, app, go), ["name", "cron", "kind", "last_at", "next_at"], as_json, watch)


def workers_list(
    system: SystemNames = None, app: AppPath = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """Workers by their last report; one that was silent for long is not alive."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        oldest = one.kernel.now() - WORKER_FRESH_MS
        async with one.kernel.store.reading() as tx:
            return [{**dict(row), "alive": row["seen_at"] >= oldest} for row in await workers.every(tx)]

    columns = ["name", "queues", "in_flight", "started_at", "seen_at", "alive"]
    show_rows(lambda: each(system, app, go), columns, as_json, watch)


def actions_list(
    by: Annotated[str | None, typer.Option(help="Only what this person did.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only this, as in job:ID or breaker:NAME.")] = None,
    limit: Limit = 50,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Who did what, the newest first: every act of an operator or an instructor."""

    async def read(tx: Tx) -> Sequence[Row]:
        return await ops.audit_page(tx, before=None, limit=limit, actor=by, subject=subject)

    show_page(system, app, read, ["at", "actor", "action", "subject", "data"], as_json, newest="at", limit=limit)
