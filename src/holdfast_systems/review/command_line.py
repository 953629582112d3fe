"""`holdfast review RANGE --repo PATH --to ADDRESS`: a local range is reviewed and mailed, and the review is printed.

It goes the whole way: the review and its job are stored, run by a worker in this process, told through the ledger. So
the same change to the same people is mailed once, however often the command is repeated, and what a Ctrl-C
interrupts goes on with the next `holdfast worker --system review`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from holdfast import HoldfastError
from holdfast.cli.terminal import printable
from holdfast.engines.run import Duties, prepare, run
from holdfast.engines.stopping import stop_on_signals
from holdfast.kit import Kernel
from holdfast.main import close_systems, open_systems
from holdfast.settings import Settings, read
from holdfast_systems.review import reviews
from holdfast_systems.review.changes import GitSource, fetch_source
from holdfast_systems.review.findings import Finding, counted
from holdfast_systems.review.http import shown
from holdfast_systems.review.jobs import NAME
from holdfast_systems.review.maildir import folder_name
from holdfast_systems.review.reviews import Recipient, Request, ReviewDelivery, StoredReview
from holdfast_systems.review.settings import ReviewSettings

POLL_S = 0.5
DOING = {"fetch": "fetching the change", "llm": "reviewing the changed lines", "notify": "telling the reviewers"}
COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


@dataclass(frozen=True, slots=True)
class CommandArguments:
    """What the command line asks for."""

    range: str
    repo: str
    to: tuple[str, ...]
    again: bool


def review(
    range: Annotated[str, typer.Argument(metavar="RANGE", help="A..B, A...B, or one revision.")],
    to: Annotated[list[str], typer.Option("--to", help="Address of a reviewer; repeat for more.")],
    repo: Annotated[Path, typer.Option("--repo", help="The repository.")] = Path("."),
    again: Annotated[bool, typer.Option("--again", help="Review and mail it even if that was done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Review a range of a local git repository, mail the review, and print it."""
    asked = CommandArguments(range, str(repo.expanduser().absolute()), tuple(to), again)
    try:
        stored, told, settings = asyncio.run(_review(asked, Console(stderr=True, quiet=as_json)))
    except HoldfastError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(shown(stored, told, settings), indent=2))
    else:
        print_review(stored, told, settings, Console())
    raise typer.Exit(0 if stored.status == "succeeded" else 1)


async def _review(
    asked: CommandArguments, console: Console
) -> tuple[StoredReview, list[ReviewDelivery], ReviewSettings]:
    settings = read(ReviewSettings, os.environ)
    source = GitSource(type="git", repo=asked.repo, range=asked.range)
    # Fetched here too: a mistyped range is a sentence now, not a dead letter, and the content names the change.
    fetched = await fetch_source(settings, source, trusted=True)
    name = f"{Path(asked.repo).name}@{hashlib.sha256(fetched.diff.encode()).hexdigest()[:12]}"
    opened = await open_systems(read(Settings, os.environ), os.environ, [NAME])
    try:
        kernel = opened[0].kernel
        await prepare(kernel)
        stored = await _submit(kernel, asked, name, source, settings)
        told, stored = await _run(kernel, stored, console)
        return stored, told, settings
    finally:
        await close_systems(opened)


async def _submit(
    kernel: Kernel, asked: CommandArguments, name: str, source: GitSource, settings: ReviewSettings
) -> StoredReview:
    """The review of this change for these people: the one that is there, or a new version of it."""
    async with kernel.store.transaction() as tx:
        known = await reviews.of_changelist(tx, name, limit=1)
        if known and known[0].status != "failed" and not asked.again:
            told = await reviews.deliveries(tx, name, known[0].review_version)
            if {one.recipient.casefold() for one in told} == {one.casefold() for one in asked.to}:
                return known[0]
        version = known[0].review_version + 1 if known else 1
        request = Request(
            changelist_id=name,
            review_version=version,
            idempotency_key=kernel.new_uuid4(),
            recipients=tuple(Recipient(one) for one in asked.to),
            source=source,
            rerun=True,
        )
        answer = await reviews.submit(kernel, tx, request, sender=settings.mail_from, owner="cli", trusted=True)
        return answer.stored


