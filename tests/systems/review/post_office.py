"""A mail provider outside the deployment, of any class, and a review system that uses it: what the tests run on.

What it delivered outlives every crash of a worker, as a real provider's would, so that mails can be counted there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any, TypeVar

from holdfast import CallError, Category
from holdfast.testing import World
from holdfast_systems.review import reviews
from holdfast_systems.review.changelist import Changelist, FetchedDiff
from holdfast_systems.review.changes import Source, UrlSource
from holdfast_systems.review.engine import Engine, critic_provider, mail_provider, source_provider
from holdfast_systems.review.findings import Finding, Review
from holdfast_systems.review.notifier import EffectClass
from holdfast_systems.review.reviews import Recipient, Request, ReviewDelivery, StoredReview
from holdfast_systems.review.settings import ReviewSettings

T = TypeVar("T")
ADA, BOB, CY = "ada@example.test", "bob@example.test", "cy@example.test"
SOURCE = UrlSource(type="url", url="https://example.test/1.diff")
DIFF = """diff --git a/app.py b/app.py
--- a/app.py
+++ b/app.py
@@ -1,1 +1,2 @@
 import os
+os.system("rm " + name)
"""


@dataclass
class PostOffice:
    """A provider of one class. `refused` addresses get a definite no, `failing` ones a temporary no, so many times;
    `silent` ones no answer, and no mail. It cannot be asked `blind` times. `calls` counts what reached it."""

    effects: EffectClass = "token"
    can_look: bool = True
    name: str = "post"
    refused: set[str] = field(default_factory=set)
    failing: Counter[str] = field(default_factory=Counter)
    silent: Counter[str] = field(default_factory=Counter)
    blind: int = 0
    delivered: list[tuple[str, str, bytes]] = field(default_factory=list)
    lookups: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    keeps_ids: bool = False
    asked_ids: list[str] = field(default_factory=list)

    async def send(self, message: EmailMessage, token: str) -> str:
        to = str(message["To"])
        self.calls[to] += 1
        if to in self.refused:
            raise CallError.of(Category.VALIDATION, "INVALID_RECIPIENT", "no such mailbox", status=550)
        if self.failing[to] > 0:
            self.failing[to] -= 1
            raise CallError.of(Category.UPSTREAM, "SMTP_TEMPORARY", "come back later", status=451)
        if self.silent[to] > 0:
            self.silent[to] -= 1
            raise CallError.of(Category.NETWORK, "NETWORK_TIMEOUT", "no answer", ambiguous=True)
        if not (self.effects == "token" and any(token == known for known, _, _ in self.delivered)):
            self.delivered.append((token, to, message.as_bytes()))
        return f"id-{token[:12]}"

    async def lookup(self, token: str) -> str | None:
        self.lookups += 1
        if self.blind > 0:
            self.blind -= 1
            raise CallError.of(Category.UPSTREAM, "IMAP_TEMPORARY", "the mailbox is away", status=503)
        return next((f"id-{token[:12]}" for known, _, _ in self.delivered if known == token), None)

    async def has_id(self, provider_id: str) -> bool:
        self.asked_ids.append(provider_id)
        return provider_id in {f"id-{token[:12]}" for token, _, _ in self.delivered}

    @property
    def mails(self) -> Counter[str]:
        return Counter(to for _, to, _ in self.delivered)


async def here(work: Callable[[], T]) -> T:
    return work()


@dataclass
class Desk:
    """What the stages reach, counted."""

    fetched: int = 0
    criticised: int = 0
    diff: str = DIFF

    async def fetch(self, settings: ReviewSettings, source: Source, *, trusted: bool) -> FetchedDiff:
        self.fetched += 1
        return FetchedDiff(self.diff, "Remove files by name", "Ada <ada@example.test>")

    async def criticise(
        self, changelist: Changelist, contents: Mapping[str, str], *, timeout_s: float, sizes: Mapping[str, int]
    ) -> Review:
        self.criticised += 1
        found = Finding("app.py", 2, "error", "S605", "A shell command is built from a name.", "offline")
        return Review("1 file, 1 added line: 1 error.", (found,), "offline")


def engine(post: PostOffice, desk: Desk, data_dir: str, **more: Any) -> Engine:
    settings = ReviewSettings(data_dir=data_dir, mail_s=10, **more)
    return Engine(
        settings,
        source=source_provider(settings),
        critic=critic_provider(settings),
        mail=mail_provider(settings, post),
        notifier=post,
        fetch=desk.fetch,
        criticise=desk.criticise,
        run_blocking=here,
    )


def request(version: int = 1, *, key: str | None = None, to: tuple[str, ...] = (ADA, BOB, CY), **more: Any) -> Request:
    recipients = more.pop("recipients", tuple(Recipient(one) for one in to))
    more = {"changelist_id": "cl-1", "source": SOURCE, "rerun": version > 1} | more
    return Request(review_version=version, idempotency_key=key or f"key-{version}", recipients=recipients, **more)


async def ask(world: World, asked: Request | None = None) -> StoredReview:
    """Submit a review, as the API does."""
    async with world.kernel.store.transaction() as tx:
        answer = await reviews.submit(world.kernel, tx, asked or request(), sender="reviews@example.test")
    return answer.stored


async def see(
    world: World, version: int = 1, changelist_id: str = "cl-1"
) -> tuple[StoredReview, dict[str, ReviewDelivery]]:
    async with world.kernel.store.reading() as tx:
        stored = await reviews.by_version(tx, changelist_id, version)
        told = await reviews.deliveries(tx, changelist_id, version)
    assert stored is not None
    return stored, {one.recipient: one for one in told}


Work = Callable[[], Awaitable[None]]
