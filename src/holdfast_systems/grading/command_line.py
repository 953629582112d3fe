"""`holdfast submissions` and `holdfast dlq`: the operator's desk of the main app on the command line.

Both ask what the API asks. They open the main app's database, and `dlq` the broker that its settings name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from holdfast import NotFound
from holdfast.cli.reach import fail, on_kernel, say, show, show_rows
from holdfast.cli.start import ME, Actor, AsJson, Limit
from holdfast.cli.table import lines
from holdfast.kit import Kernel
from holdfast.settings import read
from holdfast_systems.grading import attempts, desk, letters, submissions
from holdfast_systems.grading.desk import Wanted
from holdfast_systems.grading.letters import shown_letter
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.grading.submission_views import for_operator, shown
from holdfast_systems.grading.transitions import Status, TransitionRefusal

T = TypeVar("T")
SYSTEM = "grading-main"
Reason = Annotated[str, typer.Option(help="Why, for the audit.")]

submissions_cli = typer.Typer(no_args_is_help=True)
dlq_cli = typer.Typer(no_args_is_help=True)


@submissions_cli.command("list")
def submissions_list(
    status: Annotated[Status | None, typer.Option(help="Only submissions in this status.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only those that failed for this reason.")] = None,
    user: Annotated[str | None, typer.Option(help="Only this learner's.")] = None,
    late: Annotated[bool, typer.Option("--late", help="Only those with a result after the deadline.")] = False,
    flagged: Annotated[bool, typer.Option("--flagged", help="Only those that are flagged for audit.")] = False,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Submissions, the newest first."""
    wanted = Wanted(status, reason, user, True if late else None, True if flagged else None)

    async def ask(kernel: Kernel) -> list[dict[str, Any]]:
        async with kernel.store.reading() as tx:
            return [for_operator(row) for row in await desk.page(tx, wanted, None, limit)]

    columns = ["id", "userId", "skill", "attempt", "status", "failureReason", "isLate", "auditFlag", "createdAt"]
    show_rows(lambda: on_kernel(SYSTEM, ask), columns, as_json)


@submissions_cli.command("show")
def submissions_show(submission_id: str, as_json: AsJson = False) -> None:
    """One submission: its results, its attempts, and every callback that named it, refused ones included."""

    async def ask(kernel: Kernel) -> dict[str, Any]:
        async with kernel.store.reading() as tx:
            known_id = await desk.find_id(tx, submission_id)
        whole = await desk.show(kernel, known_id)
        if whole is None:
            raise NotFound(f"There is no submission {submission_id}.")
        return whole

    show(lambda: on_kernel(SYSTEM, ask), lines, as_json)


@submissions_cli.command("refused")
def submissions_refused(limit: Limit = 50, as_json: AsJson = False) -> None:
    """What came on grading.callback and was no callback, the newest first, whether or not it names a submission."""

    async def ask(kernel: Kernel) -> list[dict[str, Any]]:
        async with kernel.store.reading() as tx:
            return [desk.shown_refusal(row) for row in await desk.refused(tx, None, limit)]

    columns = ["lastAt", "times", "requestId", "submissionId", "sizeBytes", "reason"]
    show_rows(lambda: on_kernel(SYSTEM, ask), columns, as_json)


@submissions_cli.command("resubmit")
def submissions_resubmit(submission_id: str, actor: Actor = ME, as_json: AsJson = False) -> None:
    """Submit failed work again, as its next attempt: a new request and a new deadline."""

    async def act(kernel: Kernel) -> dict[str, Any]:
        async with kernel.store.transaction() as tx:
            stored = await submissions.lock(tx, await desk.find_id(tx, submission_id))
            if stored is None:
                raise NotFound(f"There is no submission {submission_id}.")
            return shown(await attempts.resubmit(kernel, tx, _settings(), stored, actor))

    try:
        begun = on_kernel(SYSTEM, act)
    except TransitionRefusal as refusal:
        fail(str(refusal))
    sentence = f"Attempt {begun['attempt']} of submission {submission_id} is due by {begun['deadlineAt']}."
    say(sentence, as_json, **begun)


@dlq_cli.command("list")
def dlq_list(limit: Limit = 50, as_json: AsJson = False) -> None:
    """What lies in the queue, the oldest first. Looking takes nothing away."""

    async def ask(kernel: Kernel) -> list[dict[str, Any]]:
        return [shown_letter(letter) for letter in await letters.list_letters(kernel, limit)]

    columns = ["id", "state", "requestId", "submissionId", "failureReason", "attemptsMade", "timestamp", "lastError"]
    show_rows(lambda: on_kernel(SYSTEM, ask), columns, as_json)


@dlq_cli.command("show")
def dlq_show(letter_id: str, as_json: AsJson = False) -> None:
    """One letter with its original message, in the queue or in the record of what was done about it."""

    async def ask(kernel: Kernel) -> dict[str, Any]:
        return shown_letter(await letters.show_letter(kernel, await letters.find_id(kernel, letter_id)), whole=True)

    show(lambda: on_kernel(SYSTEM, ask), lines, as_json)


@dlq_cli.command("resend")
def dlq_resend(letter_id: str, reason: Reason, actor: Actor = ME, as_json: AsJson = False) -> None:
    """Send the letter's request again, once, under its own request id, and take the letter away."""
    _act(letters.resend, letter_id, reason, actor, as_json, "is sent again")


@dlq_cli.command("archive")
def dlq_archive(letter_id: str, reason: Reason, actor: Actor = ME, as_json: AsJson = False) -> None:
    """Take a letter away; it stays in the record, with the reason."""
    _act(letters.archive, letter_id, reason, actor, as_json, "is archived")


def _act(
    verb: Callable[..., Awaitable[letters.QueuedLetter]],
    letter_id: str,
    reason: str,
    actor: str,
    as_json: bool,
    done: str,
) -> None:
    async def act(kernel: Kernel) -> dict[str, Any]:
        return shown_letter(await verb(kernel, await letters.find_id(kernel, letter_id), actor=actor, reason=reason))

    say(f"Letter {letter_id} {done}.", as_json, **on_kernel(SYSTEM, act))


def _settings() -> MainSettings:
    import os

    return read(MainSettings, os.environ)
