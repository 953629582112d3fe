"""Event streams: what was missed, what is new, the heartbeat and the end."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from tests.http.conftest import Client, OpenStore
from tests.http.wishes import Grant, Wish, app, web_for

from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import submit
from holdfast.settings import Settings
from holdfast.tables import events

pytestmark = pytest.mark.spec("G13")


async def tell(kernel: Kernel, job_id: str, *types: str) -> None:
    async with kernel.store.transaction() as tx:
        await events.append(tx, [(job_id, 1, one, None) for one in types], kernel.now())
        await tx.notify("events")


def parsed(answer: httpx.Response) -> list[tuple[str, str]]:
    """Id and name of every event."""
    found = []
    for block in answer.text.split("\r\n\r\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in fields:
            found.append((fields.get("id", ""), fields["event"]))
    return found


async def test_everything_so_far_is_sent_and_the_final_event_ends_it(client: Client, kernel: Kernel) -> None:
    job_id = await submit(kernel, Grant, Wish(text="rain"))
    await tell(kernel, job_id, "claimed", "succeeded", "never_sent")
    async with asyncio.timeout(10):
        answer = await client("ann", "learner").get(f"/api/wishes/{job_id}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [name for _, name in parsed(answer)] == ["created", "claimed", "succeeded"]


async def test_last_event_id_replays_only_what_was_missed(client: Client, kernel: Kernel) -> None:
    job_id = await submit(kernel, Grant, Wish(text="rain"))
    await tell(kernel, job_id, "claimed", "succeeded")
    ann, url = client("ann", "learner"), f"/api/wishes/{job_id}/events"
    ids = [event_id for event_id, _ in parsed(await ann.get(url))]
    by_header = await ann.get(url, headers={"Last-Event-ID": ids[0]})
    by_query = await ann.get(f"{url}?lastEventId={ids[0]}")
    assert [event_id for event_id, _ in parsed(by_header)] == ids[1:] == [event_id for event_id, _ in parsed(by_query)]


async def test_an_event_of_another_process_reaches_an_open_stream_between_pings(
    client: Client, kernel: Kernel, settings: Settings, open_store: OpenStore
) -> None:
    job_id = await submit(kernel, Grant, Wish(text="rain"))
    other = Kernel(store=open_store(None), registry=Registry([app]))
    elsewhere = client("ann", "learner", to=web_for(settings, other))
    following = asyncio.create_task(elsewhere.get(f"/api/wishes/{job_id}/events"))
    await client("ann", "learner").get("/openapi.json")
    await tell(kernel, job_id, "claimed")
    await asyncio.wait([following], timeout=0.3)
    assert not following.done()
    await tell(kernel, job_id, "succeeded")
    names = [name for _, name in parsed(await asyncio.wait_for(following, 10))]
    assert [name for name in names if name != "ping"] == ["created", "claimed", "succeeded"]
    assert "ping" in names
    await other.store.close()


async def test_a_shutdown_ends_open_streams(client: Client, kernel: Kernel, settings: Settings) -> None:
    web = web_for(settings, kernel)
    job_id = await submit(kernel, Grant, Wish(text="rain"))
    following = asyncio.create_task(client("ann", "learner", to=web).get(f"/api/wishes/{job_id}/events"))
    await asyncio.sleep(0)
    web.state.stopping.set()
    assert (await asyncio.wait_for(following, 10)).status_code == 200
