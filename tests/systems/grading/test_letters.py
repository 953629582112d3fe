"""What lies in the dead-letter queue, for people: rows on the in-process transport, the queue itself on RabbitMQ."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.systems.grading.pair import WRITING, Pair
from tests.systems.grading.test_grading_service import request, send
from tests.systems.grading.test_main_http import Client, client  # noqa: F401
from tests.transports.test_rabbitmq import stranger

from holdfast import InvalidInput, NotAllowed
from holdfast.transports.rabbitmq.transport import RabbitTransport
from holdfast.transports.seam import Message
from holdfast_systems.grading import letters
from holdfast_systems.grading.contract import SLA_MS
from holdfast_systems.grading.topology import DEAD_LETTERS, QUEUES, destination


@pytest.fixture
async def broker(pair: Pair, rabbitmq_url: str) -> AsyncIterator[RabbitTransport]:
    """The pair's main app with a real broker beside it: its dead-letter queue is the one that is looked into."""
    transport = RabbitTransport(rabbitmq_url, timeout_s=10)
    await transport.declare(QUEUES)
    pair.main.kernel.transport = transport
    yield transport
    await transport.close()


async def lay(transport: RabbitTransport, pair: Pair) -> None:
    """Put the letters that the service laid down so far onto the real queue, as its relay does."""
    for message in pair.sent:
        if message.destination == destination(DEAD_LETTERS.name):
            await transport.publish(message)


async def lying(pair: Pair, limit: int = 50) -> list[letters.QueuedLetter]:
    return await letters.list_letters(pair.main.kernel, limit)


async def refuse(pair: Pair, *names: str) -> None:
    for name in names:
        await send(pair, request(pair) | {"requestId": name, "skill": "dancing"}, name)
        await pair.settle()
        pair.clock.advance(1)


@pytest.mark.spec("G5", "002.3")
async def test_letters_are_listed_and_shown_and_looking_takes_nothing_away(pair: Pair, client: Client) -> None:  # noqa: F811
    await refuse(pair, "R-1", "R-2")
    operator = client("olga", "operator")
    for _ in range(3):
        listed = (await operator.get("/api/ops/dlq")).json()["items"]
        assert [one["requestId"] for one in listed] == ["R-1", "R-2"]
    assert {one["failureReason"] for one in listed} == {"INVALID_INPUT"}
    assert {one["submissionId"] for one in listed} == {"foreign-1"} and "originalMessage" not in listed[0]
    whole = (await operator.get(f"/api/ops/dlq/{listed[0]['id']}")).json()
    assert whole["originalMessage"]["requestId"] == "R-1" and whole["state"] == "open"
    assert (await operator.get("/api/ops/dlq/nothing")).status_code == 404
    for role in ("learner", "instructor", "service"):
        assert (await client("eve", role).get("/api/ops/dlq")).status_code == 403


@pytest.mark.spec("G5", "000.17", "002.3")
async def test_a_letter_is_sent_again_once_and_audited(pair: Pair, client: Client) -> None:  # noqa: F811
    await refuse(pair, "R-1")
    (letter,) = await lying(pair)
    operator = client("olga", "operator")
    assert (await operator.post(f"/api/ops/dlq/{letter.id}/resend", json={"reason": " "})).status_code == 422
    answers = await asyncio.gather(
        *[operator.post(f"/api/ops/dlq/{letter.id}/resend", json={"reason": "the reader is newer"}) for _ in range(3)]
    )
    assert sorted(answer.status_code for answer in answers) in ([200, 404, 404], [200, 404, 409], [200, 409, 409])
    assert await lying(pair) == []
    await pair.settle()
    resent = [message for message in pair.sent if message.headers.get("holdfast-resent")]
    assert [json.loads(message.body)["requestId"] for message in resent] == ["R-1"]
    assert len(await lying(pair)) == 1, "it is still unreadable, so it is laid down again: a new letter, no loop"
    acts = await pair.query(pair.main, "SELECT actor, action FROM holdfast_audit")
    assert [(act["actor"], act["action"]) for act in acts] == [("olga", "letter.resent")]
    shown = (await operator.get(f"/api/ops/dlq/{letter.id}")).json()
    assert (shown["state"], shown["actedBy"], shown["reason"]) == ("resent", "olga", "the reader is newer")


