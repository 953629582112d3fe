"""What the routes of reviews answer, typed: the OpenAPI document is made from it, and the tests hold every answer
against it."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from holdfast_systems.review.changes import Source
from holdfast_systems.review.findings import Review
from holdfast_systems.review.reviews import Status

DeliveryStatus = Literal[
    "pending", "sending", "retrying", "unknown", "unverified", "sent", "failed", "needs_person", "superseded"
]


class DeliveryAnswer(TypedDict):
    """One recipient, and what is known of their mail."""

    recipient: str
    required: bool
    status: DeliveryStatus
    notification_id: str | None
    notified_at: str | None
    attempts: int
    error_class: str | None
    error: str | None
    effect_key: str | None
    superseded_at: str | None
    superseded_by: str | None


class ReviewFailure(TypedDict):
    error_class: str
    message: str | None


class ReviewAnswer(TypedDict):
    """A version of a review with its deliveries; `notes` name a risk that the mail server leaves."""

    id: str
    changelist_id: str
    review_version: int
    idempotency_key: str
    job_id: str
    status: Status
    stage: str | None
    title: str
    source: Source
    created_at: str
    updated_at: str
    finished_at: str | None
    retry_at: str | None
    result: Review | None
    failure: ReviewFailure | None
    dead_letter_id: str | None
    deliveries: list[DeliveryAnswer]
    notes: list[str]


class ReviewAsked(ReviewAnswer):
    """`body_differs`: the key came before, with another request."""

    body_differs: bool


class ReviewPage(TypedDict):
    items: list[ReviewAnswer]
    next_before: int | None
