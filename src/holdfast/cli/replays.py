"""Replays of whole groups of dead letters on the command line: look first, begin, watch, pause, resume, stop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.reach import act, at_desk, carry_out, fail, finite, look, say, show, show_items
from holdfast.cli.start import ME, Actor, AppPath, AsJson, Limit, SystemNames, Watching
from holdfast.core.case import Cause

if TYPE_CHECKING:
    from rich.console import RenderableType

replays_cli = typer.Typer(
    help="Replay whole groups of dead letters: begin, watch, pause, resume, stop.", no_args_is_help=True
)
COLUMNS = ["id", "state", "kind", "stage", "error_class", "per_minute", "created_at", "actor"]
Fingerprint = Annotated[str, typer.Argument(help="The group, as `dead groups` names it.")]
ReplayId = Annotated[str, typer.Argument(help="The replay's id, or its beginning.")]
BAR_WIDTH = 40


@replays_cli.command("begin")
def replays_begin(
    fingerprint: Fingerprint,
    evidence: Annotated[str | None, typer.Option(help="What was fixed, and how that is known.")] = None,
    cause: Annotated[Cause, typer.Option(help="What kind of cause it was.")] = Cause.TRANSIENT,
    per_minute: Annotated[
        float | None, typer.Option(help="So many letters a minute.", min=0.001, callback=finite)
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Correct a field of every input: field=value or field:=JSON.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="From the first stage, paying for all of them again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
    actor: Actor = ME,
    system: SystemNames = None,
    app: AppPath = None,
    as_json: AsJson = False,
) -> None:
    """Fix and replay all letters of a group. The system's keeper carries it out; `replays show --watch` follows it."""
    from holdfast.operator import replays

    group, values = replays.Group(fingerprint), _parse_values(set_ or ())
    if dry_run:
        seen = at_desk(
            look(system, app),
            replays.preview_group,
            group,
            actor=actor,
            values=values,
            full=full,
            per_minute=per_minute,
        )
        say(_foretell(seen), as_json, **seen)
        return
    carry_out(
        act(system, app),
        as_json,
        "Replay {id} of {letters:,} letters has begun.",
        replays.begin_replay,
        group,
        actor=actor,
        cause=cause,
        evidence=evidence,
        values=values,
        full=full,
        per_minute=per_minute,
    )


def _parse_values(assignments: list[str] | tuple[()]) -> dict[str, Any] | None:
    """`field=text` and `field:=JSON`, by their paths; None without any."""
    values: dict[str, Any] = {}
    for text in assignments:
        path, sign, value = text.partition("=")
        if not sign or not path.rstrip(":"):
            fail(f"'{text}' must be field=value or field:=JSON.")
        try:
            values[path.removesuffix(":")] = json.loads(value) if path.endswith(":") else value
        except ValueError:
            fail(f"'{value}' of '{text}' is not JSON.")
    return values or None


def _foretell(seen: dict[str, Any]) -> str:
    sentences = [f"{seen['letters']:,} letters of {seen['owners']:,} owners would begin at {seen['replay_from']}."]
    if seen["provider"] and seen["gate"] not in (None, "closed"):
        sentences.append(f"The breaker of {seen['provider']} is {seen['gate']}: they would wait for it.")
    if seen["effects_kept"]:
        sentences.append(f"{seen['effects_kept']:,} effects were sent and are not sent again.")
    if seen["effects_in_doubt"]:
        sentences.append(f"{seen['effects_in_doubt']:,} effects are in doubt.")
    if seen["refused"]:
        why = seen["refused"][0]["detail"]
        sentences.append(f"{len(seen['refused'])} of the first {seen['sampled']} cannot be corrected so: {why}")
    return " ".join([*sentences, f"The last would begin at {seen['last_begins_at'][:19].replace('T', ' ')} UTC."])


@replays_cli.command("list")
def replays_list(
    fingerprint: Annotated[str | None, typer.Option(help="Only of this group.")] = None,
    limit: Limit = 50,
    system: SystemNames = None,
    app: AppPath = None,
    watch: Watching = False,
    as_json: AsJson = False,
) -> None:
    """Replays of groups, the newest first."""
    from holdfast.operator import replays
    from holdfast.operator.page import ListPage

    show_items(look(system, app), COLUMNS, as_json, watch, replays.list_replays, ListPage(limit), fingerprint)


@replays_cli.command("show")
def replays_show(
    replay_id: ReplayId,
    system: SystemNames = None,
    app: AppPath = None,
    watch: Watching = False,
    as_json: AsJson = False,
) -> None:
    """How far a replay is, what became of its letters, and the first that went wrong again."""
    from holdfast.operator import replays

    show(lambda: at_desk(look(system, app), replays.show_replay, replay_id), _draw_replay, as_json, watch)


def _draw_replay(replay: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    from holdfast.cli.table import table_of

    outcomes: dict[str, int] = replay["outcomes"]
    ended = replay["letters"] - sum(outcomes.get(name, 0) for name in ("waiting", "queued", "processing"))
    became = ", ".join(f"{number:,} {name}" for name, number in outcomes.items()) or "nothing yet"
    title = Text.assemble(f"Replay {replay['id']} is ", (replay["state"], "bold"), f": {became}.")
    shown: list[RenderableType] = [title, ProgressBar(max(1, replay["letters"]), ended, width=BAR_WIDTH)]
    shown.append(Text(f"{ended:,} of {replay['letters']:,} letters have ended."))
    if replay["troubles"]:
        shown.append(table_of(replay["troubles"], ["letter_id", "job_id", "detail"]))
    return Group(*shown)


@replays_cli.command("pause")
def replays_pause(
    replay_id: ReplayId, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Take no further letter until it is resumed. What was replayed runs on."""
    _steer(replay_id, "pause", "Replay {id} takes no further letter.", actor, system, app, as_json)


@replays_cli.command("resume")
def replays_resume(
    replay_id: ReplayId, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Go on, at its rate."""
    _steer(replay_id, "resume", "Replay {id} goes on.", actor, system, app, as_json)


@replays_cli.command("stop")
def replays_stop(
    replay_id: ReplayId, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """End it. Letters that were not taken yet stay as they were."""
    _steer(replay_id, "stop", "Replay {id} is stopped.", actor, system, app, as_json)


def _steer(
    replay_id: str,
    verb: str,
    sentence: str,
    actor: str,
    system: list[str] | None,
    app: list[str] | None,
    as_json: bool,
) -> None:
    from holdfast.operator import replays

    carry_out(act(system, app), as_json, sentence, replays.steer_replay, replay_id, verb, actor=actor)
