"""The conversion job: one stage, and what each of its ends means for the document.

    source there? -> gateway, behind the breaker -> lease still ours? -> XML written whole -> settle marks it

The settlement, the document's row and the order for a webhook are one commit. A worker that dies before it has at most
written a file that the next attempt writes again under the same name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from holdfast import App, CallError, Context, Failure, Job, JobTx, LeaseLost, Provider, ProviderHeld, Settled, stage
from holdfast.errors import StoreError
from holdfast.kit import PublicFailure, State
from holdfast.kit.tables import load_migrations, secrets
from holdfast.providers.webhook import Post, send_notice
from holdfast.settings import read
from holdfast_systems.conversion import codes, documents, results
from holdfast_systems.conversion.codes import Code, ConversionError, conversion_failure, public_error
from holdfast_systems.conversion.documents import KIND
from holdfast_systems.conversion.expiry import expiry_step
from holdfast_systems.conversion.gateway import Gateway, gateway_for
from holdfast_systems.conversion.results import in_thread
from holdfast_systems.conversion.settings import ConversionSettings
from holdfast_systems.conversion.webhook import announce, declare_webhook

NAME = "conversion"
GATEWAY = "gateway"
MIGRATIONS = load_migrations(NAME, Path(__file__).parent / "migrations")
RETRY_AFTER_S_MAX = 86_400.0  # a gateway that asks for more has made a mistake, and would close the service for good
SPARE_S = 60.0  # for the stage's own reads and writes around the call


class ConversionOrder(BaseModel):
    """A file of the uploads folder to convert."""

    source: str


class Converted(BaseModel):
    size: int
    sha256: str


def build(env: Mapping[str, str]) -> App:
    """The conversion app for an environment. Makes its two folders; opens nothing else."""
    settings = read(ConversionSettings, env)
    made = gateway_for(settings.gateway_url, limits=settings.limits, result_bytes_max=settings.result_bytes_max)
    return build_app(settings, made)


def build_app(
    settings: ConversionSettings, gateway: Gateway, *, post: Post = send_notice, wall_s: Callable[[], float] = time.time
) -> App:
    """The app around any gateway. `post` delivers webhooks; `wall_s` is the clock that files are dated by."""
    for folder in (settings.uploads, settings.results):
        folder.mkdir(parents=True, exist_ok=True)
    app = App(NAME, migrations=MIGRATIONS)
    provider = Provider(
        GATEWAY,
        breaker=settings.breaker,
        timeout_s=settings.gateway_timeout_s,
        probe=gateway.healthy,
        hold_max_s=settings.gateway_hold_s_max,
        retry_after_max_s=RETRY_AFTER_S_MAX,
    )
    _declare_convert(app, settings, gateway, provider)
    declare_webhook(app, settings, post)
    app.step(every_s=settings.expiry_check_s)(expiry_step(settings, wall_s))
    return app


def _declare_convert(app: App, settings: ConversionSettings, gateway: Gateway, provider: Provider) -> None:
    @app.job(name=KIND, announce=True)
    class Convert(Job[ConversionOrder]):
        @stage(provider=provider, retry=settings.retry, timeout_s=settings.gateway_timeout_s * 1.2 + SPARE_S)
        async def convert(self, ctx: Context, order: ConversionOrder) -> Converted:
            try:
                return await _convert(ctx, settings, gateway, order)
            except (ProviderHeld, LeaseLost, StoreError):
                raise
            except Exception as error:  # whatever it is, this system's own table says what it means
                raise CallError(conversion_failure(error)) from error

        def public_failure(self, why: Failure, stage: str) -> PublicFailure:
            return codes.public_failure(why)

        def log_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
            status = documents.STATUSES[fields["status"]]
            return {**fields, "status": status, "gateway_status": fields["provider_status"]}

        async def on_settled(self, tx: JobTx, change: Settled) -> None:
            await _mark(tx, settings, change)


async def _convert(ctx: Context, settings: ConversionSettings, gateway: Gateway, order: ConversionOrder) -> Converted:
    source = settings.uploads / order.source
    if not await in_thread(source.is_file):
        raise ConversionError(Code.IO_ERROR, "The uploaded document is gone.")
    timeout_s = settings.gateway_timeout_s
    # The gateway keeps the time itself, and says so better; the call's limit is the net under it.
    xml = await ctx.call(lambda: _called(gateway, source, timeout_s), timeout_s=timeout_s * 1.05 + 1)
    async with ctx.transaction():
        pass  # proves the lease: what was cancelled or taken over meanwhile must not leave a file
    saved = await results.save(settings.results, ctx.job_id, xml)
    return Converted(size=saved.size, sha256=saved.sha256)


async def _called(gateway: Gateway, source: Path, timeout_s: float) -> bytes:
    """Inside the call, because what leaves it unclassified is classified by the kernel, which retries no defect."""
    try:
        return await gateway.convert(source, timeout_s=timeout_s)
    except Exception as error:
        raise CallError(conversion_failure(error)) from error


async def _mark(tx: JobTx, settings: ConversionSettings, change: Settled) -> None:
    """Write to the document what its job's change means, in the same transaction."""
    job_id, decision, now = change.job.id, change.decision, change.now
    code, message = _told(decision.failure)
    if decision.state is State.SUCCEEDED:
        made = Converted.model_validate_json(change.value or "")
        keep_ms = int(settings.result_retention_s * 1_000)
        attempts = decision.failures + 1
        await documents.complete(
            tx, job_id, size=made.size, sha256=made.sha256, attempts=attempts, expires_at=now + keep_ms, now=now
        )
    elif decision.state is State.DEAD:
        assert code is not None and message is not None, "the dead have a reason"
        until = now + int(settings.source_retention_s * 1_000)
        attempts = decision.failures
        await documents.fail(tx, job_id, code=code, message=message, attempts=attempts, source_until=until, now=now)
    elif decision.state is State.CANCELLED:
        await documents.cancel(tx, job_id, attempts=decision.failures, now=now)
    else:
        await documents.put_back(tx, job_id, attempts=decision.failures, code=code, message=message, now=now)
        return
    await announce(tx, job_id, now)
    if decision.state is not State.DEAD:  # a replay of the dead announces once more
        await secrets.forget(tx, [job_id])


def _told(why: Failure | None) -> tuple[str | None, str | None]:
    if why is None:
        return None, None
    code, message = public_error(why)
    return code.value, message
