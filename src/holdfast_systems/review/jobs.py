"""The review system's app: a changelist is fetched, criticised, and its reviewers are told exactly once.

    fetch --> llm --> notify --> succeeded          each stage with its own budget, its result stored
                        ^
       notify_again ----/     a finished review of which a mail turned out never to have been sent

The review's row is written where its job is settled, so that worker, reaper and operator all end it alike.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from holdfast import App, Context, Failure, Job, JobTx, NotAllowed, Settled, stage
from holdfast.kit import Kernel, PublicFailure, State, prepare, submit_in, unchanged
from holdfast.kit.redaction import redact_message
from holdfast.kit.repair import Corrected, TakenBack
from holdfast.kit.tables import Tx, effects, load_migrations
from holdfast.settings import read
from holdfast_systems.review import changes, critique, deliveries, reviews
from holdfast_systems.review.changes import Change
from holdfast_systems.review.correct import follow
from holdfast_systems.review.critique import Critique
from holdfast_systems.review.engine import Engine, engine_for
from holdfast_systems.review.findings import Review
from holdfast_systems.review.notify import Mail, Notified, notify
from holdfast_systems.review.reviews import ReviewOrder
from holdfast_systems.review.settings import ReviewSettings

NAME = "review"
MIGRATIONS = load_migrations("review", Path(__file__).parent / "migrations")
# A provider's own timeout bounds each call; a stage may make many of them.
STAGE_TIMEOUT_S = 3_600.0
TAKEN_BACK_EVERY_S = 30.0
TAKEN_BACK_WITHIN_S = 2 * 86_400.0
TAKEN_BACK_BATCH = 50
CHANGES_KEPT_S = 30 * 86_400.0
PRUNE_EVERY_S = 3_600.0
CALLERS_MISTAKES = frozenset(
    {
        "CHANGELIST_INVALID",
        "CHANGELIST_NOT_FOUND",
        "DEPOT_REFUSED",
        "DIFF_TOO_LARGE",
        "DIFF_UNREADABLE",
        "REPOSITORY_INVALID",
        "REPOSITORY_NOT_FOUND",
        "REPOSITORY_REFUSED",
        "REPOSITORY_TOO_LARGE",
        "REVISION_INVALID",
        "REVISION_NOT_FOUND",
    }
)
"""A wrong branch or path, a diff that is none: the caller is told, and nobody who runs the service can fix it."""

logger = logging.getLogger("holdfast.review")
_REVIEW = TypeAdapter(Review)
_CRITIQUE = TypeAdapter(Critique)


@dataclass(frozen=True, slots=True)
class Again:
    """A review to tell again to those who turned out not to have been told."""

    mail: Mail
    title: str


def build_review(env: Mapping[str, str]) -> App:
    """The review system for an environment."""
    settings = read(ReviewSettings, env)
    for note in settings.notes():
        logger.warning("%s", note)
    return review_app(engine_for(settings))


def review_app(engine: Engine) -> App:
    """The app around an engine."""
    app = App(NAME, migrations=MIGRATIONS, never=(Exception,))  # a defect pages at once, by the source
    _declare_review(app, engine)
    _declare_again(app, engine)

    @app.step(every_s=TAKEN_BACK_EVERY_S)
    async def requeue_taken_back(kernel: Kernel) -> int:
        return await requeue_once(kernel, within_s=max(TAKEN_BACK_WITHIN_S, engine.settings.mail_retention_s))

    @app.step(every_s=PRUNE_EVERY_S)
    async def prune_changes(kernel: Kernel) -> int:
        oldest_s = kernel.now() / 1_000 - CHANGES_KEPT_S
        await engine.run_blocking(lambda: changes.forget_older(engine.settings.changes_folder, oldest_s))
        return 0

    app.closers.extend(engine.closers)
    return app


def _declare_review(app: App, engine: Engine) -> type[Job[Any]]:
    retry = engine.settings.retry

    @app.job(name=reviews.KIND, announce=True, version=2, upgrade={1: unchanged}, seals=("source.url", "source.repo"))
    class ReviewChangelist(Job[ReviewOrder]):
        @stage(provider=engine.source, retry=retry, timeout_s=STAGE_TIMEOUT_S, reads=("source",))
        async def fetch(self, ctx: Context, order: ReviewOrder) -> Change:
            return await critique.fetch_change(engine, ctx, order)

        @stage(provider=engine.critic, retry=retry, timeout_s=STAGE_TIMEOUT_S, reads=("source", "title"))
        async def llm(self, ctx: Context, order: ReviewOrder, fetch: Change) -> Critique:
            return await critique.criticise(engine, ctx, order, fetch)

        @stage(provider=engine.mail, retry=retry, timeout_s=STAGE_TIMEOUT_S)
        async def notify(self, ctx: Context, order: ReviewOrder, llm: Critique) -> Notified:
            mail = Mail(order.changelist_id, order.review_version, order.sender, order.dated_at)
            return await notify(engine, ctx, mail, llm)

        def public_failure(self, why: Failure, stage: str) -> PublicFailure:
            return PublicFailure(why.error_class, by_user=why.error_class in CALLERS_MISTAKES)

        async def on_settled(self, tx: JobTx, change: Settled) -> None:
            await write_settled(tx, change)

        async def corrected(self, kernel: Kernel, tx: Tx, correction: Corrected[ReviewOrder]) -> None:
            await follow(tx, correction)

        async def taken_back(self, kernel: Kernel, tx: Tx, lost: TakenBack) -> bool:
            return True  # `requeue_taken_back` mails those who were not told, and nobody else

    return ReviewChangelist


def _declare_again(app: App, engine: Engine) -> type[Job[Any]]:
    @app.job(name=reviews.KIND_AGAIN, announce=True)
    class NotifyAgain(Job[Again]):
        @stage(provider=engine.mail, retry=engine.settings.retry, timeout_s=STAGE_TIMEOUT_S)
        async def notify(self, ctx: Context, again: Again) -> Notified:
            async with ctx.kernel.store.reading() as tx:
                stored = await reviews.by_version(tx, again.mail.changelist_id, again.mail.review_version)
            assert stored is not None and stored.result is not None, "a finished review has a result"
            review = _REVIEW.validate_json(json.dumps(stored.result))
            return await notify(engine, ctx, again.mail, Critique(again.title, review))

        async def on_settled(self, tx: JobTx, change: Settled) -> None:
            await write_settled(tx, change)

        async def corrected(self, kernel: Kernel, tx: Tx, correction: Corrected[Again]) -> None:
            raise NotAllowed("What is told again is the review as it was; ask for a rerun under a higher version.")

        async def taken_back(self, kernel: Kernel, tx: Tx, lost: TakenBack) -> bool:
            return True

    return NotifyAgain


async def write_settled(tx: Tx, change: Settled) -> None:
    """Write what the job's change means to its review, in the transaction of the change."""
    decision, job_id = change.decision, change.job.id
    if change.job.stage == "llm" and decision.event == "advanced" and change.value is not None:
        said = _CRITIQUE.validate_json(change.value)
        result = _REVIEW.dump_json(said.review).decode()
        await tx.rows(reviews.sql.criticised, job_id=job_id, result=result, title=said.title, now=change.now)
    if decision.state is State.SUCCEEDED:
        await _succeed(tx, job_id, change.now)
    elif decision.state in (State.DEAD, State.CANCELLED):
        why = decision.failure
        await tx.rows(
            reviews.sql.finish,
            job_id=job_id,
            status="failed",
            failed_stage=change.job.stage,
            error_class=why.error_class if why else "CANCELLED",
            error=redact_message(why.message)[:500] if why else "The review was cancelled.",
            now=change.now,
        )


