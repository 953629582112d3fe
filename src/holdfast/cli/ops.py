"""The operator's commands: jobs, breakers, effects, costs. Each is a line of the desk's (`holdfast.operator`). Dead
letters and the outbox have modules of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import complete, control, dead, incidents, outbox, replays, schedules, status, top
from holdfast.cli.plain import LOOK, OPERATE, PlainGroup
from holdfast.cli.reach import act, at_desk, draw_rows, look, say, show, show_items
from holdfast.cli.start import ME, Actor, AppPath, AsJson, Kind, Limit, SystemNames, Watching
from holdfast.core.case import Cause
from holdfast.core.effect import EffectStatus
from holdfast.core.job import State

if TYPE_CHECKING:
    from rich.console import RenderableType

jobs_cli = typer.Typer(help="Look at jobs, cancel them, retry them.", no_args_is_help=True)
breakers_cli = typer.Typer(help="See, open and close circuit breakers.", no_args_is_help=True)
effects_cli = typer.Typer(help="See external effects; answer for those nobody else can know of.", no_args_is_help=True)

ProviderName = Annotated[str, typer.Argument(help="The provider's name.", autocompletion=complete.providers)]


def add_to(cli: typer.Typer) -> None:
    cli.command("status", rich_help_panel=LOOK)(status.status)
    cli.command("top", rich_help_panel=LOOK)(top.top)
    cli.command("costs", rich_help_panel=LOOK)(costs)
    cli.command("actions", rich_help_panel=LOOK)(actions_list)
    jobs_cli.command("priority")(control.jobs_priority)
    jobs_cli.command("run")(control.jobs_run)
    jobs_cli.command("delete")(control.jobs_delete)
    jobs_cli.command("bulk")(control.jobs_bulk)
    families = {
        "jobs": jobs_cli,
        "pauses": control.pauses_cli,
        "workers": control.workers_cli,
        "dead": dead.dead_cli,
        "replays": replays.replays_cli,
        "incidents": incidents.incidents_cli,
        "breakers": breakers_cli,
        "effects": effects_cli,
        "outbox": outbox.outbox_cli,
        "schedules": schedules.schedules_cli,
    }
    for name, family in families.items():
        cli.add_typer(family, name=name, cls=PlainGroup, rich_help_panel=OPERATE)


@jobs_cli.command("list")
def jobs_list(
    query: Annotated[
        list[str] | None,
        typer.Argument(help='Such as state:held owner:carla age:>10m error:422 input.order_id:7 "text" sort:oldest.'),
    ] = None,
    state: Annotated[State | None, typer.Option(help="Only jobs in this state.")] = None,
    kind: Kind = None,
    limit: Limit = 50,
    system: SystemNames = None,
    app: AppPath = None,
    watch: Watching = False,
    as_json: AsJson = False,
) -> None:
    """The newest jobs first; with a query, those that fit it, in its order: newest, oldest, deadline or failures."""
    from holdfast.operator import jobs
    from holdfast.operator.page import ListPage
    from holdfast.operator.query import join_words

    which = jobs.JobFilter(state=state, kind=kind)
    given = [f"state:{state}"] * bool(state) + [f'kind:"{kind}"'] * bool(kind)
    text = " ".join([join_words(query or ()), *given]).strip()
    columns = ["id", "kind", "stage", "state", "failures", "run_at", "hold", "error"]

    where = look(system, app)
    if query:
        none = "No job fits this. Text is looked for among the newest 10,000 jobs, declared search fields among all."
        ask = lambda: at_desk(where, jobs.query_jobs, ListPage(limit), text)  # noqa: E731
        show(ask, lambda found: draw_rows(found, columns, none), as_json, watch)
    else:
        show_items(where, columns, as_json, watch, jobs.list_jobs, ListPage(limit), which)


@jobs_cli.command("show")
def jobs_show(
    job_id: str, system: SystemNames = None, app: AppPath = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """One job: its row, its history, and in words why it is or is not running."""
    from holdfast.operator import story

    show(lambda: at_desk(look(system, app), story.show_job, job_id), _draw_job, as_json, watch)


def _draw_job(job: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from holdfast.cli.table import table_of

    title = Text.assemble((job["kind"], "bold"), f" {job['id']} is ", (job["state"], "bold"))
    shown: list[RenderableType] = [title, Text(job["why"]), table_of(job["events"], ["at", "attempt", "type", "data"])]
    for log in job["logs"]:
        shown.append(Text(f"Attempt {log['attempt']} logged {log['number']:,}:", "bold"))
        shown += [Text(f"{at} {level} {name}: {words}") for at, level, name, words in log["lines"]]
    return Group(*shown)


@jobs_cli.command("cancel")
def jobs_cancel(
    job_id: str, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """End a job that has not ended."""
    from holdfast.operator import jobs

    done = at_desk(act(system, app), jobs.cancel_job, job_id, actor)
    say(f"Job {job_id} is cancelled.", as_json, **done)


@jobs_cli.command("answer")
def jobs_answer(
    key: Annotated[str, typer.Argument(help="What the job waits for: the key of ctx.wait_for or Wait.")],
    value: Annotated[str, typer.Argument(help="The answer, as JSON.")],
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Answer what a job waits for; if none does yet, the answer is kept for it."""
    from holdfast.operator.schedules import answer_wait

    done = at_desk(act(system, app), answer_wait, key, value)
    words = "A job has it." if done["delivered"] else "No job waits for it yet: it is kept."
    say(words, as_json, **done)


