"""Reviews over HTTP: ask for one, list a changelist's, read one version with its deliveries. For services."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from fastapi import Request as HttpRequest
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, field_validator

from holdfast import NotFound
from holdfast.http.answers.documented import documented
from holdfast.http.auth import Principal, require
from holdfast.http.limits import hold_to
from holdfast.http.problem import Problem
from holdfast.kit import Kernel, iso
from holdfast.kit.tables import Tx
from holdfast.settings import read
from holdfast_systems.review import reviews
from holdfast_systems.review.answer_types import ReviewAnswer, ReviewAsked, ReviewPage
from holdfast_systems.review.changes import Source
from holdfast_systems.review.maildir import read_mail
from holdfast_systems.review.recipients import RECIPIENTS_MAX
from holdfast_systems.review.render import is_plain_address
from holdfast_systems.review.reviews import Recipient, Request, ReviewDelivery, ReviewRefusal, StoredReview
from holdfast_systems.review.settings import ReviewSettings

SERVICE = require("service")
ASKED = documented(ReviewAsked)
_PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
Id = Annotated[str, Path(min_length=1, max_length=200, pattern=_PRINTABLE)]
Version = Annotated[int, Path(ge=1, le=reviews.VERSION_MAX)]
Address = Annotated[str, Field(min_length=1, max_length=320, pattern=_PRINTABLE)]


class NewRecipient(BaseModel):
    """Somebody to tell; the review succeeds without one who is not required."""

    model_config = ConfigDict(extra="forbid")

    address: Address
    required: bool = True


class NewReview(BaseModel):
    """A review to make. An address that cannot be mailed fails its own delivery only: it is refused here where there is
    no other."""

    model_config = ConfigDict(extra="forbid")

    idempotency_key: Annotated[str, Field(min_length=1, max_length=200, pattern=_PRINTABLE)]
    review_version: Annotated[int, Field(ge=1, le=reviews.VERSION_MAX)]
    recipients: Annotated[list[Address | NewRecipient], Field(min_length=1, max_length=RECIPIENTS_MAX)]
    source: Source
    title: Annotated[str, Field(max_length=300, pattern=r"^[^\x00]*$")] = ""
    rerun: bool = False

    @field_validator("recipients")
    @classmethod
    def somebody_can_be_told(cls, given: list[str | NewRecipient]) -> list[str | NewRecipient]:
        """Nothing is fetched, and no model paid, for a review that nobody can be told of."""
        if not any(is_plain_address(one if isinstance(one, str) else one.address) for one in given):
            raise ValueError("none of the recipients is an address of the form name@domain")
        return given

    def request(self, changelist_id: str) -> Request:
        told = [
            Recipient(one) if isinstance(one, str) else Recipient(one.address, one.required) for one in self.recipients
        ]
        return Request(
            changelist_id=changelist_id,
            review_version=self.review_version,
            idempotency_key=self.idempotency_key,
            recipients=tuple(told),
            source=self.source,
            title=self.title,
            rerun=self.rerun,
        )


class SentMail(BaseModel):
    """A mail as its reader sees it."""

    to: str
    from_: str
    date: str
    subject: str
    text: str


def review_routes(kernel: Kernel, env: Mapping[str, str]) -> APIRouter:
    """The routes of an open review system."""
    settings = read(ReviewSettings, env)
    router = APIRouter(
        tags=["review"],
        prefix="/api/changelists/{changelist_id}/reviews",
        route_class=_known_key_route(kernel, settings),
    )

    @router.post("", status_code=201, response_model=ASKED, responses={200: {"model": ASKED}})
    async def create(changelist_id: Id, new: NewReview, who: Annotated[Principal, SERVICE]) -> JSONResponse:
        """Ask for a review: 201 for a new one, 200 for the one that the key stands for, whatever the body;
        `body_differs` says whether it was asked for otherwise."""
        request = new.request(changelist_id)

        async def admit(tx: Tx) -> None:
            await hold_to(kernel, tx, who, settings.user_limits, reviews.usage, "reviews")

        try:
            async with kernel.store.transaction() as tx:
                answer = await reviews.submit(
                    kernel, tx, request, sender=settings.mail_from, owner=who.sub, admit=admit
                )
                stored = answer.stored
                told = await reviews.deliveries(tx, stored.changelist_id, stored.review_version)
        except ReviewRefusal as refusal:
            raise Problem(409, refusal.code, str(refusal)) from None
        shown_body = {**shown(stored, told, settings), "body_differs": answer.body_differs}
        return JSONResponse(shown_body, 201 if answer.is_new else 200)

    @router.get("", response_model=documented(ReviewPage))
    async def versions(
        changelist_id: Id,
        who: Annotated[Principal, SERVICE],
        before: Annotated[int, Query(ge=1, le=reviews.VERSION_MAX + 1)] = reviews.VERSION_MAX + 1,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> dict[str, Any]:
        """A changelist's reviews, the newest version first."""
        async with kernel.store.reading() as tx:
            found = await reviews.of_changelist(tx, changelist_id, before=before, limit=limit + 1)
            told = [await reviews.deliveries(tx, changelist_id, one.review_version) for one in found[:limit]]
        items = [shown(one, each, settings) for one, each in zip(found[:limit], told, strict=True)]
        return {"items": items, "next_before": found[limit - 1].review_version if len(found) > limit else None}

    @router.get("/{review_version}", response_model=documented(ReviewAnswer))
    async def one(changelist_id: Id, review_version: Version, who: Annotated[Principal, SERVICE]) -> dict[str, Any]:
        async with kernel.store.reading() as tx:
            stored = await reviews.by_version(tx, changelist_id, review_version)
            told = await reviews.deliveries(tx, changelist_id, review_version)
        if stored is None:
            raise NotFound(f"This changelist has no review of version {review_version}.")
        return shown(stored, told, settings)

    _add_mail_route(router, kernel, settings)
    return router


