"""Messages by somebody who may write to the broker, and is neither of the two services."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import aio_pika
import pytest
from aiormq.exceptions import ChannelAccessRefused
from tests.services.rabbitmq import RabbitMQServer
from tests.systems.grading.callbacks_made import completed
from tests.systems.grading.pair import Pair
from tests.systems.grading.test_grading_service import graded, request

from holdfast import NotAllowed
from holdfast.engines.doorbell import doorbell
from holdfast.engines.run import _handle
from holdfast.errors import TransportDown
from holdfast.kernel import operate
from holdfast.kernel.app import Consumer
from holdfast.kernel.kernel import Kernel
from holdfast.transports.rabbitmq.transport import RabbitTransport
from holdfast.transports.seam import Delivery, Message, Queue
from holdfast_systems.grading import letters
from holdfast_systems.grading.callbacks import receive_callback
from holdfast_systems.grading.contract import CALLBACK_QUEUE, EXCHANGE, REQUEST_QUEUE
from holdfast_systems.grading.topology import QUEUES

CONTRACT = Path(__file__).parents[3] / "docs/contract/README.md"


@pytest.mark.spec("K30", "G9")
async def test_an_unsigned_callback_decides_nothing_where_keys_are_set(pair: Pair) -> None:
    stored = await pair.submit()
    forged = completed(stored.request_id, stored.id).body()
    await receive_callback(pair.main.kernel, Delivery(CALLBACK_QUEUE, forged, "m-1", genuine=False))
    assert (await pair.query(pair.main, "SELECT status FROM submissions"))[0]["status"] == "PENDING"
    await receive_callback(pair.main.kernel, Delivery(CALLBACK_QUEUE, forged, "m-1"))
    assert (await pair.query(pair.main, "SELECT status FROM submissions"))[0]["status"] == "COMPLETED"


def of_intake(pair: Pair, **fields: object) -> Delivery:
    return Delivery(REQUEST_QUEUE, json.dumps(request(pair) | fields).encode(), "m-1", genuine=False)


@pytest.mark.spec("K30", "G9")
async def test_an_unsigned_request_is_graded_by_no_way_and_fails_nobodys_work(pair: Pair) -> None:
    """It is whole, so that whoever reads it once more without asking for its signature grades it."""
    (requests,) = (one for app in pair.service.kernel.registry.apps for one in app.consumers)
    stored = await pair.submit()
    for forged in (of_intake(pair), of_intake(pair, requestId=stored.request_id, submissionId=stored.id)):
        await requests.handle(pair.service.kernel, forged)
    await pair.service.tick()
    assert (graded(pair), pair.callbacks) == (0, []), "a callback of ours would be signed"
    cases = await pair.query(pair.service, "SELECT job_id, error_class FROM holdfast_dead_letters")
    assert [case["error_class"] for case in cases] == ["UNSIGNED"] * 2
    async with pair.service.kernel.store.transaction() as tx:
        await operate.retry_dead(pair.service.kernel, tx, cases[0]["job_id"], actor="olga", evidence="all of them")
    await pair.settle()
    assert graded(pair) == 1, "the learner's own, and nothing else"
    for letter in await letters.list_letters(pair.main.kernel, 10):
        with pytest.raises(NotAllowed, match="nobody signed"):
            await letters.resend(pair.main.kernel, letter.id, actor="olga", reason="all of them")


@pytest.mark.spec("K30")
async def test_a_consumer_sees_what_nobody_signed_only_if_it_asks(pair: Pair) -> None:
    seen: list[Delivery] = []

    async def keep(kernel: Kernel, delivery: Delivery) -> None:
        seen.append(delivery)

    for unsigned in (False, True):
        consumer = Consumer(Queue("q"), keep, unsigned=unsigned)
        for genuine in (True, False):
            await _handle(pair.main.kernel, consumer, Delivery("q", b"{}", "m", genuine=genuine))
    assert [delivery.genuine for delivery in seen] == [True, True, False]


def documented() -> dict[str, tuple[str, str, str]]:
    """Who may configure, write and read what, as the contract's page says it."""
    found = re.findall(r"set_permissions -p VHOST (\S+) '(\S+)' '(\S+)' '(\S+)'", CONTRACT.read_text())
    return {user: (configure, write, read) for user, configure, write, read in found}


