"""The commands for dead letters: look, then triage, remediate or edit, replay, resolve; one by one or many."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.reach import act, at_desk, draw_rows, fail, finite, look, say, show, show_items
from holdfast.cli.start import ME, Actor, AppPath, AsJson, Kind, Limit, SystemNames, Watching
from holdfast.core.case import CaseState, Cause

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.kernel.hands.correct import Correction
    from holdfast.operator.desk import Desk

dead_cli = typer.Typer(
    help="Work through dead letters: triage, remediate or edit, replay, resolve.", no_args_is_help=True
)

OnlyState = Annotated[CaseState | None, typer.Option(help="Only dead letters in this state.")]
OnlyClass = Annotated[str | None, typer.Option(help="Only this error class.")]
WithoutReplay = Annotated[str | None, typer.Option(help="Why it is closed although no replay has succeeded.")]
OnlyStage = Annotated[str | None, typer.Option(help="Only this stage.")]


class CaseStep(StrEnum):
    TRIAGE = "triage"
    REMEDIATE = "remediate"
    REPLAY = "replay"
    RESOLVE = "resolve"


@dead_cli.command("list")
def dead_list(
    state: OnlyState = None,
    error_class: OnlyClass = None,
    kind: Kind = None,
    stage: OnlyStage = None,
    limit: Limit = 50,
    system: SystemNames = None,
    app: AppPath = None,
    watch: Watching = False,
    as_json: AsJson = False,
) -> None:
    """Dead letters, the newest first."""
    from holdfast.operator import letters
    from holdfast.operator.page import ListPage

    which = letters.LetterFilter(state=state, error_class=error_class, kind=kind, stage=stage)
    columns = ["id", "kind", "stage", "state", "error_class", "failure_reason", "last_error", "attempts_made"]
    show_items(look(system, app), columns, as_json, watch, letters.list_letters, ListPage(limit), which)


@dead_cli.command("groups")
def dead_groups(
    limit: Limit = 50, system: SystemNames = None, app: AppPath = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """Dead letters that a person would treat as one, escalated ones and large groups first."""
    from holdfast.operator import letters

    show(lambda: at_desk(look(system, app), letters.list_groups, limit), _draw_groups, as_json, watch)


def _draw_groups(found: dict[str, Any]) -> RenderableType:
    rows = [{**group, "error": _gist(group)} for group in found["items"]]
    return draw_rows({"items": rows}, ["letters", "state", "kind", "stage", "fingerprint", "error", "cause"])


def _gist(group: dict[str, Any]) -> str:
    """What a program raised by mistake begins with a name of its own, which says more than that it is a bug."""
    error = " ".join(str(group["last_error"]).split())
    return error if group["error_class"] == "BUG" else f"{group['error_class']}: {error}"


@dead_cli.command("show")
def dead_show(
    case_id: str, system: SystemNames = None, app: AppPath = None, watch: Watching = False, as_json: AsJson = False
) -> None:
    """Everything about one dead letter, and the next step."""
    from holdfast.operator import letters

    show(lambda: at_desk(look(system, app), letters.show_letter, case_id), _draw_letter, as_json, watch)


def _draw_letter(case: dict[str, Any]) -> RenderableType:
    from holdfast.cli.table import lines

    return lines(case)


@dead_cli.command("triage")
def dead_triage(
    case_id: str,
    cause: Annotated[Cause, typer.Option(help="What kind of cause it was.")],
    notes: Annotated[str | None, typer.Option(help="What you found.")] = None,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Step 1: say what kind of cause it was."""
    from holdfast.operator import letters

    done = at_desk(act(system, app), letters.triage_letter, case_id, cause=cause, actor=actor, notes=notes)
    say(f"Dead letter {case_id} is triaged as {cause}.", as_json, **done)