async def _succeed(tx: Tx, job_id: str, now: int) -> None:
    """A review succeeds only with evidence for every required recipient; anything else is a defect of ours."""
    rows = await tx.rows(
        reviews.sql.finish, job_id=job_id, status="succeeded", failed_stage=None, error_class=None, error=None, now=now
    )
    for row in rows:
        left = await tx.rows(
            deliveries.sql.untold, changelist_id=row["changelist_id"], review_version=row["review_version"]
        )
        assert left[0]["deliveries"] == 0, f"the review of job {job_id} ended with recipients nobody has told"


async def requeue_once(kernel: Kernel, *, within_s: float = TAKEN_BACK_WITHIN_S) -> int:
    """Send again what was marked as sent, looked up, and found never to have been: the ledger took the mark back.

    It alerts, for the order of send and mark was violated somewhere. Returns how many reviews were reopened."""
    since = kernel.now() - int(within_s * 1_000)
    async with kernel.store.reading() as tx:
        found = await tx.rows(reviews.sql.taken_back, since=since, limit=TAKEN_BACK_BATCH)
    return sum([await _reopen(kernel, row["changelist_id"], row["review_version"]) for row in found])


async def _reopen(kernel: Kernel, changelist_id: str, review_version: int) -> bool:
    now, job_id = kernel.now(), kernel.new_id()
    async with kernel.store.transaction() as tx:
        stored = await reviews.by_version(tx, changelist_id, review_version)
        if stored is None or not await tx.rows(reviews.sql.reopen, id=stored.id, job_id=job_id, now=now):
            return False  # another process was quicker
        mail = Mail(changelist_id, review_version, stored.sender, stored.created_at)
        kind = kernel.registry.kind(reviews.KIND_AGAIN)
        order = prepare(kind, Again(mail, stored.title), job_id=job_id, now=now, trace=stored.id)
        await submit_in(tx, [order], now, kernel.watch)
        await effects.hand_over(tx, stored.job_id, job_id, now)
    kernel.watch.count("reviews_taken_back")
    kernel.watch.log("review.marked_but_not_sent", review_id=stored.id, job_id=job_id, alert=True)
    return True