@pytest.mark.slow
@pytest.mark.spec("K30", "G9")
async def test_the_documented_permissions_keep_the_services_apart(
    rabbitmq_server: RabbitMQServer, rabbitmq_url: str
) -> None:
    vhost = rabbitmq_url.rpartition("/")[2]
    permissions = documented()
    assert set(permissions) == {"main-app", "grading-service", "grading-celery"}
    urls = {}
    for user in (*permissions, "stranger"):
        internal = "rabbit_auth_backend_internal"
        name = f"{user}-{vhost}"
        rabbitmq_server._insist(f'{internal}:add_user(<<"{name}">>, <<"of-the-test">>, <<"tests">>)')
        rules = ", ".join(f"<<{json.dumps(each)}>>" for each in permissions.get(user, ("^$", "^$", "^$")))
        rabbitmq_server._insist(f'{internal}:set_permissions(<<"{name}">>, <<"{vhost}">>, {rules}, <<"tests">>)')
        urls[user] = rabbitmq_url.replace("holdfast:holdfast", f"{name}:of-the-test")
    for user in permissions:
        transport = RabbitTransport(urls[user])
        await transport.declare(QUEUES)
        assert transport.trouble() is None
        await transport.close()
    assert await may_get(urls["main-app"], CALLBACK_QUEUE) and not await may_get(urls["main-app"], REQUEST_QUEUE)
    assert await may_get(urls["grading-service"], REQUEST_QUEUE)
    assert not await may_get(urls["grading-service"], CALLBACK_QUEUE)
    assert await may_publish(urls["grading-service"]) and not await may_publish(urls["stranger"])
    assert await may_ring(urls["grading-celery"]) and not await may_ring(urls["grading-service"])
    assert not await may_get(urls["grading-celery"], CALLBACK_QUEUE)
    assert "refuses this user" in await why_stalled(urls["grading-service"], CALLBACK_QUEUE)


async def may_ring(url: str) -> bool:
    """As the Celery engine does: an exchange and a queue for the bells, which are sent past that exchange."""
    transport, bell = RabbitTransport(url), doorbell("grading-service")
    try:
        await transport.declare([Queue(bell, bell)])
        await transport.publish(Message("m-1", bell, b"{}"))
    except TransportDown as error:
        assert "refuses this user" in str(error)
        return False
    finally:
        await transport.close()
    return await may_get(url, bell)


async def why_stalled(url: str, queue: str) -> str:
    """What a transport says of a queue that its user may not consume."""
    transport = RabbitTransport(url)
    consuming = asyncio.create_task(transport.consume(queue, transport.publish))  # type: ignore[arg-type]
    try:
        async with asyncio.timeout(20):
            while queue not in transport.stalled():  # noqa: ASYNC110, a refusal rings no bell
                await asyncio.sleep(0.01)
        assert transport.trouble() is None, "the broker is there"
        return transport.stalled()[queue]
    finally:
        consuming.cancel()
        await asyncio.wait([consuming])
        await transport.close()


async def may_get(url: str, queue: str) -> bool:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        try:
            await (await channel.get_queue(queue, ensure=False)).get(no_ack=False, fail=False)
        except ChannelAccessRefused:
            return False
    return True


async def may_publish(url: str) -> bool:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel(publisher_confirms=True)
        try:
            exchange = await channel.get_exchange(EXCHANGE, ensure=False)
            await exchange.publish(aio_pika.Message(b"{}"), CALLBACK_QUEUE)
        except ChannelAccessRefused:
            return False
    return True
