"""Planted bugs of the review system: what must catch each, and within how many seeds. Production holds none of this."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from holdfast.core.case import CaseState
from holdfast.core.failure import Category
from holdfast.kernel import bury
from holdfast.stores.statement import _statement
from holdfast_systems.review import critique, jobs, notify, reviews, sends
from tests.proof import mutants_effects
from tests.proof.plant import Mutant, respelled, swapped

ANEW = _statement(
    "anew",
    {
        None: "UPDATE review_recipients SET effect_key = effect_key || '/anew' "
        "WHERE changelist_id = :changelist_id AND review_version = :review_version"
    },
)


@contextmanager
def review_marked_before_it_is_sent() -> Iterator[None]:
    """The delivery is marked, then the mail is sent."""
    with mutants_effects.mark_before_send():
        yield


@contextmanager
def attempt_in_the_mail_token() -> Iterator[None]:
    """Every attempt posts the mail under a token of its own."""
    with mutants_effects.attempt_in_token():
        yield


@contextmanager
def doubtful_mail_sent_again() -> Iterator[None]:
    """A provider with neither token nor lookup is simply asked again."""
    with mutants_effects.resend_without_proof():
        yield


@contextmanager
def kept_answers_ignored() -> Iterator[None]:
    """A retry or a replay asks the model again for what it has said."""
    with respelled(reviews.sql, "chunks", ("WHERE review_id", "WHERE 1 = 0 AND review_id")):
        yield


@contextmanager
def answers_not_kept() -> Iterator[None]:
    """What the model said of a part is only in memory until the stage is done."""

    async def forget(*args: Any) -> None:
        return None

    with swapped(critique, "_keep_chunk", forget):
        yield


@contextmanager
def mail_dated_when_it_is_sent() -> Iterator[None]:
    """Two attempts send different bytes under one token."""
    intact = notify._tell

    async def tell(engine: Any, ctx: Any, mail: Any, *rest: Any) -> None:
        await intact(
            engine, ctx, notify.Mail(mail.changelist_id, mail.review_version, f"a{ctx.attempt}@b.test", 0), *rest
        )

    with swapped(notify, "_tell", tell):
        yield


@contextmanager
def one_bad_address_stops_the_rest() -> Iterator[None]:
    """The first refusal ends the stage."""
    with swapped(notify, "OF_ALL", (*notify.OF_ALL, Category.VALIDATION)):
        yield


@contextmanager
def lower_versions_accepted() -> Iterator[None]:
    """Nobody looks at what was reviewed before."""
    with swapped(reviews, "_check_version", lambda request, latest: None):
        yield


@contextmanager
def nothing_escalates() -> Iterator[None]:
    """The second failure alike is opened like the first."""
    with swapped(bury, "reopened", lambda *known: CaseState.OPEN):
        yield


@contextmanager
def failed_reviews_forgotten() -> Iterator[None]:
    """The review's row does not learn that its job died."""
    intact = jobs.write_settled

    async def write(tx: Any, change: Any) -> None:
        if change.decision.state is not jobs.State.DEAD:
            await intact(tx, change)

    with swapped(jobs, "write_settled", write):
        yield


@contextmanager
def lost_mail_not_told_again() -> Iterator[None]:
    """Nobody asks again for what was marked and turned out never to have been sent."""

    async def nothing(kernel: Any, *, within_s: float) -> int:
        return 0

    with swapped(jobs, "requeue_once", nothing):
        yield


@contextmanager
def another_body_makes_a_second_job() -> Iterator[None]:
    """A key that comes with another body is taken for another key."""
    intact = reviews.submit

    async def submit(kernel: Any, tx: Any, request: Any, **more: Any) -> Any:
        known = await reviews.by_key(tx, request.idempotency_key)
        if known is not None and known.fingerprint != request.fingerprint:
            key = f"{request.idempotency_key}/{request.fingerprint[:8]}"
            version = max(known.review_version + 100, request.review_version)
            request = replace(request, idempotency_key=key, review_version=version, rerun=True)
        return await intact(kernel, tx, request, **more)

    with swapped(reviews, "submit", submit):
        yield


@contextmanager
def sixth_send() -> Iterator[None]:
    """The last look sends what it does not find."""
    with swapped(notify, "may_send", lambda engine, ctx, row: True):
        yield


@contextmanager
def every_failed_send_given_back() -> Iterator[None]:
    """A send that failed costs nothing, whether or not the provider was known to be down."""
    with swapped(sends, "_asked_to_wait", lambda error: True):
        yield


@contextmanager
def correction_mails_everybody_again() -> Iterator[None]:
    """A correction gives every recipient of the version a new key."""
    intact = jobs.follow

    async def follow(tx: Any, correction: Any) -> None:
        await intact(tx, correction)
        order = correction.after
        await tx.rows(ANEW, changelist_id=order.changelist_id, review_version=order.review_version)

    with swapped(jobs, "follow", follow):
        yield


MUTANTS = (
    Mutant(correction_mails_everybody_again, ("R4",), 150),
    Mutant(sixth_send, ("R3",), 600),
    Mutant(every_failed_send_given_back, ("R3",), 400),
    Mutant(another_body_makes_a_second_job, ("R1", "S1"), 60),
    Mutant(review_marked_before_it_is_sent, ("R7", "S6"), 40),
    Mutant(attempt_in_the_mail_token, ("R4", "S9"), 40),
    Mutant(doubtful_mail_sent_again, ("R4", "S7", "S8"), 150),
    Mutant(kept_answers_ignored, ("K6",), 60),
    Mutant(answers_not_kept, ("K6",), 20),
    Mutant(mail_dated_when_it_is_sent, ("R5",), 60),
    Mutant(one_bad_address_stops_the_rest, ("R7",), 60),
    Mutant(lower_versions_accepted, ("R2",), 60),
    Mutant(nothing_escalates, ("K8",), 40),
    Mutant(failed_reviews_forgotten, ("R7",), 40),
    Mutant(lost_mail_not_told_again, ("R7", "L1"), 100),
)