async def _run(kernel: Kernel, stored: StoredReview, console: Console) -> tuple[list[ReviewDelivery], StoredReview]:
    """Work until the review has ended, or until Ctrl-C."""
    duties = Duties(relay=False, consume=False, grace_s=5.0)
    with stop_on_signals(duties.grace_s) as stop:
        async with asyncio.TaskGroup() as group:
            group.create_task(run(kernel, duties, stop))
            told, last = await _follow(kernel, stored, stop, console)
            stop.set()
    return told, last


async def _follow(
    kernel: Kernel, stored: StoredReview, stop: asyncio.Event, console: Console
) -> tuple[list[ReviewDelivery], StoredReview]:
    listener = kernel.store.listen("events")
    try:
        with console.status("waiting for a worker") as line:
            while True:
                async with kernel.store.reading() as tx:
                    now = await reviews.by_version(tx, stored.changelist_id, stored.review_version)
                    told = await reviews.deliveries(tx, stored.changelist_id, stored.review_version)
                assert now is not None
                if now.status in ("succeeded", "failed"):
                    return told, now
                if stop.is_set():
                    message = "Stopped. The review goes on with `holdfast worker --system review`."
                    raise HoldfastError(message)
                line.update(_plain(doing(now, told, kernel.now())))
                with suppress(TimeoutError):
                    await listener.wait(POLL_S)
    finally:
        listener.close()


def doing(stored: StoredReview, told: Sequence[ReviewDelivery], now: int) -> str:
    """One line on what is happening."""
    text = DOING.get(stored.stage or "", "working")
    if stored.stage == "notify":
        text += f" ({sum(one.status == 'sent' for one in told)} of {len(told)})"
    if stored.status == "retryable_failed" and stored.retry_at is not None:
        wait_s = max(0, stored.retry_at - now) / 1_000
        text += f": {stored.error} Trying again in {wait_s:.0f} s."
    return text


def print_review(
    stored: StoredReview, told: Sequence[ReviewDelivery], settings: ReviewSettings, console: Console
) -> None:
    """The review as a person reads it: findings under their file, then where the mail went."""
    if stored.status == "failed":
        where = f" See `holdfast dead show {stored.dead_letter_id}`." if stored.dead_letter_id else ""
        console.print(
            f"[red]The review failed at {stored.stage}[/]: {_plain(stored.error or '')}{where}", soft_wrap=True
        )
    if stored.result is not None:
        _print_result(stored, stored.result, console)
    for one in told:
        console.print(f"{_plain(one.recipient)}: {_plain(_where(one, settings))}", soft_wrap=True)
    for note in settings.notes():
        console.print(f"[yellow]{_plain(note)}[/]")


def _print_result(stored: StoredReview, result: dict[str, Any], console: Console) -> None:
    findings = [Finding(**each) for each in result["findings"]]
    console.print(f"[bold]{_plain(stored.title or stored.changelist_id)}[/] (version {stored.review_version})")
    console.print(_plain(result["summary"]))
    for path, group in groupby(findings, key=lambda each: each.path):
        console.print(f"\n[bold]{_plain(path or 'The whole change')}[/]")
        for each in group:
            place = f"line {each.line}" if each.line else "file"
            colour = COLOURS[each.severity]
            console.print(f"  [{colour}]{each.severity}[/] {place}: {_plain(each.message)} [dim]{_plain(each.rule)}[/]")
            if each.suggestion:
                console.print(f"    suggested line: {_plain(each.suggestion)}", highlight=False)
    console.print(f"\n{counted(findings)}. Critic: {result['critic']}.")


def _where(one: ReviewDelivery, settings: ReviewSettings) -> str:
    if one.status == "sent":
        if one.provider == "maildir":
            return f"mailed to {settings.mail_folder / folder_name(one.recipient) / 'new' / str(one.notification_id)}"
        return f"mailed by {one.provider} as {one.notification_id}"
    return f"{one.status.replace('_', ' ')}{f': {one.error}' if one.error else ''}"


def _plain(text: str) -> str:
    """What somebody wrote in a change, as it stands: no markup, and nothing that a terminal obeys."""
    return escape(printable(text))
