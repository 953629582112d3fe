"""The main app: accepts submissions, asks for their grading by message, and keeps what comes back.

POST --one transaction--> submission PENDING + outbox row --relay--> grading.request
grading.callback --> callbacks.py --> submission, events        the clock --> sweep.py --> FAILED(TIMEOUT)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast import App
from holdfast.kit import Kernel
from holdfast.kit.tables import Tx, load_migrations, outbox, secrets
from holdfast.settings import read
from holdfast_systems.grading import calibrations, retention, submissions
from holdfast_systems.grading.callbacks import receive_callback
from holdfast_systems.grading.contract import SpeakingRequest
from holdfast_systems.grading.letters import keep_letter
from holdfast_systems.grading.outgoing import checked_request, request_message
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.grading.submissions import StoredSubmission
from holdfast_systems.grading.sweep import sweep_timeouts
from holdfast_systems.grading.topology import CALLBACKS, DEAD_LETTERS, QUEUES
from holdfast_systems.grading.transitions import Submission

NAME = "grading-main"
MIGRATIONS = load_migrations("grading_main", Path(__file__).parent / "migrations_main")


def build_main(env: Mapping[str, str]) -> App:
    """The main app for an environment."""
    settings = read(MainSettings, env)
    app = App(NAME, migrations=MIGRATIONS, queues=QUEUES)
    app.consume(CALLBACKS, unsigned=True)(receive_callback)
    app.consume(DEAD_LETTERS, unsigned=True)(keep_letter)  # only where no broker keeps them for people: it is a sink
    app.step(every_s=settings.timeout_check_ms / 1_000)(sweep_timeouts)

    @app.step(every_s=retention.EVERY_S)
    async def prune_submissions(kernel: Kernel) -> int:
        return await retention.prune_submissions(kernel, settings.keep_days)

    if settings.calibrate_every_h:

        @app.step(every_s=settings.calibrate_every_h * 3_600)
        async def calibrate(kernel: Kernel) -> int:
            return await calibrations.calibrate_all(kernel, "schedule")

    return app


async def submit(
    kernel: Kernel, tx: Tx, settings: MainSettings, user_id: str, skill: str, payload: Mapping[str, Any]
) -> StoredSubmission:
    """Store a submission and its request to the grading service, in the caller's transaction.

    What the contract would refuse at the other end is refused here, before anything is written."""
    new, message, sealed = prepared(kernel, settings, user_id, skill, payload)
    await submissions.insert(tx, new)
    await secrets.put(tx, {new.id: sealed}, new.created_at)
    await outbox.put(tx, [message], new.created_at)
    await tx.notify("outbox")
    return new


def prepared(
    kernel: Kernel, settings: MainSettings, user_id: str, skill: str, payload: Mapping[str, Any]
) -> tuple[StoredSubmission, outbox.NewMessage, list[secrets.NewSecret]]:
    """A submission as it will lie in the table, its request to the grading service, and what is kept apart of both: the
    relay makes the address in the message whole again."""
    now = kernel.now()
    submission_id = kernel.new_id()
    deadline_at = now + settings.sla_ms(skill)
    request = checked_request(kernel, submission_id, user_id, skill, payload, deadline_at)
    sealed: list[secrets.NewSecret] = []
    if isinstance(request, SpeakingRequest):
        hidden, secret = kernel.sealer.seal_address(request.payload.audio_url, 1, "payload.audioUrl")
        request = request.model_copy(update={"payload": request.payload.model_copy(update={"audio_url": hidden})})
        sealed += [secret] if secret else []
    new = StoredSubmission(
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
    return new, request_message(submission_id, request), sealed