@dead_cli.command("remediate")
def dead_remediate(
    case_id: str,
    evidence: Annotated[str, typer.Option(help="What was fixed, and how that is known.")],
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Step 2: record what was fixed. A replay refuses without it."""
    from holdfast.operator import letters

    done = at_desk(act(system, app), letters.remediate_letter, case_id, evidence=evidence, actor=actor)
    say(f"Dead letter {case_id} is remediated.", as_json, **done)


@dead_cli.command("edit")
def dead_edit(
    case_id: str,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="field=value or list.0.field=value; field:=JSON. May be given again."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="The whole input as JSON; - reads it from the terminal.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why, for the audit.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the difference, and where it would begin.")
    ] = False,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Instead of step 2: correct the job's input before its replay. The original is kept."""
    from holdfast.operator import letters

    if (not set_) == (file is None):
        raise typer.BadParameter("Give either --set (as often as needed) or --file.")
    document = None if file is None else _document(file)

    async def go(desk: Desk, case_id: str) -> tuple[dict[str, Any], Correction]:
        values = None if document is not None else await letters.parse_assignments(desk, case_id, set_ or [])
        return await letters.correct_letter(
            desk, case_id, actor=actor, values=values, document=document, reason=reason, dry_run=dry_run
        )

    answer, done = at_desk(act(system, app), go, case_id)
    lines = [f"{change.path}: {_word(change.before)} -> {_word(change.after)}" for change in done.changes]
    lines.append(done.reason())
    lines += [f"The effect {key} is {status} under the old input." for key, status in done.effects]
    said = "would be corrected; nothing was changed" if dry_run else "is corrected, and remediated by that"
    say("\n".join([*lines, f"Dead letter {case_id} {said}."]), as_json, **answer)


def _document(file: Path) -> Any:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        return json.loads(text)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}.")
    except ValueError as error:
        fail(f"{file} is not JSON: {error}.")


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dead_cli.command("replay")
def dead_replay(
    case_id: str,
    full: Annotated[bool, typer.Option("--full", help="From the first stage, paying for all of them again.")] = False,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Step 3: put the job back at its failed stage, with fresh budgets."""
    from holdfast.operator import letters

    done = at_desk(act(system, app), letters.replay_letter, case_id, actor=actor, full=full)
    say(f"Job {done['job_id']} is queued at stage '{done['stage']}'.", as_json, **done)


@dead_cli.command("resolve")
def dead_resolve(
    case_id: str,
    notes: Annotated[str | None, typer.Option(help="How it ended.")] = None,
    without_replay: WithoutReplay = None,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Step 4: close the case, after its replay has succeeded, or with a reason why none is needed."""
    from holdfast.operator import letters

    done = at_desk(
        act(system, app), letters.resolve_letter, case_id, actor=actor, notes=notes, without_replay=without_replay
    )
    say(f"Dead letter {case_id} is resolved.", as_json, **done)


@dead_cli.command("bulk")
def dead_bulk(
    step: Annotated[CaseStep, typer.Argument(help="What to do with each that can take this step.")],
    state: OnlyState = None,
    error_class: OnlyClass = None,
    kind: Kind = None,
    stage: OnlyStage = None,
    cause: Annotated[Cause | None, typer.Option(help="For triage: what kind of cause it was.")] = None,
    evidence: Annotated[str | None, typer.Option(help="For remediate: what was fixed.")] = None,
    notes: Annotated[str | None, typer.Option(help="For triage and resolve.")] = None,
    without_replay: WithoutReplay = None,
    per_minute: Annotated[
        float | None, typer.Option(help="For replay: how many to start in a minute.", min=0.001, callback=finite)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    limit: Limit = 1000,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Take all dead letters that fit a filter through one step, the oldest first. One that refuses holds up nobody."""
    from holdfast.operator import letters
    from holdfast.operator.bulk import FORMS

    given = {"cause": cause, "evidence": evidence, "notes": notes, "per_minute": per_minute}
    given["without_replay"] = without_replay
    which = {"state": state, "error_class": error_class, "kind": kind, "stage": stage}
    if all(value is None for value in which.values()):
        raise typer.BadParameter("Say which: --state, --error-class, --kind or --stage.")
    needed = {CaseStep.TRIAGE: "cause", CaseStep.REMEDIATE: "evidence", CaseStep.RESOLVE: "notes"}.get(step)
    if needed and not given[needed] and not (step is CaseStep.RESOLVE and without_replay):
        raise typer.BadParameter(f"{step} needs --{needed}.")
    form = FORMS[step].model_validate({"filter": which, "dry_run": dry_run, "limit": limit, **given})
    done = at_desk(act(system, app), letters.step_many, form, actor)
    would = "would be" if dry_run else "were"
    sentence = f"{len(done['done'])} of {done['matched']} {would} taken through {step}; {len(done['refused'])} refused."
    say(sentence, as_json, **done)