@pytest.mark.spec("G6", "000.17", "002.3")
async def test_a_failed_request_that_is_sent_again_in_time_completes_its_submission(pair: Pair) -> None:
    pair.service.script(pair.engine.llm, refusals=1)
    one = await pair.submit()
    await pair.settle()
    assert (await pair.show(one.id)).state.status == "FAILED"
    (letter,) = await lying(pair)
    assert (letter.request_id, letter.submission_id) == (one.request_id, one.id)
    await letters.resend(pair.main.kernel, letter.id, actor="olga", reason="the key was renewed")
    await pair.settle()
    assert (await pair.show(one.id)).state.status == "REVIEW_REQUIRED"
    assert pair.requests[-1]["requestId"] == one.request_id and len(pair.requests) == 2
    resent = next(message for message in pair.sent if message.headers.get("holdfast-resent"))
    replays = await pair.query(pair.service, "SELECT epoch FROM holdfast_jobs")
    await pair.deliver("grading.request", resent.body, resent.id)
    await pair.settle()
    assert await pair.query(pair.service, "SELECT epoch FROM holdfast_jobs") == replays, "a redelivery replays nothing"
    cases = await pair.query(pair.service, "SELECT evidence FROM holdfast_dead_letters")
    assert [case["evidence"] for case in cases] == ["the key was renewed"]


@pytest.mark.spec("G12", "002.3")
async def test_what_could_only_come_too_late_is_not_sent_again(pair: Pair) -> None:
    pair.service.script(pair.engine.llm, refusals=1)
    one = await pair.submit()
    await pair.settle()
    pair.clock.advance(SLA_MS["writing"] / 1_000 + 1)
    (letter,) = await lying(pair)
    with pytest.raises(NotAllowed, match=f"resubmit the submission {one.id}"):
        await letters.resend(pair.main.kernel, letter.id, actor="olga", reason="again")
    assert [left.state for left in await lying(pair)] == ["open"], "a refusal changes nothing"


@pytest.mark.spec("002.3")
async def test_an_archived_letter_is_gone_from_the_list_and_kept_in_the_record(pair: Pair) -> None:
    await send(pair, b"\xff\x00 no text", "m-1")
    await pair.settle()
    (letter,) = await lying(pair)
    kernel = pair.main.kernel
    with pytest.raises(InvalidInput):
        await letters.archive(kernel, letter.id, actor="olga", reason="  ")
    with pytest.raises(NotAllowed, match="not text"):
        await letters.resend(kernel, letter.id, actor="olga", reason="try")
    await letters.archive(kernel, letter.id, actor="olga", reason="a stranger's noise")
    assert await lying(pair) == []
    kept = await letters.show_letter(kernel, letter.id)
    assert (kept.state, kept.reason, kept.body) == ("archived", "a stranger's noise", letter.body)
    assert kept.parsed is not None and base64.b64decode(str(kept.parsed.original_message)) == b"\xff\x00 no text"
    with pytest.raises(NotAllowed, match="was archived by olga"):
        await letters.resend(kernel, letter.id, actor="olga", reason="after all")


@pytest.mark.slow
@pytest.mark.spec("G5", "002.3")
async def test_the_real_queue_is_looked_into_and_keeps_its_letters_in_order(
    pair: Pair,
    broker: RabbitTransport,
    rabbitmq_url: str,
) -> None:
    await refuse(pair, "R-1", "R-2", "R-3")
    await lay(broker, pair)
    for _ in range(25):
        assert [letter.request_id for letter in await lying(pair)] == ["R-1", "R-2", "R-3"]
    assert [letter.request_id for letter in await lying(pair, 1)] == ["R-1"]
    second = (await lying(pair))[1]
    await letters.archive(pair.main.kernel, second.id, actor="olga", reason="known")
    assert [letter.request_id for letter in await lying(pair)] == ["R-1", "R-3"]
    assert await remaining(rabbitmq_url) == ["R-1", "R-3"], "a foreign tool finds what is left, in order"


