"""The operator's commands: jobs, dead letters, breakers, effects. They work on the databases directly."""

from __future__ import annotations

import getpass
import json
import os
from typing import Annotated, Any

import typer
from rich.console import Console

from holdfast.cli_reach import dicts, each, fail, on_case, on_job, on_provider, show_rows, show_table
from holdfast.errors import NotFound
from holdfast.kernel import operate
from holdfast.kernel.effects import answer
from holdfast.kernel.explain import explain
from holdfast.kernel.hold import force
from holdfast.kernel.kernel import Kernel
from holdfast.system import OpenSystem
from holdfast.tables import breakers, cases, effects, events, jobs

jobs_cli = typer.Typer(help="Look at jobs, cancel them, retry them.", no_args_is_help=True)
dead_cli = typer.Typer(help="Work through dead letters: triage, remediate, replay, resolve.", no_args_is_help=True)
breakers_cli = typer.Typer(help="See, open and close circuit breakers.", no_args_is_help=True)
effects_cli = typer.Typer(help="See external effects; answer for those nobody else can know of.", no_args_is_help=True)

SystemNames = Annotated[list[str] | None, typer.Option("--system", help="Only this system.")]
AppPaths = Annotated[list[str] | None, typer.Option("--app", help="Your own app, as module:app.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Actor = Annotated[str, typer.Option("--actor", help="Who is doing this; written to the audit.")]
Limit = Annotated[int, typer.Option(help="How many rows.", min=1, max=1000)]
ME = getpass.getuser() if os.environ.get("USER") or os.name == "posix" else "operator"


def add_to(cli: typer.Typer) -> None:
    cli.add_typer(jobs_cli, name="jobs")
    cli.add_typer(dead_cli, name="dead")
    cli.add_typer(breakers_cli, name="breakers")
    cli.add_typer(effects_cli, name="effects")


@jobs_cli.command("list")
def jobs_list(
    state: Annotated[str | None, typer.Option(help="queued, processing, waiting, succeeded, dead, cancelled.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    limit: Limit = 50,
    system: SystemNames = None,
    app: AppPaths = None,
    as_json: AsJson = False,
) -> None:
    """The newest jobs first."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        async with one.kernel.store.reading() as tx:
            return dicts(await jobs.page(tx, state=state, kind=kind, limit=limit))

    show_rows(each(system, app, go), as_json, ["id", "kind", "stage", "state", "failures", "run_at", "hold", "error"])


@jobs_cli.command("show")
def jobs_show(job_id: str, system: SystemNames = None, app: AppPaths = None, as_json: AsJson = False) -> None:
    """One job: its row, its history, and in words why it is or is not running."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        async with one.kernel.store.reading() as tx:
            row = await jobs.show(tx, job_id)
            if row is None:
                return []
            history = dicts(await events.of_job(tx, job_id))
        why = await explain(one.kernel, job_id)
        return [{**dicts([row])[0], "why": why.sentence, "events": history}]

    found = each(system, app, go)
    if not found:
        fail(f"There is no job {job_id}.")
    if as_json:
        typer.echo(json.dumps(found[0], default=str))
        return
    console = Console()
    console.print(f"[bold]{found[0]['kind']}[/bold] {job_id} is [bold]{found[0]['state']}[/bold]", highlight=False)
    console.print(found[0]["why"], markup=False)
    show_table(found[0]["events"], ["at", "attempt", "type", "data"])


@jobs_cli.command("cancel")
def jobs_cancel(job_id: str, actor: Actor = ME, system: SystemNames = None, app: AppPaths = None) -> None:
    """End a job that has not ended."""
    on_job(system, app, job_id, lambda kernel: operate.cancel(kernel, job_id, actor))
    typer.echo(f"Job {job_id} is cancelled.")


@jobs_cli.command("retry")
def jobs_retry(
    job_id: str,
    evidence: Annotated[str, typer.Option(help="What was mended, and how that is known.")],
    cause: Annotated[str, typer.Option(help="transient, data, auth_config or code.")] = "transient",
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPaths = None,
) -> None:
    """Take a dead job through triage, remediation and replay in one go."""

    async def go(kernel: Kernel) -> None:
        async with kernel.store.reading() as tx:
            case = await cases.lock_of_job(tx, job_id)
        if case is None:
            raise NotFound(f"Job {job_id} has no dead letter; only a dead job can be retried by hand.")
        await operate.triage(kernel, case["id"], cause=cause, actor=actor)
        await operate.remediate(kernel, case["id"], evidence=evidence, actor=actor)
        await operate.replay(kernel, case["id"], actor=actor)

    on_job(system, app, job_id, go)
    typer.echo(f"Job {job_id} is queued again at its failed stage.")


@dead_cli.command("list")
def dead_list(
    state: Annotated[str | None, typer.Option(help="open, triaged, remediated, replayed, resolved, escalated.")] = None,
    error_class: Annotated[str | None, typer.Option(help="Only this error class.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    stage: Annotated[str | None, typer.Option(help="Only this stage.")] = None,
    limit: Limit = 50,
    system: SystemNames = None,
    app: AppPaths = None,
    as_json: AsJson = False,
) -> None:
    """Dead letters, the newest first."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        async with one.kernel.store.reading() as tx:
            rows = await cases.page(tx, state=state, error_class=error_class, kind=kind, stage=stage, limit=limit)
            return dicts(rows)

    columns = ["id", "kind", "stage", "state", "error_class", "failure_reason", "attempts_made", "last_error"]
    show_rows(each(system, app, go), as_json, columns)


@dead_cli.command("show")
def dead_show(case_id: str, system: SystemNames = None, app: AppPaths = None, as_json: AsJson = False) -> None:
    """Everything about one dead letter, and the next step."""
    from holdfast.core.case import NEXT_STEP, CaseState

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        async with one.kernel.store.reading() as tx:
            row = await cases.show(tx, case_id)
        return [] if row is None else dicts([row])

    found = each(system, app, go)
    if not found:
        fail(f"There is no dead letter {case_id}.")
    found[0]["next"] = NEXT_STEP[CaseState(found[0]["state"])]
    if as_json:
        typer.echo(json.dumps(found[0], default=str))
        return
    for name, value in found[0].items():
        if value not in (None, ""):
            typer.echo(f"{name:18} {value}")


@dead_cli.command("triage")
def dead_triage(
    case_id: str,
    cause: Annotated[str, typer.Option(help="transient, data, auth_config or code.")],
    notes: Annotated[str | None, typer.Option(help="What you found.")] = None,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPaths = None,
) -> None:
    """Step 1: say what kind of cause it was."""
    on_case(system, app, case_id, lambda k: operate.triage(k, case_id, cause=cause, actor=actor, notes=notes))
    typer.echo(f"Dead letter {case_id} is triaged as {cause}.")


@dead_cli.command("remediate")
def dead_remediate(
    case_id: str,
    evidence: Annotated[str, typer.Option(help="What was mended, and how that is known.")],
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPaths = None,
) -> None:
    """Step 2: record what was mended. A replay refuses without it."""
    on_case(system, app, case_id, lambda k: operate.remediate(k, case_id, evidence=evidence, actor=actor))
    typer.echo(f"Dead letter {case_id} is remediated.")


@dead_cli.command("replay")
def dead_replay(
    case_id: str,
    full: Annotated[bool, typer.Option("--full", help="From the first stage, paying for all of them again.")] = False,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPaths = None,
    as_json: AsJson = False,
) -> None:
    """Step 3: put the job back at its failed stage, with fresh budgets."""
    done = on_case(system, app, case_id, lambda k: operate.replay(k, case_id, actor=actor, full=full))
    body = {"job_id": done.job_id, "stage": done.stage, "run_at": done.run_at}
    typer.echo(json.dumps(body) if as_json else f"Job {done.job_id} is queued at stage '{done.stage}'.")


@dead_cli.command("resolve")
def dead_resolve(
    case_id: str,
    notes: Annotated[str, typer.Option(help="How it ended.")],
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPaths = None,
) -> None:
    """Step 4: close the case."""
    on_case(system, app, case_id, lambda k: operate.resolve(k, case_id, notes=notes, actor=actor))
    typer.echo(f"Dead letter {case_id} is resolved.")


@breakers_cli.command("list")
def breakers_list(system: SystemNames = None, app: AppPaths = None, as_json: AsJson = False) -> None:
    """Every provider that was ever called: its gate, and how many jobs wait for it."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        async with one.kernel.store.reading() as tx:
            return dicts(await breakers.every(tx))

    show_rows(each(system, app, go), as_json, ["name", "gate", "parked", "not_before", "updated_at"])


@breakers_cli.command("open")
def breakers_open(
    name: str,
    reason: Annotated[str, typer.Option(help="Why; shown to whoever wonders.")] = "opened by hand",
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPaths = None,
) -> None:
    """Stop all calls to a provider until it is closed by hand."""
    on_provider(system, app, name, lambda k: force(k, name, open=True, actor=actor, reason=reason))
    typer.echo(f"Breaker {name} is open; its jobs wait and spend nothing.")


@breakers_cli.command("close")
def breakers_close(name: str, actor: Actor = ME, system: SystemNames = None, app: AppPaths = None) -> None:
    """Let calls through again."""
    on_provider(system, app, name, lambda k: force(k, name, open=False, actor=actor, reason="closed by hand"))
    typer.echo(f"Breaker {name} is closed; its jobs drain with a ramp.")


@effects_cli.command("list")
def effects_list(
    status: Annotated[str | None, typer.Option(help="planned, sending, unknown, sent, failed, review.")] = None,
    limit: Limit = 50,
    system: SystemNames = None,
    app: AppPaths = None,
    as_json: AsJson = False,
) -> None:
    """External effects; `--status review` lists those that wait for a person."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        async with one.kernel.store.reading() as tx:
            return dicts(await effects.by_status(tx, status, limit))

    show_rows(each(system, app, go), as_json, ["key", "provider", "provider_class", "status", "provider_id", "sends"])


@effects_cli.command("answer")
def effects_answer(
    key: str,
    sent: Annotated[bool, typer.Option("--sent/--not-sent", help="Did it happen?")],
    provider_id: Annotated[str | None, typer.Option(help="The provider's id of it, if you know it.")] = None,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPaths = None,
) -> None:
    """Say whether a doubtful effect happened; then replay its job."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        done = await answer(one.kernel, key, sent=sent, provider_id=provider_id, actor=actor)
        return [{"key": key}] if done else []

    if not each(system, app, go):
        fail(f"No effect with the key '{key}' waits for an answer.")
    typer.echo(f"Recorded: '{key}' was {'sent' if sent else 'not sent'}.")
