"""The private servers that the other tests stand on are real, fresh for each test, and survive a crash."""

from __future__ import annotations

import aio_pika
import psycopg
import pytest

from tests.services.postgres import PostgresServer
from tests.services.rabbitmq import RabbitMQServer

pytestmark = pytest.mark.slow


def test_a_fresh_database_takes_a_table_and_syncs_its_commits(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE note (body text)")
        connection.execute("INSERT INTO note VALUES ('kept')")
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
        assert connection.execute("SELECT body FROM note").fetchall() == [("kept",)]


def test_no_database_sees_the_tables_of_another(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT to_regclass('note')").fetchone() == (None,)


def test_a_commit_survives_a_crash_of_postgres(postgres_server: PostgresServer, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE note AS SELECT 'kept' AS body")
    postgres_server.restart(immediate=True)
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT body FROM note").fetchall() == [("kept",)]


async def test_a_fresh_virtual_host_carries_a_message(rabbitmq_url: str) -> None:
    async with await aio_pika.connect(rabbitmq_url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("grading.request", durable=True)
        await channel.default_exchange.publish(aio_pika.Message(b"hello"), routing_key=queue.name)
        message = await queue.get(timeout=5)
        assert message is not None and message.body == b"hello"
        await message.ack()


async def test_no_virtual_host_sees_the_queues_of_another(rabbitmq_url: str) -> None:
    async with await aio_pika.connect(rabbitmq_url) as connection:
        channel = await connection.channel()
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.declare_queue("grading.request", passive=True)


async def test_a_persistent_message_survives_a_kill_of_rabbitmq(
    rabbitmq_server: RabbitMQServer, rabbitmq_url: str
) -> None:
    kept = aio_pika.Message(b"kept", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    async with await aio_pika.connect(rabbitmq_url) as connection:
        channel = await connection.channel(publisher_confirms=True)
        await channel.declare_queue("grading.request", durable=True)
        rabbitmq_server.sync_declarations()
        await channel.default_exchange.publish(kept, routing_key="grading.request", timeout=10)
    rabbitmq_server.restart(kill=True)
    async with await aio_pika.connect(rabbitmq_url) as connection:
        queue = await (await connection.channel()).get_queue("grading.request")
        message = await queue.get(timeout=10)
        assert message is not None and message.body == b"kept"
