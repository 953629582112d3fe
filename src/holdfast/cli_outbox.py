"""The operator's commands for messages on their way out: `holdfast outbox list`, `holdfast outbox requeue`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from holdfast.cli_reach import check_id, each, fail, say, show_page
from holdfast.cli_start import ME, Actor, AppPath, AsJson, Limit, SystemNames, Watching
from holdfast.kernel import operate
from holdfast.stores.seam import Row, Tx
from holdfast.system import OpenSystem
from holdfast.tables import ops

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

    async def read(tx: Tx) -> Sequence[Row]:
        return await ops.outbox_page(tx, before=None, limit=limit, status=status)

    columns = ["id", "destination", "message_type", "status", "retry_count", "created_at", "error_message"]
    show_page(system, app, read, columns, as_json, watch, newest="created_at", limit=limit)


@outbox_cli.command("requeue")
def outbox_requeue(
    message_id: str, actor: Actor = ME, system: SystemNames = None, app: AppPath = None, as_json: AsJson = False
) -> None:
    """Publish a message again that was set aside."""

    async def go(one: OpenSystem) -> list[dict[str, Any]]:
        return [{"id": message_id}] if await operate.requeue(one.kernel, message_id, actor) else []

    check_id(message_id, "message")
    if not each(system, app, go, to_look=False):
        fail(f"There is no message {message_id} that was set aside.")
    say(f"Message {message_id} is on its way again.", as_json, id=message_id, status="pending")
