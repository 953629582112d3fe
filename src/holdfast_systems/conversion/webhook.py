"""What conversion tells a user's server when a job has ended. How it is delivered: `holdfast.providers.webhook`."""

from __future__ import annotations

from typing import Any

from holdfast import App, JobTx
from holdfast.http.tickets import iso
from holdfast.kit import open_own
from holdfast.providers.webhook import Post, Webhooks, declare_webhooks
from holdfast_systems.conversion import documents
from holdfast_systems.conversion.settings import ConversionSettings

WEBHOOKS = Webhooks("conversion.webhook")


async def announce(tx: JobTx, job_id: str, now: int) -> None:
    """Order the webhook of a job that has just ended, if its owner asked for one."""
    row = await documents.show(tx, job_id)
    if row is None or row["webhook_url"] is None:
        return
    status = documents.status_of(row, now)
    event_id = f"{job_id}/{row['epoch'] or 0}/{status}"
    body = {"type": f"job.{status}", "at": iso(now), "job": _story(row, status)}
    url = await open_own(tx.kernel.sealer, tx, job_id, row["webhook_url"], "webhookUrl")
    await WEBHOOKS.tell(tx, url, event_id, body, owner=row["owner"])


def _story(row: Any, status: str) -> dict[str, Any]:
    told: dict[str, Any] = {"id": row["id"], "status": status, "fileName": row["filename"]}
    if status == "failed":
        told["error"] = {"code": row["error_code"], "message": row["error_message"]}
    if status == "complete":
        told["result"] = {"size": row["result_size"], "sha256": row["result_sha256"]}
    return told


def declare_webhook(app: App, settings: ConversionSettings, post: Post) -> None:
    declare_webhooks(
        app,
        secret=settings.webhook_secret,
        policy=settings.outbound,
        retry=settings.webhook_retry,
        timeout_s=settings.webhook_timeout_ms / 1_000,
        post=post,
    )
