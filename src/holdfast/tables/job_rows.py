"""A job as people are shown it: a line of a list, and with all that they may ask about."""

from __future__ import annotations

from typing import NamedTuple


class JobLine(NamedTuple):
    """A job in a list."""

    id: str
    kind: str
    queue: str
    stage: str
    state: str
    parked: int
    hold: str | None
    provider: str | None
    priority: int
    attempt: int
    failures: int
    crashes: int
    epoch: int
    run_at: int
    created_at: int
    updated_at: int
    started_at: int | None
    finished_at: int | None
    deadline_at: int | None
    lease_owner: str | None
    lease_until: int | None
    owner: str | None
    job_key: str | None
    error: str | None


class JobDetails(NamedTuple):
    """One job, with its input and what it waits for."""

    id: str
    kind: str
    queue: str
    stage: str
    state: str
    parked: int
    hold: str | None
    provider: str | None
    priority: int
    attempt: int
    failures: int
    crashes: int
    epoch: int
    run_at: int
    created_at: int
    updated_at: int
    started_at: int | None
    finished_at: int | None
    deadline_at: int | None
    last_attempt_at: int | None
    first_failure_at: int | None
    not_before: int | None
    lease_owner: str | None
    lease_until: int | None
    wait_key: str | None
    job_key: str | None
    owner: str | None
    trace: str | None
    version: int
    payload: str
    error: str | None


class RevivedJob(NamedTuple):
    """A dead job that was brought back."""

    attempt: int
    run_at: int
    queue: str
