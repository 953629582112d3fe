"""Reviews through a real mail server, with the worker killed at random: each mailbox gets each review exactly once.

HOLDFAST_MAIL_REVIEWS says how many reviews (24 unless set), HOLDFAST_MAIL_SEED the luck.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from holdfast.kernel import operate
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.stores.sqlite import SqliteStore
from holdfast.tables import cases, events
from holdfast_systems.review import reviews
from holdfast_systems.review.changes import UrlSource
from holdfast_systems.review.jobs import build_review
from holdfast_systems.review.reviews import Recipient, Request
from tests.acceptance.process import Nursery, Process
from tests.services.child import ServerUnavailable
from tests.services.mail import DOMAIN, MailServer

REVIEWS = int(os.environ.get("HOLDFAST_MAIL_REVIEWS", "24"))
SEED = int(os.environ.get("HOLDFAST_MAIL_SEED", "1"))
KILLS = max(5, REVIEWS // 8)
NAMES = ("ada", "bob", "cy")
LIMIT_S = 60.0 + 3.0 * REVIEWS
DIFF = b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,2 @@\n one\n+two\n"


@pytest.fixture(scope="module")
def mail() -> Iterator[MailServer]:
    try:
        server = MailServer(NAMES)
    except ServerUnavailable as reason:
        pytest.skip(f"NOT PROVEN HERE: {reason}")
    try:
        server.begin()
        yield server
    finally:
        server.stop()


class World(BaseHTTPRequestHandler):
    """The diffs and the model, on one port."""

    paid: ClassVar[Counter[str]] = Counter()
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(DIFF)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        title = asked["messages"][1]["content"].partition("\n")[0]
        World.paid[title] += 1
        content = json.dumps({"summary": "It adds a line.", "findings": []})
        choice = {"message": {"content": content}, "finish_reason": "stop"}
        self._answer(json.dumps({"choices": [choice], "usage": {}}).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A killed worker leaves its connections in the middle of a line: that is the point, not an error."""


@pytest.fixture
def web() -> Iterator[str]:
    server = Server(("127.0.0.1", 0), World)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def env(mail: MailServer, web: str, tmp_path: Path) -> dict[str, str]:
    return {
        "REVIEW_DATABASE_URL": f"sqlite:///{tmp_path / 'review.db'}",
        "HOLDFAST_DATA_DIR": str(tmp_path),
        "SMTP_URL": mail.smtp_url,
        "IMAP_URL": mail.imap_url,
        "OPENAI_BASE_URL": f"{web}/v1",
        "REVIEW_PRIVATE_HOSTS": "127.0.0.1",
        "REVIEW_MAIL_FROM": f"reviews@{DOMAIN}",
        "REVIEW_MAIL_SEC": "2",
        "REVIEW_MAIL_LATE_SEC": "2",
        "WORKER_LEASE_TTL_SEC": "3",
        "HOLDFAST_RENEW_SEC": "1",
        "HOLDFAST_REAP_SEC": "0.5",
        "HOLDFAST_LOG_LEVEL": "WARNING",
    }


class Deployment:
    """Workers as processes, and a window on their database."""

    def __init__(self, env: dict[str, str], nursery: Nursery) -> None:
        self.env, self.nursery = env, nursery
        self.kernel = Kernel(
            store=SqliteStore(env["REVIEW_DATABASE_URL"].removeprefix("sqlite:///")),
            registry=Registry([build_review(env)]),
        )

    def worker(self) -> Process:
        return self.nursery.start("worker", "--system", "review", env=self.env)

    async def ask(self, number: int, web: str) -> None:
        request = Request(
            changelist_id=f"cl-{number}",
            review_version=1,
            idempotency_key=f"key-{number}",
            recipients=tuple(Recipient(f"{name}@{DOMAIN}") for name in NAMES),
            source=UrlSource(type="url", url=f"{web}/{number}.diff"),
            title=f"Change {number}",
        )
        async with self.kernel.store.transaction() as tx:
            await reviews.submit(self.kernel, tx, request, sender=f"reviews@{DOMAIN}")

    async def statuses(self) -> Counter[str]:
        found: Counter[str] = Counter()
        async with self.kernel.store.reading() as tx:
            for number in range(REVIEWS):
                one = await reviews.by_version(tx, f"cl-{number}", 1)
                assert one is not None
                found[one.status] += 1
        return found

    async def lost_attempts(self) -> int:
        async with self.kernel.store.reading() as tx:
            jobs = [await reviews.by_version(tx, f"cl-{number}", 1) for number in range(REVIEWS)]
            told = [await events.of_job(tx, one.job_id) for one in jobs if one is not None]
        return sum(row.type == "lost" for rows in told for row in rows)

    async def revive_poisoned(self) -> int:
        """A job that lost three workers is a dead letter: the operator knows who killed them, and replays it."""
        async with self.kernel.store.reading() as tx:
            dead = [letter._asdict() for letter in await cases.page(tx) if letter.state == "open"]
        for case in dead:
            assert case["error_class"] == "POISON_JOB", case
            await operate.triage(self.kernel, case["id"], cause="transient", actor="olga")
            await operate.remediate(self.kernel, case["id"], evidence="the kills were ours", actor="olga")
            await operate.replay(self.kernel, case["id"], actor="olga")
        return len(dead)