@jobs_cli.command("retry")
def jobs_retry(
    job_id: str,
    evidence: Annotated[str, typer.Option(help="What was fixed, and how that is known.")],
    cause: Annotated[Cause, typer.Option(help="What kind of cause it was.")] = Cause.TRANSIENT,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Take a dead job through triage, remediation and replay in one go."""
    from holdfast.operator import jobs

    done = at_desk(act(system, app), jobs.retry_job, job_id, cause=cause, evidence=evidence, actor=actor)
    say(f"Job {job_id} is queued again at its failed stage.", as_json, **done)


@breakers_cli.command("list")
def breakers_list(
    system: SystemNames = None, app: AppPath = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """Every provider's breaker: its gate, why, until when, and how many jobs wait for it."""
    from holdfast.operator import providers

    columns = ["name", "gate", "reason", "parked", "open_s", "open_until", "not_before"]
    show_items(look(system, app), columns, as_json, watch, providers.list_breakers)


@breakers_cli.command("history")
def breakers_history(
    name: ProviderName, limit: Limit = 50, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """When a breaker opened and closed, and why, the newest first."""
    from holdfast.operator import providers

    columns = ["name", "gate", "at", "reason"]
    show_items(look(system, app), columns, as_json, False, providers.list_gate_changes, name, limit)


@breakers_cli.command("open")
def breakers_open(
    name: ProviderName,
    reason: Annotated[str, typer.Option(help="Why; shown to people who ask.")] = "opened by hand",
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Stop all calls to a provider until it is closed by hand."""
    from holdfast.operator import providers

    done = at_desk(act(system, app), providers.force_breaker, name, open=True, actor=actor, reason=reason)
    say(f"Breaker {name} is open; its jobs wait and spend nothing.", as_json, **done)


@breakers_cli.command("close")
def breakers_close(
    name: ProviderName, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Let calls through again."""
    from holdfast.operator import providers

    reason = "closed by hand"
    done = at_desk(act(system, app), providers.force_breaker, name, open=False, actor=actor, reason=reason)
    say(f"Breaker {name} is closed; its jobs drain with a ramp.", as_json, **done)


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
    from holdfast.operator import deliveries
    from holdfast.operator.page import ListPage

    columns = ["key", "provider", "provider_class", "status", "provider_id", "sends"]
    show_items(look(system, app), columns, as_json, watch, deliveries.list_effects, ListPage(limit), status)


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
    from holdfast.operator import deliveries

    done = at_desk(act(system, app), deliveries.answer_effect, key, sent=sent, provider_id=provider_id, actor=actor)
    say(f"Recorded: '{key}' was {'sent' if sent else 'not sent'}.", as_json, **done)


def costs(
    days: Annotated[int, typer.Option(help="How many days back, today included.", min=1, max=3660)] = 7,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """What the calls to providers cost: by day, provider and kind of job, in millionths of a currency unit."""
    from holdfast.operator import fleet

    show(lambda: at_desk(look(system, app), fleet.sum_costs, days), _draw_bill, as_json)


def _draw_bill(bill: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from holdfast.cli.table import table_of

    if not bill["items"]:
        return Text("Nothing.")
    columns = ["day", "system", "provider", "kind", "calls", "failed", "cost_micros"]
    return Group(table_of(bill["items"], columns), Text(f"In all: {bill['total_cost_micros'] / 1e6:,.6f}"))


def actions_list(
    by: Annotated[str | None, typer.Option(help="Only what this person did.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only this, as in job:ID or breaker:NAME.")] = None,
    people: Annotated[bool, typer.Option("--people", help="Without the kernel's own lines.")] = False,
    limit: Limit = 50,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Who did what, the newest first: every act of a person."""
    from holdfast.operator import fleet
    from holdfast.operator.page import ListPage

    columns = ["at", "actor", "action", "subject", "data"]
    show_items(look(system, app), columns, as_json, False, fleet.list_actions, ListPage(limit), by, subject, people)
