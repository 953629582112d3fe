"""Anybody's job may tell a server how it ended: ordered with the end itself, delivered once, signed."""

from __future__ import annotations

import pytest

from holdfast import App, CallError, Category, Context, Job, JobTx, Retry, Settled, stage
from holdfast.core.job import TERMINAL
from holdfast.providers.outbound import OutboundPolicy
from holdfast.providers.webhook import declare_webhooks, signed
from holdfast.testing import world
from tests.systems.conversion.stub import stub

pytestmark = pytest.mark.spec("K18")
SECRET = "a-webhook-secret-of-the-tests"


def app_with_webhooks(*urls: str) -> tuple[App, type[Job[int]]]:
    app = App("orders")
    hooks = declare_webhooks(app, secret=SECRET, policy=OutboundPolicy(allow_private_hosts=("127.0.0.1",)))

    @app.job()
    class Pay(Job[int]):
        @stage(retry=Retry(attempts=1))
        async def pay(self, ctx: Context, amount: int) -> int:
            if amount < 0:
                raise CallError.of(Category.VALIDATION, "AMOUNT_REFUSED", "no such amount")
            return amount

        async def on_settled(self, tx: JobTx, change: Settled) -> None:
            if change.state in TERMINAL:
                event = f"{change.job_id}/{change.job.epoch}"
                for number, url in enumerate(urls):
                    await hooks.tell(tx, url, f"{event}/{number}", {"type": f"order.{change.state}"})

    return app, Pay


@pytest.mark.parametrize(("amount", "type"), [(5, "order.succeeded"), (-5, "order.dead")])
async def test_each_end_is_told_once_with_a_signature_that_holds(amount: int, type: str) -> None:
    async with stub() as hook:
        app, pay = app_with_webhooks(hook.url)
        async with world(app) as w:
            w.crash_at("effect.before_send")
            await w.enqueue(pay, amount)
            await w.run_until_idle()
            seen = await hook.next()
            assert seen.body.decode() == f'{{"type":"{type}"}}', "these bytes are signed, and read by others"
            sent_at = int(seen.headers["webhook-timestamp"])
            expected = signed(SECRET, seen.headers["webhook-id"], sent_at, seen.body.decode())
            assert seen.headers["webhook-signature"] == expected["webhook-signature"]
            assert hook.seen.empty(), "the crash before the send cost nobody a second notice"


async def test_a_receiver_that_asks_for_time_holds_back_no_other() -> None:
    async with stub(statuses=[429], headers={"Retry-After": "600"}) as busy, stub() as hook:
        app, pay = app_with_webhooks(busy.url, hook.url)
        async with world(app) as w:
            for expected in (1, 2):
                await w.enqueue(pay, 5)
                for _ in range(3):
                    await w.tick()
                assert hook.seen.qsize() == expected


def test_a_call_has_the_time_that_the_declaration_gives_it() -> None:
    app = App("orders")
    declare_webhooks(app, secret=SECRET, policy=OutboundPolicy(), timeout_s=3)
    assert app.providers["webhook"].timeout_s == 3