async def until(done: object, seconds: float) -> None:
    """Wait for something another process does."""
    give_up_at = time.monotonic() + seconds
    while not await done():  # type: ignore[operator]
        assert time.monotonic() < give_up_at, f"not within {seconds:.0f} s"
        await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.spec("R4", "R5", "R6", "R9", "004.31")
async def test_each_mailbox_has_each_review_once_however_often_the_worker_is_killed(
    mail: MailServer, web: str, env: dict[str, str], nursery: Nursery
) -> None:
    luck, here = random.Random(SEED), Deployment(env, nursery)
    await here.kernel.migrate()
    for number in range(REVIEWS):
        await here.ask(number, web)

    def arrived() -> int:
        return sum(1 for _ in (mail.folder / "boxes" / "copies" / "new").glob("*"))

    async def finished() -> bool:
        await here.revive_poisoned()
        return (await here.statuses())["succeeded"] == REVIEWS

    kills = 0
    for _ in range(KILLS):
        process, wanted = here.worker(), arrived() + luck.randint(1, max(2, 4 * REVIEWS // KILLS // 2))
        for _ in range(200):
            await asyncio.sleep(0.02 + luck.random() * 0.06)
            if arrived() >= wanted:
                break
        process.send(signal.SIGKILL)
        kills += await process.until_ended() == -signal.SIGKILL
    last = here.worker()
    try:
        await until(finished, LIMIT_S)
    finally:
        await last.end()

    async def delivered() -> bool:
        return mail.in_transit() == 0

    await until(delivered, 30)
    wanted_mails = Counter(f"cl-{number}; version=1" for number in range(REVIEWS))
    for name in NAMES:
        assert Counter(one["X-Holdfast-Review"] for one in mail.mails(name)) == wanted_mails, name
    lost = await here.lost_attempts()
    await here.kernel.store.close()
    assert kills == KILLS and lost > 0 and len(World.paid) == REVIEWS
    again = sum(World.paid.values()) - REVIEWS
    print(f"{REVIEWS} reviews, {kills} kills, {lost} attempts lost, {again} prompts paid twice")


@pytest.mark.slow
@pytest.mark.spec("R7", "R9")
async def test_an_unknown_mailbox_fails_alone_and_a_kill_after_the_send_is_looked_up(
    mail: MailServer, web: str, env: dict[str, str], nursery: Nursery
) -> None:
    """The worker kills itself right after Postfix took a mail: its copy is found over IMAP, and no second one sent."""
    here = Deployment(env, nursery)
    await here.kernel.migrate()
    before = {name: len(mail.mails(name)) for name in NAMES}
    request = Request(
        changelist_id="cl-known",
        review_version=1,
        idempotency_key="known",
        recipients=(Recipient(f"ada@{DOMAIN}"), Recipient(f"nobody-here@{DOMAIN}"), Recipient(f"bob@{DOMAIN}")),
        source=UrlSource(type="url", url=f"{web}/known.diff"),
    )
    async with here.kernel.store.transaction() as tx:
        await reviews.submit(here.kernel, tx, request, sender=f"reviews@{DOMAIN}")
    here.env = env | {"HOLDFAST_FAILPOINTS": "effect.after_send=kill"}
    killed = here.worker()
    assert await killed.until_ended(60) == -signal.SIGKILL, killed.tail()
    here.env = env
    last = here.worker()

    async def ended() -> bool:
        async with here.kernel.store.reading() as tx:
            one = await reviews.by_version(tx, "cl-known", 1)
        return one is not None and one.status == "failed"

    try:
        await until(ended, 60)
    finally:
        await last.end()
    async with here.kernel.store.reading() as tx:
        told = await reviews.deliveries(tx, "cl-known", 1)
    await here.kernel.store.close()
    assert [one.status for one in told] == ["sent", "failed", "sent"] and told[1].error_class == "INVALID_RECIPIENT"
    assert [one.attempts for one in told] == [1, 1, 1], "found, not sent again"
    assert re.fullmatch(r"<[0-9a-f]{40}@example\.test>", told[0].notification_id or "")

    async def delivered() -> bool:
        return mail.in_transit() == 0

    await until(delivered, 30)
    assert {name: len(mail.mails(name)) - before[name] for name in NAMES} == {"ada": 1, "bob": 1, "cy": 0}
