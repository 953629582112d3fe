"""What the routes of conversions answer, typed: the OpenAPI document is made from it, and the tests hold every answer
against it."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class ConversionTrouble(TypedDict):
    """One of the ten public codes, and its sentence."""

    code: str
    message: str


class ConvertedFile(TypedDict):
    url: str
    size: int
    sha256: str


class ConversionJob(TypedDict):
    """An upload and how it stands. `waitingFor` says why a queued job does not run, where it waits for more than its
    turn."""

    id: str
    status: Literal["queued", "processing", "complete", "failed", "expired", "cancelled"]
    fileName: str
    size: int
    sha256: str
    priority: Literal["high", "normal", "low"]
    createdAt: str
    queuedAt: str
    updatedAt: str
    startedAt: str | None
    finishedAt: str | None
    attemptCount: int
    lastAttemptAt: str | None
    retryAfter: str | None
    waitingFor: str | None
    expiresAt: str | None
    sourceAvailable: bool
    canRetry: bool
    error: ConversionTrouble | None
    lastError: ConversionTrouble | None
    result: ConvertedFile | None


class ConversionPage(TypedDict):
    """`banner`: what to tell users while nothing is converted."""

    jobs: list[ConversionJob]
    nextCursor: str | None
    banner: str | None
    uploadBytesMax: int
