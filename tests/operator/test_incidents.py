"""Incidents: a trouble is opened once, joined by whom it hit, told once, and closed by a person when it is over."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from tests.kernel.places import Deploy, rows
from tests.operator.outage import DEADLINE_S, Ask, app, health

from holdfast import App, CallError, Category, Context, Job, NotAllowed, NotFound, Retry, stage
from holdfast.errors import InvalidInput
from holdfast.kernel.hold import force, hold_once
from holdfast.operator import incidents as desk_of_incidents
from holdfast.operator.attention import AttentionNotice, Severity, Topic
from holdfast.operator.desk import Desk
from holdfast.operator.incident_news import IncidentSettings
from holdfast.operator.incident_watch import choose_notices, compare, incidents_app, keep_steady, watch_incidents
from holdfast.operator.page import ListPage
from holdfast.operator.postmortem import write_postmortem
from holdfast.system import OpenSystem, System
from holdfast.tables import audit, incidents, providers, workers
from holdfast.tables.incidents import Incident
from holdfast.tables.ops import GateStep
from holdfast.testing import World

pytestmark = pytest.mark.spec("K17")

DOWN = AttentionNotice(Topic.PROVIDER, Severity.TICKET, "Provider 'llm' is down.", 10, "llm", 3)
KNOWN = Incident("i", "provider_down", "llm", "ticket", "open", "", 0, 0, None, None, None, None, None, None, 10, 3)


def desk(world: World) -> Desk:
    return Desk([OpenSystem(System("held", "held", "DATABASE_URL", lambda env: app), world.kernel, {})])


async def outage(deploy: Deploy, *apps: Any) -> World:
    """A world whose llm has just failed four times, with jobs of three customers in line."""
    health.update(ok=False)
    world: World = await deploy(app, *apps)
    for batch in (range(4), range(4, 12)):
        for number in batch:
            await world.enqueue(Ask, number, owner=f"customer-{number % 3}")
        await world.work()
    world.clock.advance(1)
    await world.work()
    return world


async def look(world: World) -> int:
    """A look of the keeper, while a worker serves the queues."""
    async with world.kernel.store.transaction() as tx:
        await workers.seen(tx, "w1", "held,incidents", 0, world.kernel.now(), "{}", heeds=False)
    return await watch_incidents(world.kernel, {})


async def listed(world: World, **which: Any) -> list[dict[str, Any]]:
    return list((await desk_of_incidents.list_incidents(desk(world), ListPage(), **which))["items"])


def test_the_same_trouble_is_the_same_incident() -> None:
    assert compare([], [DOWN]).opened == [DOWN]
    assert not compare([KNOWN], [DOWN]).any(), "nothing has changed: nothing is written"
    assert not compare([KNOWN], [replace(DOWN, number=11)]).any(), "a little more is no news"
    for worse in (replace(DOWN, number=12), replace(DOWN, owners=4), replace(DOWN, severity=Severity.PAGE)):
        assert compare([KNOWN], [worse]).followed == [(KNOWN, worse)]
    assert compare([KNOWN._replace(severity="page")], [DOWN]).followed == [], "a page stays one while it lasts"
    assert compare([KNOWN], []).over == [KNOWN]
    mail = replace(DOWN, subject="mail")
    assert (compare([KNOWN], [DOWN, mail]).opened, compare([KNOWN], [mail]).over) == ([mail], [KNOWN])


def test_what_comes_back_soon_is_the_same_incident_unless_a_person_closed_it() -> None:
    over = KNOWN._replace(state="over", ended_at=5)
    assert compare([over], [DOWN]).back == [(over, DOWN)]
    closed = KNOWN._replace(state="closed", ended_at=5, closed_at=6, summary="the cable")
    assert compare([closed], [DOWN]).opened == [DOWN]


def test_work_that_waits_is_no_incident_and_a_named_cause_explains_the_deadlines() -> None:
    letters = AttentionNotice(Topic.LETTERS, Severity.TICKET, "3 dead letters to work on.", 3)
    late = AttentionNotice(Topic.DEADLINES, Severity.TICKET, "2 jobs are nearly late.", 2)
    assert choose_notices([letters, late, DOWN]) == [DOWN]
    assert choose_notices([letters, late]) == [late]
    broker = AttentionNotice(Topic.BROKER, Severity.PAGE, "The message broker cannot be used.", 3)
    outbox = AttentionNotice(Topic.OUTBOX, Severity.PAGE, "3 messages are not yet published.", 3)
    assert choose_notices([broker, outbox]) == [broker]
    assert choose_notices([outbox]) == [outbox], "nobody else says why"


def test_some_troubles_are_incidents_only_if_they_stay() -> None:
    """What a breaker lets go has been due for as long as the outage, for a moment."""
    waiting = AttentionNotice(Topic.WAITING, Severity.PAGE, "The oldest job has been due for 40 min.", 9, "held")
    seen: dict[tuple[str, str], int] = {}
    assert keep_steady([waiting, DOWN], seen, 0) == [DOWN]
    assert keep_steady([waiting], seen, 15_000) == [waiting]
    assert keep_steady([], seen, 30_000) == [] and seen == {}
    assert keep_steady([waiting], seen, 45_000) == []
    nobody = replace(waiting, topic=Topic.NO_WORKER)
    times = [keep_steady([nobody], seen, at) for at in (60_000, 75_000, 90_000)]
    assert times == [[], [], [nobody]], "a restart is no incident"


async def test_an_outage_says_what_since_when_who_is_hit_what_is_next_and_when_it_hurts(deploy: Deploy) -> None:
    world = await outage(deploy)
    began_at = world.kernel.now() - 1_000
    assert await look(world) == 1
    world.clock.advance(5)
    assert await look(world) == 0, "it is known"
    (item,) = await listed(world)
    assert (item["topic"], item["subject"], item["state"]) == ("provider_down", "llm", "open")
    assert item["began_at"] == desk_of_incidents.iso(began_at)
    now = item["now"]
    assert (now["number"], now["owners"], now["answer"]) == (12, 3, "503 UPSTREAM_UNAVAILABLE")
    assert now["next_at"] == desk_of_incidents.iso(began_at + 30_000)
    assert now["late_at"] == desk_of_incidents.iso(began_at + DEADLINE_S * 1_000)
    assert now["to_do"] and "503 UPSTREAM_UNAVAILABLE" in now["sentence"]
    shown = await desk_of_incidents.show_incident(desk(world), item["id"])
    assert shown["hit"] == [
        {"role": "held", "jobs": 12, "owners": 3, "first_at": item["opened_at"], "last_at": item["opened_at"]}
    ]


async def test_deaths_by_deadline_belong_to_the_outage_that_caused_them(deploy: Deploy) -> None:
    world = await outage(deploy)
    await look(world)
    world.clock.advance(DEADLINE_S + 1)
    await world.tick()
    await look(world)
    (item,) = await listed(world)
    shown = await desk_of_incidents.show_incident(desk(world), item["id"])
    (hit,) = shown["hit"]
    assert (hit["role"], hit["jobs"], hit["owners"]) == ("late", 12, 3)
    assert all(job["letter_id"] and job["state"] == "dead" for job in shown["jobs"])
    (line,) = [line for line in shown["timeline"] if "missed the deadline" in line["what"]]
    assert line["what"].startswith("12 jobs")
    letters_before = await rows(world.kernel.store, "SELECT COUNT(*) AS n FROM holdfast_incident_jobs")
    await look(world)
    assert await rows(world.kernel.store, "SELECT COUNT(*) AS n FROM holdfast_incident_jobs") == letters_before


async def test_it_is_over_when_its_cause_is_and_closes_itself_if_nobody_was_needed(deploy: Deploy) -> None:
    world = await outage(deploy)
    await look(world)
    await force(world.kernel, "llm", open=False, actor="olga", reason="it answers again")
    world.clock.advance(15)
    assert await look(world) == 1
    (item,) = await listed(world)
    assert (item["state"], item["summary"]) == ("closed", None)
    await force(world.kernel, "llm", open=True, actor="olga", reason="down again")
    world.clock.advance(600)
    await look(world)
    (again,) = await listed(world, state="open")
    assert again["id"] == item["id"], "a trouble that comes back within a quarter of an hour is the same"


async def test_each_turn_of_an_incident_is_written_down_and_told(deploy: Deploy) -> None:
    settings = IncidentSettings(webhook_url="http://127.0.0.1:9/", severity="ticket")
    world = await outage(deploy, incidents_app(settings, None))
    await look(world)
    for is_open in (False, True):
        await force(world.kernel, "llm", open=is_open, actor="olga", reason="by hand")
        world.clock.advance(15)
        await look(world)
    (item,) = await listed(world)
    news = await rows(
        world.kernel.store, "SELECT payload FROM holdfast_jobs WHERE queue = 'incidents' ORDER BY created_at"
    )
    assert [json.loads(row["payload"])["event"] for row in news] == ["opened", "over", "reopened"]
    async with world.kernel.store.reading() as tx:
        lines = [(row.actor, row.action) for row in await audit.of_subject(tx, f"incident:{item['id']}")]
    assert lines == [("kernel", f"incident.{event}") for event in ("opened", "over", "reopened")]


async def test_a_person_takes_it_hands_it_on_and_closes_it_only_when_it_is_over(deploy: Deploy) -> None:
    world = await outage(deploy)
    await look(world)
    ((item,), d) = await listed(world), desk(world)
    id = item["id"]
    with pytest.raises(NotAllowed, match="goes on"):
        await desk_of_incidents.close_incident(d, id, summary="never mind", actor="olga")
    taken = await desk_of_incidents.acknowledge_incident(d, id, actor="olga")
    assert (taken["acknowledged_by"], taken["assignee"]) == ("olga", "olga")
    with pytest.raises(NotAllowed, match="olga's already"):
        await desk_of_incidents.acknowledge_incident(d, id, actor="ben")
    await desk_of_incidents.assign_incident(d, id, assignee="ben@example.com", actor="olga")
    await desk_of_incidents.comment_incident(d, id, text="their status page says 16:00", actor="ben")
    for wrong in ("  ", "x" * 4_001):
        with pytest.raises(InvalidInput):
            await desk_of_incidents.comment_incident(d, id, text=wrong, actor="ben")
    await force(world.kernel, "llm", open=False, actor="ben", reason="it answers again")
    world.clock.advance(15)
    await look(world)
    (item,) = await listed(world)
    assert item["state"] == "over", "somebody had it: somebody closes it"
    closed = await desk_of_incidents.close_incident(d, id, summary="their database; nothing to change", actor="ben")
    assert closed["state"] == "closed"
    with pytest.raises(NotAllowed, match="closed already"):
        await desk_of_incidents.close_incident(d, id, summary="again", actor="ben")
    with pytest.raises(NotFound):
        await desk_of_incidents.show_incident(d, "not-an-id")
    timeline = (await desk_of_incidents.show_incident(d, id))["timeline"]
    lines = [(line["who"], line["what"]) for line in timeline]
    for line in (("olga", "has it"), ("olga", "handed it on"), ("ben", "says"), ("ben", "closed it")):
        assert line in lines
    assert [line["text"] for line in timeline if line["what"] == "handed it on"] == ["ben@example.com"]
    assert (None, "breaker open") in lines and ("ben", "breaker closed") in lines
    page = await write_postmortem(d, id)
    assert page.startswith("# Provider down: llm\n") and "their database; nothing to change" in page
    assert (
        "- At most 12 jobs of 3 owners at once" in page
        and "12 jobs of 3 owners waited" in page
        and "says: their status page says 16:00" in page
    )


def test_trials_that_fail_one_after_the_other_are_one_line() -> None:
    gates = ["open", "half_open", "open", "half_open", "open", "half_open", "closed"]
    steps = [GateStep(at, gate, at * 1_000, "why") for at, gate in enumerate(gates)]
    lines = [(line["at"][17:19], line["what"], line["text"]) for line in desk_of_incidents._gate_entries(steps)]
    assert lines == [
        ("00", "breaker open", "why"),
        ("02", "2 trials of the provider failed", "the last at 1970-01-01T00:00:04.000Z"),
        ("05", "breaker half open", "trial calls decide"),
        ("06", "breaker closed", "why"),
    ]
    going_on = desk_of_incidents._gate_entries(steps[:3])
    assert [line["what"] for line in going_on] == ["breaker open", "a trial of the provider failed"]


async def test_two_processes_that_look_at_once_open_one_incident(deploy: Deploy) -> None:
    world = await outage(deploy)
    await asyncio.gather(*(look(world) for _ in range(3)))
    assert len(await listed(world)) == 1
    opened = "SELECT COUNT(*) AS n FROM holdfast_audit WHERE action = 'incident.opened'"
    assert (await rows(world.kernel.store, opened))[0]["n"] == 1


async def test_no_worker_is_an_incident_with_its_customers(deploy: Deploy) -> None:
    health.update(ok=True)
    world = await deploy(app)
    for number in range(4):
        await world.enqueue(Ask, number, owner=f"customer-{number % 2}")
    world.clock.advance(10)
    await watch_incidents(world.kernel)
    (item,) = await listed(world)
    assert (item["topic"], item["severity"], item["subject"]) == ("no_worker", "page", "held")
    assert (item["jobs_max"], item["owners_max"]) == (4, 2)
    assert (item["now"]["since_at"], item["now"]["late_at"]) == (
        desk_of_incidents.iso(world.kernel.now() - 10_000),
        desk_of_incidents.iso(world.kernel.now() + (DEADLINE_S - 10) * 1_000),
    )


dying_app = App("dying")


@dying_app.job(name="dying.send")
class Send(Job[str]):
    @stage(retry=Retry(attempts=1))
    async def send(self, ctx: Context, name: str) -> None:
        raise CallError.of(Category.UPSTREAM, name, "It answered 503.", status=503)


async def test_many_that_die_of_one_thing_are_joined_to_their_incident_and_no_others(deploy: Deploy) -> None:
    world = await deploy(dying_app)
    for number in range(12):
        await world.enqueue(Send, "HTTP_503", owner=f"customer-{number % 5}")
    await world.enqueue(Send, "HTTP_418", owner="tea")
    await world.work()
    await look(world)
    (item,) = await listed(world)
    assert (item["topic"], item["subject"]) == ("jobs_dying", "dying.send/send/HTTP_503")
    assert (item["jobs_max"], item["owners_max"]) == (12, 5)
    shown = await desk_of_incidents.show_incident(desk(world), item["id"])
    assert [(role["role"], role["jobs"], role["owners"]) for role in shown["hit"]] == [("dead", 12, 5)]


async def test_another_keeper_goes_on_with_the_same_incident(deploy: Deploy) -> None:
    health.update(ok=True)
    world = await deploy(app)
    await world.enqueue(Ask, 1)
    world.clock.advance(10)
    seen: dict[tuple[str, str], int] = {}
    assert await watch_incidents(world.kernel, seen) == 0
    world.clock.advance(30)
    assert await watch_incidents(world.kernel, seen) == 1
    assert await watch_incidents(world.kernel, {}) == 0, "a process that has just begun to look ends nothing"
    assert [item["state"] for item in await listed(world)] == ["open"]


async def test_old_incidents_are_forgotten_once_they_are_closed(deploy: Deploy) -> None:
    world = await outage(deploy)
    await look(world)
    async with world.kernel.store.transaction() as tx:
        (known,) = await incidents.live(tx, 0)
        assert await incidents.over(tx, known.id, world.kernel.now()) == "closed"
        assert await incidents.prune(tx, world.kernel.now(), 10) == 0
        assert await incidents.prune(tx, world.kernel.now() + 1, 10) == 1
    assert await rows(world.kernel.store, "SELECT 1 AS n FROM holdfast_incident_jobs") == []


@pytest.mark.spec("K12")
async def test_a_page_is_told_once_however_often_the_worker_dies(deploy: Deploy) -> None:
    posted: list[dict[str, Any]] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].split("\r\n")[0])
        posted.append(json.loads(await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(receive, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = IncidentSettings(webhook_url=f"http://127.0.0.1:{port}/hook?secret=1", webhook_secret="s" * 32)
    async with server:
        world = await outage(deploy, incidents_app(settings, "https://jobs.example"))
        await look(world)
        await world.work()
        assert posted == [], "a ticket wakes nobody"
        world.clock.advance(901)
        await hold_once(world.kernel)
        await look(world)
        (item,) = await listed(world)
        assert item["severity"] == "page"
        world.crash_at("effect.after_send")
        await world.work()
        world.clock.advance(120)
        await world.tick()
        await world.work()
    assert [note["type"] for note in posted] in (["incident.worse"], ["incident.worse"] * 2)
    assert posted[0]["url"] == f"https://jobs.example/console#incident/{item['id']}"
    assert posted[0]["text"].startswith("Incident, now a page: Provider 'llm'")
    stored = await rows(world.kernel.store, "SELECT payload FROM holdfast_jobs WHERE queue = 'incidents'")
    assert len(stored) == 1 and "secret=1" not in stored[0]["payload"], "the address may be a secret"


async def test_the_breakers_row_is_what_it_was(deploy: Deploy) -> None:
    """To look changes nothing of what is looked at."""
    world = await outage(deploy)
    async with world.kernel.store.reading() as tx:
        before = await providers.read(tx, "llm")
    await look(world)
    async with world.kernel.store.reading() as tx:
        assert await providers.read(tx, "llm") == before
