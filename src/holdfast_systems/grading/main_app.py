"""The main app: accepts submissions, asks for their grading by message, and keeps what comes back.

POST --one transaction--> submission PENDING + outbox row --relay--> grading.request
grading.callback --> callbacks.py --> submission, events        the clock --> sweep.py --> FAILED(TIMEOUT)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import holdfast
from holdfast import App, InvalidInput
from holdfast.kit import Kernel, Tx, batch, load_migrations, outbox, trace_headers
from holdfast.settings import read
from holdfast_systems.grading import retention, submissions
from holdfast_systems.grading.callbacks import receive_callback
from holdfast_systems.grading.contract import REQUEST_QUEUE, GradingRequest, parse_request
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.grading.submissions import Stored
from holdfast_systems.grading.sweep import sweep_timeouts
from holdfast_systems.grading.topology import CALLBACKS, QUEUES, destination
from holdfast_systems.grading.transitions import Submission
from holdfast_systems.grading.wire import InvalidMessage

NAME = "grading-main"
MIGRATIONS = load_migrations("grading_main", Path(__file__).parent / "migrations_main")


def build_main(env: Mapping[str, str]) -> App:
    """The main app for an environment."""
    settings = read(MainSettings, env)
    app = App(NAME, migrations=MIGRATIONS, queues=QUEUES)
    app.consume(CALLBACKS)(receive_callback)
    app.step(every_s=settings.timeout_check_ms / 1_000)(sweep_timeouts)

    @app.step(every_s=retention.EVERY_S)
    async def prune_submissions(kernel: Kernel) -> int:
        return await retention.prune_submissions(kernel, settings.keep_days)

    return app


async def submit(
    kernel: Kernel, tx: Tx, settings: MainSettings, user_id: str, skill: str, payload: Mapping[str, Any]
) -> Stored:
    """Store a submission and its request to the grading service, in the caller's transaction.

    What the contract would refuse at the other end is refused here, before anything is written."""
    new, message = prepared(kernel, settings, user_id, skill, payload)
    await submissions.insert(tx, new)
    await outbox.put(tx, [message], new.created_at)
    await tx.hint("outbox")
    return new


def prepared(
    kernel: Kernel, settings: MainSettings, user_id: str, skill: str, payload: Mapping[str, Any]
) -> tuple[Stored, outbox.NewMessage]:
    """A submission as it will lie in the table, and its request to the grading service."""
    now = kernel.now()
    submission_id = kernel.new_id()
    deadline_at = now + settings.sla_ms(skill)
    request = checked_request(kernel, submission_id, user_id, skill, payload, deadline_at)
    new = Stored(
        id=submission_id,
        user_id=user_id,
        skill=request.skill,
        payload=request.payload.model_dump(mode="json", by_alias=True, exclude_none=True),
        request_id=request.request_id,
        attempt=request.attempt,
        created_at=now,
        updated_at=now,
        version=0,
        state=Submission(status="PENDING", deadline_at=deadline_at),
    )
    body = request.body().decode()
    headers = batch.text(trace_headers())
    return new, (kernel.new_uuid4(), submission_id, destination(REQUEST_QUEUE), REQUEST_QUEUE, body, headers)


def checked_request(
    kernel: Kernel, submission_id: str, user_id: str, skill: str, payload: Mapping[str, Any], deadline_at: int
) -> GradingRequest:
    """The request as the grading service will read it, by its own parser; raises `InvalidInput` with the reason."""
    tree = {
        "messageType": REQUEST_QUEUE,
        "createdAt": iso(kernel.now()),
        "producer": {"service": "main-app", "version": holdfast.__version__},
        "requestId": kernel.new_uuid4(),
        "submissionId": submission_id,
        "userId": user_id,
        "skill": skill,
        "attempt": 1,
        "deadlineAt": iso(deadline_at),
        "payload": dict(payload),
    }
    try:
        return parse_request(json.dumps(tree).encode())
    except InvalidMessage as invalid:
        raise InvalidInput(f"{invalid.reason.removesuffix('.')}.") from None


def iso(at_ms: int) -> str:
    """A time as the contract and every answer writes it."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