def _add_mail_route(router: APIRouter, kernel: Kernel, settings: ReviewSettings) -> None:
    @router.get("/{review_version}/mail")
    async def mail(
        changelist_id: Id,
        review_version: Version,
        recipient: Annotated[str, Query(min_length=1, max_length=320)],
        who: Annotated[Principal, SERVICE],
    ) -> SentMail:
        """The mail that a recipient was sent, where this deployment delivers into a Maildir of its own."""
        async with kernel.store.reading() as tx:
            told = await reviews.deliveries(tx, changelist_id, review_version)
        row = next((one for one in told if one.recipient == recipient and one.notification_id), None)
        found = None
        if row is not None and not (settings.smtp_url or settings.mail_http_url):
            name = row.notification_id or ""
            found = await asyncio.to_thread(read_mail, settings.mail_folder, recipient, name)
        if found is None:
            raise NotFound("This mail is not kept here.")
        text = found.get_body(("plain",))
        return SentMail(
            to=str(found["To"]),
            from_=str(found["From"]),
            date=str(found["Date"]),
            subject=str(found["Subject"]),
            text=text.get_content() if text is not None else "",
        )


def _known_key_route(kernel: Kernel, settings: ReviewSettings) -> type[APIRoute]:
    """Routes that answer a known key with its job although the rest of the body does not fit."""

    class KnownKeyRoute(APIRoute):
        def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handle_known(asked: HttpRequest) -> Response:
                try:
                    return await handle(asked)
                except RequestValidationError as error:  # raised after the caller's role was checked
                    known = await _shown_by_key(kernel, settings, error.body)
                    if known is None:
                        raise
                    return JSONResponse({**known, "body_differs": True}, 200)

            return handle_known

    return KnownKeyRoute


async def _shown_by_key(kernel: Kernel, settings: ReviewSettings, body: object) -> dict[str, Any] | None:
    key = body.get("idempotency_key") if isinstance(body, dict) else None
    if not isinstance(key, str) or "\0" in key:
        return None
    async with kernel.store.reading() as tx:
        stored = await reviews.by_key(tx, key)
        told = await reviews.deliveries(tx, stored.changelist_id, stored.review_version) if stored else []
    return shown(stored, told, settings) if stored else None


def shown(stored: StoredReview, told: list[ReviewDelivery], settings: ReviewSettings) -> dict[str, Any]:
    """A review as its caller sees it."""
    failure = {"error_class": stored.error_class, "message": stored.error} if stored.error_class else None
    return {
        "id": stored.id,
        "changelist_id": stored.changelist_id,
        "review_version": stored.review_version,
        "idempotency_key": stored.idempotency_key,
        "job_id": stored.job_id,
        "status": stored.status,
        "stage": stored.stage,
        "title": stored.title,
        "source": stored.source,
        "created_at": iso(stored.created_at),
        "updated_at": iso(stored.updated_at),
        "finished_at": _iso(stored.finished_at),
        "retry_at": _iso(stored.retry_at),
        "result": stored.result,
        "failure": failure,
        "dead_letter_id": stored.dead_letter_id,
        "deliveries": [_delivery(one) for one in told],
        "notes": settings.notes(),
    }


def _delivery(one: ReviewDelivery) -> dict[str, Any]:
    return {
        "recipient": one.recipient,
        "required": one.required,
        "status": one.status,
        "notification_id": one.notification_id,
        "notified_at": _iso(one.notified_at),
        "attempts": one.attempts,
        "error_class": one.error_class,
        "error": one.error,
        "effect_key": one.effect_key,
        "superseded_at": _iso(one.superseded_at),
        "superseded_by": one.superseded_by,
    }


def _iso(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso(at_ms)
