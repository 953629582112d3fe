"""What the web layer does in rare moments: a stream without its database, a probe, a limit, an answer cut short."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import Request
from tests.http.conftest import Client
from tests.http.wishes import SECRET, app, web_for

from holdfast import errors
from holdfast.http import health, metrics, stream, tickets
from holdfast.http.auth import issue_token
from holdfast.http.limits import MINUTE_MS, Room, Used, UserLimits
from holdfast.kernel import loop
from holdfast.kernel.kernel import Kernel
from holdfast.operator import outside
from holdfast.settings import Settings
from holdfast.stores.seam import Tx
from holdfast.system import Gauge, OpenSystem, System
from holdfast.tables import tickets as ticket_rows
from holdfast.testing import HandClock

KEY = "6f1c6a9e-0f0e-4b7e-9d43-6b1f0c0d3b52"


def used(made: int, unfinished: int, first_at: int | None = None) -> Used:
    return Used(made, first_at, unfinished)


async def test_room_is_what_was_used_and_what_was_admitted_since(kernel: Kernel, clock: HandClock) -> None:
    looks: list[tuple[str, int]] = []
    answer = used(3, 40)

    async def usage(tx: Tx, sub: str, since: int) -> Used:
        looks.append((sub, kernel.now() - since))
        return answer

    room = Room(kernel, UserLimits(per_minute=200, unfinished=100), usage)
    assert [await room.admits("ann") for _ in range(11)] == [True] * 10 + [False], "half of the smaller limit"
    assert await room.admits("ben") and looks == [("ann", MINUTE_MS), ("ben", MINUTE_MS)]
    answer = used(49, 1)
    clock.advance(1)
    assert [await room.admits("ann") for _ in range(2)] == [True, False], "what is made counts as what is unfinished"
    assert len(looks) == 3
    assert not await Room(kernel, UserLimits(per_minute=99), usage).admits("ann"), "a small limit is counted exactly"
    assert await Room(kernel, UserLimits(), usage).admits("ann") and len(looks) == 3


async def test_tickets_that_expired_are_swept_as_new_ones_come(kernel: Kernel, clock: HandClock) -> None:
    old, expires_at = await tickets.issue(kernel, "ann", frozenset({"operator"}))
    assert expires_at == kernel.now() + 30_000
    clock.advance(31)
    new, _ = await tickets.issue(kernel, "ann", frozenset({"viewer", "operator"}))
    async with kernel.store.transaction() as tx:
        assert await ticket_rows.redeem(tx, tickets._digest(old)) is None
    assert await tickets.redeem(kernel, new) == ("ann", frozenset({"operator", "viewer"}))
    assert await tickets.redeem(kernel, new) is None and await tickets.redeem(kernel, "x" * 129) is None


def asked_with(headers: dict[str, str], query: str = "", path: str = "/", state: Any = None) -> Request:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "headers": raw, "query_string": query.encode()}
    return Request({**scope, "app": state})


def test_a_browser_that_reconnects_says_itself_where_it_was() -> None:
    assert stream.last_event_id(asked_with({"Last-Event-ID": "7"}, "lastEventId=3")) == "7"
    assert stream.last_event_id(asked_with({}, "lastEventId=3")) == "3"


@pytest.mark.parametrize(("given", "goes_on"), [("7", "7"), ("x" * 200, "x" * 200), ("x" * 201, None), ("", None)])
async def test_an_id_that_nobody_gave_begins_at_the_beginning(
    kernel: Kernel, settings: Settings, given: str, goes_on: str | None
) -> None:
    asked: list[str | None] = []

    async def fetch(tx: Tx, after: str | None) -> Sequence[stream.Event]:
        asked.append(after)
        return [stream.Event("1", "end", {}, final=True)]

    request = asked_with({}, state=web_for(settings, kernel))
    answer = stream.stream(kernel, request, last_event_id=given, fetch=fetch)
    async for _ in answer.body_iterator:
        pass
    assert asked == [goes_on]


async def test_what_an_api_answers_is_stored_by_nobody_and_headers_stand_once(client: Client, kernel: Kernel) -> None:
    answers = {path: (await client().get(path)).headers for path in ("/api/tickets", "/api/ops/jobs", "/healthz", "/")}
    stored = {path: headers.get_list("cache-control") for path, headers in answers.items()}
    assert stored == {"/api/tickets": ["no-store"], "/api/ops/jobs": ["no-store"], "/healthz": [], "/": ["no-cache"]}
    for headers in answers.values():
        names = [name for name, _ in headers.multi_items()]
        assert len(names) == len(set(names))


async def test_a_token_opens_what_an_address_has_used_up(kernel: Kernel, settings: Settings) -> None:
    web = web_for(replace(settings, requests_per_address=0.1), kernel)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://holdfast") as outside:
        assert (await outside.get("/healthz")).status_code == 200
        assert (await outside.get("/healthz")).status_code == 429
        bearer = {"Authorization": f"Bearer {issue_token(SECRET, 'ann', ['operator'], 60)}"}
        assert (await outside.get("/api/session", headers=bearer)).status_code == 200
        bad = {"Authorization": "Bearer x"}
        assert (await outside.get("/api/session", headers=bad)).status_code == 429, "a bad token spares nobody"


async def test_a_wish_that_is_asked_again_has_the_status_of_the_first(client: Client) -> None:
    ann = client("ann", "learner")
    answers = [
        await ann.post("/api/wishes", json={"text": "rain"}, headers={"Idempotency-Key": spelled})
        for spelled in (KEY, KEY.upper(), f'"{KEY}"')
    ]
    assert {(each.status_code, each.text) for each in answers} == {(201, answers[0].text)}
    assert [each.headers.get("idempotency-replayed") for each in answers] == [None, "true", "true"]


async def test_a_guard_hides_the_query_from_the_framework_and_gives_it_back(kernel: Kernel, settings: Settings) -> None:
    seen: list[tuple[bytes, bytes]] = []
    web = web_for(settings, kernel)

    class Looking:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            seen.append((scope["query_string"], scope.get("holdfast.query", b"")))
            await self.app(scope, receive, send)

    web.add_middleware(Looking)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://holdfast") as outside:
        assert (await outside.get("/openapi.json?ticket=secret")).status_code == 200
    assert seen == [(b"", b"ticket=secret")]


class Shared:
    """A database of which one sees who listens, and that fails as it is told, once each."""

    def __init__(self, store: Any, *troubles: Exception | None) -> None:
        self._store, self.troubles, self.listening = store, list(troubles), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def listen(self, channel: str) -> Shared:
        self.listening += 1
        return self

    async def wait(self, seconds: float) -> bool:
        return True

    def close(self) -> None:
        self.listening -= 1

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Tx]:
        self._fail()
        async with self._store.reading() as tx:
            yield tx

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        self._fail()
        async with self._store.transaction() as tx:
            yield tx

    def _fail(self) -> None:
        trouble = self.troubles.pop(0) if self.troubles else None
        if trouble is not None:
            raise trouble


async def test_a_stream_outlives_its_database_and_goes_on_where_it_was(kernel: Kernel) -> None:
    asked: list[str | None] = []
    shared: Any = Shared(kernel.store, None, errors.StoreUnavailable("It restarts."))

    async def fetch(tx: Tx, after: str | None) -> Sequence[stream.Event]:
        asked.append(after)
        found = [stream.Event(str(len(asked)), "step", {}, final=len(asked) == 4)]
        return () if len(asked) == 2 else found

    events = stream._events(replace(kernel, store=shared), None, fetch, "events", asyncio.Event())
    async with asyncio.timeout(10):
        sent = [event.id async for event in events]
    assert (sent, asked) == (["1", "3", "4"], [None, "1", "1", "3"])
    assert shared.listening == 0, "nobody is left listening"


async def test_what_a_trial_write_came_to_is_good_for_a_while_and_trouble_is_not(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(outside, "monotonic", lambda: now[0])
    shared: Any = Shared(kernel.store, errors.StoreFull("x"), errors.StoreBusy("x"), None, TimeoutError())
    asked, probe = replace(kernel, store=shared), outside._Probe()
    assert await probe.trouble(asked) == "the disk of the database is full (disk full)"
    assert await probe.trouble(asked) is None, "trouble is looked at again at once; who is busy is well"
    now[0] += outside.PROBE_EVERY_S
    assert await probe.trouble(asked) is None and len(shared.troubles) == 2, "it is good for so long"
    now[0] += 0.001
    assert await probe.trouble(asked) is None and len(shared.troubles) == 1
    now[0] += outside.PROBE_EVERY_S + 1
    assert await probe.trouble(asked) == "the database does not answer"


async def test_a_process_that_only_shows_writes_nothing_to_say_that_it_is_ready(kernel: Kernel) -> None:
    async def readiness(*troubles: Exception, **duties: str) -> str:
        shared: Any = Shared(kernel.store, *troubles)
        asked = replace(kernel, store=shared)
        asked.duties.update({name.replace("_", " "): state for name, state in duties.items()})
        return await health.readiness(OpenSystem(System("w", "W", "U", build=lambda env: app), asked, {}))

    assert await readiness(errors.StoreReadOnly("x"), prune=loop.RUNNING) == "the database is read only"
    shown = {"show_only": loop.RUNNING}
    assert await readiness(errors.StoreReadOnly("x"), **shown) == "ready"
    assert await readiness(prune="failed, tries again in 2 s", **shown) == "ready", "nobody who waits depends on it"
    waits = await readiness(consume_told="waits for the broker", relay=loop.RUNNING, **shown)
    assert waits == "consume told: waits for the broker"


async def test_a_systems_own_gauges_fail_alone_and_a_shared_watch_is_told_once(kernel: Kernel) -> None:
    gauge = Gauge("wishes_open", "Open wishes", ("colour",))

    async def read_gauges(kernel: Kernel) -> Any:
        return [(gauge, ("red",), 3)]

    async def fail(kernel: Kernel) -> Any:
        raise errors.StoreUnavailable("gone")

    kernel.watch = metrics.PrometheusWatch()
    kernel.watch.count("lease_reclaims", 3)
    systems = [
        OpenSystem(System(name, name, "U", build=lambda env: app, gauges=[gauge], read_gauges=read), kernel, {})
        for name, read in (("ill", fail), ("well", read_gauges))
    ]
    text = (await metrics.exposition(systems)).decode()
    assert 'holdfast_wishes_open{colour="red",system="well"} 3.0' in text and 'system="ill"} 3.0' not in text
    assert text.count("holdfast_lease_reclaims_total 3.0") == 1
