"""The operator's commands for messages on their way out: `holdfast outbox list`, `holdfast outbox requeue`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from holdfast.cli.reach import act, at_desk, look, say, show_items
from holdfast.cli.start import ME, Actor, AppPath, AsJson, Limit, SystemNames, Watching
from holdfast.operator import deliveries
from holdfast.operator.page import ListPage

outbox_cli = typer.Typer(help="See messages on their way out; publish again what was set aside.", no_args_is_help=True)
Status = Literal["pending", "published", "failed"]


@outbox_cli.command("list")
def outbox_list(
    status: Annotated[Status | None, typer.Option(help="Only messages in this status.")] = None,
    limit: Limit = 50,
    system: SystemNames = None,
    app: AppPath = None,
    watch: Watching = False,
    as_json: AsJson = False,
) -> None:
    """The newest messages first; `--status failed` lists those set aside after their last try."""
    columns = ["id", "destination", "message_type", "status", "retry_count", "created_at", "error_message"]
    show_items(look(system, app), columns, as_json, watch, deliveries.list_messages, ListPage(limit), status)


@outbox_cli.command("requeue")
def outbox_requeue(
    message_id: str, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Publish a message again that was set aside."""
    done = at_desk(act(system, app), deliveries.requeue_message, message_id, actor)
    say(f"Message {message_id} is on its way again.", as_json, **done)