@pytest.mark.slow
@pytest.mark.spec("G5", "002.3")
async def test_a_quorum_queue_does_not_drop_what_is_often_looked_at(pair: Pair, rabbitmq_url: str) -> None:
    async with stranger(rabbitmq_url) as channel:
        queue = await channel.declare_queue(DEAD_LETTERS.name, durable=True, arguments={"x-queue-type": "quorum"})
        exchange = await channel.declare_exchange(DEAD_LETTERS.exchange, "direct", durable=True)
        await queue.bind(exchange, DEAD_LETTERS.name)
    transport = RabbitTransport(rabbitmq_url, timeout_s=10)
    pair.main.kernel.transport = transport
    try:
        await transport.declare(QUEUES)
        await refuse(pair, "R-1", "R-2")
        await lay(transport, pair)
        seen = [letter.id for letter in await lying(pair)]
        for _ in range(40):
            assert sorted(letter.id for letter in await lying(pair)) == sorted(seen)
            assert len(await lying(pair, 1)) == 1
    finally:
        await transport.close()


@pytest.mark.slow
@pytest.mark.spec("G5", "002.3")
async def test_a_crash_between_the_act_and_the_taking_sends_nothing_twice(
    pair: Pair, broker: RabbitTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    await refuse(pair, "R-1")
    await lay(broker, pair)
    (letter,) = await lying(pair)
    intact = letters._record

    async def dies(*args: Any) -> letters.QueuedLetter:
        await intact(*args)
        raise RuntimeError("killed between the commit and the ack")

    monkeypatch.setattr(letters, "_record", dies)
    with pytest.raises(RuntimeError):
        await letters.resend(pair.main.kernel, letter.id, actor="olga", reason="again")
    monkeypatch.setattr(letters, "_record", intact)
    (left,) = await lying(pair)
    assert (left.id, left.state, left.acted_by) == (letter.id, "resent", "olga"), "it is shown as what it is"
    with pytest.raises(NotAllowed, match="was resent by olga"):
        await letters.resend(pair.main.kernel, letter.id, actor="bob", reason="again")
    sent = await pair.query(pair.main, "SELECT id FROM holdfast_outbox WHERE message_type = 'grading.request'")
    assert len(sent) == 1
    await letters.archive(pair.main.kernel, letter.id, actor="bob", reason="left behind")
    assert await lying(pair) == []
    assert (await letters.show_letter(pair.main.kernel, letter.id)).state == "resent", "the first act stands"


@pytest.mark.slow
@pytest.mark.spec("002.3")
async def test_what_the_broker_laid_there_by_itself_can_be_sent_again(pair: Pair, broker: RabbitTransport) -> None:
    asked = request(pair)
    await broker.publish(Message("m-1", destination(DEAD_LETTERS.name), json.dumps(asked).encode()))
    (letter,) = await lying(pair)
    assert (letter.parsed, letter.request_id, letter.submission_id) == (None, asked["requestId"], "foreign-1")
    await letters.resend(pair.main.kernel, letter.id, actor="olga", reason="the queue was too short")
    (sent,) = await pair.query(pair.main, "SELECT payload FROM holdfast_outbox")
    assert json.loads(sent["payload"])["payload"] == WRITING and await lying(pair) == []


async def remaining(url: str) -> list[Any]:
    async with stranger(url) as channel:
        queue = await channel.get_queue(DEAD_LETTERS.name, ensure=False)
        found = []
        while (message := await queue.get(fail=False)) is not None:
            found.append(json.loads(message.body)["requestId"])
        return found
