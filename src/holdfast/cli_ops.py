"""The operator's commands: jobs, dead letters, breakers, effects. They work on the databases directly."""

from __future__ import annotations

import getpass
import json
from typing import Annotated, Any

import typer
from rich.console import Console

from holdfast.cli_reach import (
    check_id,
    dicts,
    each,
    fail,
    keep_showing,
    newest,
    on_case,
    on_job,
    on_provider,
    say,
    show_rows,
    show_table,
)
from holdfast.core.case import NEXT_STEP, CaseState, Cause
from holdfast.core.effect import EffectStatus
from holdfast.core.job import State
from holdfast.errors import NotFound
from holdfast.kernel import operate
from holdfast.kernel.effects import answer
from holdfast.kernel.explain import explain
from holdfast.kernel.hold import force
from holdfast.kernel.kernel import Kernel
from holdfast.system import OpenSystem
from holdfast.tables import breakers, cases, effects, events, jobs, ops


def _me() -> str:
    """The name at this terminal; a container may run under a number that has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "operator"


ME = _me()

jobs_cli = typer.Typer(help="Look at jobs, cancel them, retry them.", no_args_is_help=True)
dead_cli = typer.Typer(help="Work through dead letters: triage, remediate, replay, resolve.", no_args_is_help=True)
breakers_cli = typer.Typer(help="See, open and close circuit breakers.", no_args_is_help=True)
effects_cli = typer.Typer(help="See external effects; answer for those nobody else can know of.", no_args_is_help=True)

SystemNames = Annotated[list[str] | None, typer.Option("--system", help="Only this system.")]
AppPaths = Annotated[list[str] | None, typer.Option("--app", help="Your own app, as module:app.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Actor = Annotated[str, typer.Option("--actor", help="Who is doing this; written to the audit.")]
Limit = Annotated[int, typer.Option(help="How many rows.", min=1, max=1000)]


def add_to(cli: typer.Typer) -> None:
    cli.add_typer(jobs_cli, name="jobs")
    cli.add_typer(dead_cli, name="dead")
    cli.add_typer(breakers_cli, name="breakers")
    cli.add_typer(effects_cli, name="effects")


@jobs_cli.command("list")
def jobs_list(
    state: Annotated[State | None, typer.Option(help="Only jobs in this state.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    limit: Limit = 50,
    system: SystemNames = None,
    app: AppPaths = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show them anew every two seconds, until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """The newest jobs first."""
    columns = ["id", "kind", "stage", "state", "failures", "run_at", "hold", "error"]

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        async with one.kernel.store.reading() as tx:
            return dicts(await jobs.page(tx, state=state, kind=kind, limit=limit))

    if watch and as_json:
        raise typer.BadParameter("--watch draws tables; leave --json out.")
    if watch:
        keep_showing(lambda: newest(each(system, app, go), limit), ["system", *columns])
    else:
        show_rows(newest(each(system, app, go), limit), as_json, columns)


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

    check_id(job_id, "job")
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
def jobs_cancel(
    job_id: str, actor: Actor = ME, system: SystemNames = None, app: AppPaths = None, as_json: AsJson = False
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
    app: AppPaths = None,
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


@dead_cli.command("list")
def dead_list(
    state: Annotated[CaseState | None, typer.Option(help="Only dead letters in this state.")] = None,
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
    show_rows(newest(each(system, app, go), limit), as_json, columns)


@dead_cli.command("show")
def dead_show(case_id: str, system: SystemNames = None, app: AppPaths = None, as_json: AsJson = False) -> None:
    """Everything about one dead letter, and the next step."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        async with one.kernel.store.reading() as tx:
            row = await cases.show(tx, case_id)
        return [] if row is None else dicts([row])

    check_id(case_id, "dead letter")
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
    cause: Annotated[Cause, typer.Option(help="What kind of cause it was.")],
    notes: Annotated[str | None, typer.Option(help="What you found.")] = None,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPaths = None,
    as_json: AsJson = False,
) -> None:
    """Step 1: say what kind of cause it was."""
    on_case(system, app, case_id, lambda k: operate.triage(k, case_id, cause=cause, actor=actor, notes=notes))
    say(f"Dead letter {case_id} is triaged as {cause}.", as_json, id=case_id, state="triaged", cause=cause)


@dead_cli.command("remediate")
def dead_remediate(
    case_id: str,
    evidence: Annotated[str, typer.Option(help="What was mended, and how that is known.")],
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPaths = None,
    as_json: AsJson = False,
) -> None:
    """Step 2: record what was mended. A replay refuses without it."""
    on_case(system, app, case_id, lambda k: operate.remediate(k, case_id, evidence=evidence, actor=actor))
    say(f"Dead letter {case_id} is remediated.", as_json, id=case_id, state="remediated")


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
    sentence = f"Job {done.job_id} is queued at stage '{done.stage}'."
    say(sentence, as_json, job_id=done.job_id, stage=done.stage, run_at=done.run_at)


@dead_cli.command("resolve")
def dead_resolve(
    case_id: str,
    notes: Annotated[str, typer.Option(help="How it ended.")],
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPaths = None,
    as_json: AsJson = False,
) -> None:
    """Step 4: close the case."""
    on_case(system, app, case_id, lambda k: operate.resolve(k, case_id, notes=notes, actor=actor))
    say(f"Dead letter {case_id} is resolved.", as_json, id=case_id, state="resolved")


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
    as_json: AsJson = False,
) -> None:
    """Stop all calls to a provider until it is closed by hand."""
    on_provider(system, app, name, lambda k: force(k, name, open=True, actor=actor, reason=reason))
    say(f"Breaker {name} is open; its jobs wait and spend nothing.", as_json, name=name, gate="open")


@breakers_cli.command("close")
def breakers_close(
    name: str, actor: Actor = ME, system: SystemNames = None, app: AppPaths = None, as_json: AsJson = False
) -> None:
    """Let calls through again."""
    on_provider(system, app, name, lambda k: force(k, name, open=False, actor=actor, reason="closed by hand"))
    say(f"Breaker {name} is closed; its jobs drain with a ramp.", as_json, name=name, gate="closed")


@effects_cli.command("list")
def effects_list(
    status: Annotated[EffectStatus | None, typer.Option(help="Only effects in this status.")] = None,
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
    as_json: AsJson = False,
) -> None:
    """Say whether a doubtful effect happened; then replay its job."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        done = await answer(one.kernel, key, sent=sent, provider_id=provider_id, actor=actor)
        return [{"key": key}] if done else []

    if not each(system, app, go):
        fail(f"No effect with the key '{key}' waits for an answer.")
    say(f"Recorded: '{key}' was {'sent' if sent else 'not sent'}.", as_json, key=key, sent=sent)
