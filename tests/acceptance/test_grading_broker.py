"""A broker that takes nothing: submissions are kept, memory stays bounded, and all is published when it takes again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aio_pika
import psycopg
import pytest

from holdfast_systems.grading.contract import REQUEST_QUEUE
from tests.acceptance.grading_site import PATIENCE_S, GradingSite, Stranger
from tests.acceptance.process import Process, until
from tests.services.rabbitmq import RabbitMQServer

pytestmark = pytest.mark.slow

WAITING = 1_000
BODY_BYTES = 60_000
# A fifth of what waits, and far more than the batch that may be in flight.
GROWTH_KB_MAX = WAITING * BODY_BYTES // 1_024 // 5
_FILL = f"""
INSERT INTO holdfast_outbox (id, aggregate_id, destination, message_type, payload, created_at, available_at)
SELECT gen_random_uuid(), 'a' || n, 'vstep.exchange/grading.request', 'grading.request',
       json_build_object('requestId', n::text, 'padding', repeat('x', {BODY_BYTES}))::text, 1, 1
  FROM generate_series(1, {WAITING}) AS n
"""


@contextmanager
def blocked(server: RabbitMQServer, url: str) -> Iterator[None]:
    """The broker is short of memory: it reads from no publisher."""
    server._ask("rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []})")
    try:
        yield
    finally:
        server._ask("rabbit_alarm:clear_alarm({resource_limit, memory, node()})")


@contextmanager
def full(server: RabbitMQServer, url: str) -> Iterator[None]:
    """The queue has room for one message and refuses the rest."""
    vhost = url.rpartition("/")[2]
    limit = '[{<<"max-length">>, 1}, {<<"overflow">>, <<"reject-publish">>}]'
    of_queue = f'<<"{vhost}">>, <<"full">>, <<"^grading.request$">>, {limit}, 0, <<"queues">>, <<"tests">>'
    server._ask(f"rabbit_policy:set({of_queue})")
    try:
        yield
    finally:
        server._ask(f'rabbit_policy:delete(<<"{vhost}">>, <<"full">>, <<"tests">>)')


@pytest.mark.spec("G3", "G17", "K10")
@pytest.mark.parametrize("trouble", [blocked, full], ids=["blocked", "full"])
async def test_a_broker_that_takes_nothing_delays_requests_and_fills_no_memory(
    grading_site: GradingSite, rabbitmq_server: RabbitMQServer, trouble: object
) -> None:
    site = grading_site
    async with site.stranger() as stranger:
        main = await site.main(OUTBOX_BATCH_SIZE="10")
        await main.submit("before")
        before_kb = memory_kb(main.process, "VmRSS")
        with trouble(rabbitmq_server, site.broker):  # type: ignore[operator]
            with psycopg.connect(site.main_db) as connection:
                connection.execute(_FILL)
            await until(lambda: told(main.process, "step.failed"), "the relay to back off", PATIENCE_S)
            kept = await main.submit("meanwhile")
            assert (await main.show(kept["id"]))["status"] == "PENDING"
            grown_kb = memory_kb(main.process, "VmHWM") - before_kb
        assert grown_kb < GROWTH_KB_MAX, "what waits lies in the database, not in the process"
        await published(stranger, WAITING + 2)
    blamed = "SELECT COUNT(*) AS rows FROM holdfast_outbox WHERE retry_count > 0"
    assert site.in_main(blamed)[0]["rows"] == 0, "the broker's trouble is no row's fault"


async def published(stranger: Stranger, count: int) -> None:
    """So many different messages have come out of the queue."""
    found: set[str | None] = set()
    queue = await stranger.channel.get_queue(REQUEST_QUEUE)

    async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        found.add(message.message_id)

    await queue.consume(take, no_ack=True)
    await until(lambda: enough(found, count), f"{count} messages", PATIENCE_S)
    assert len(found) == count


async def enough(found: set[str | None], count: int) -> bool:
    return len(found) >= count


async def told(process: Process, event: str) -> bool:
    return f'"event": "{event}"' in process.log.read_text(errors="replace")


def memory_kb(process: Process, name: str) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name)))
