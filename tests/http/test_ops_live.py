"""What the console's charts and its live updates are made of."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from fastapi import FastAPI
from tests.http.conftest import Client
from tests.http.wishes import Grant, Wish

from holdfast.engines.worker import Worker
from holdfast.kernel.hold import force
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import submit
from holdfast.operator.history import Looks
from holdfast.operator.snapshot import Lane, Snapshot
from holdfast.tables import calls, effects, outbox
from holdfast.tables.calls import NewCall
from holdfast.testing import HandClock


@pytest.fixture
def operator(client: Client) -> httpx.AsyncClient:
    return client("olga", "operator")


async def wish(kernel: Kernel, fails: str = "", text: str = "rain") -> str:
    return await submit(kernel, Grant, Wish(text=text, fails=fails))


async def history(client: httpx.AsyncClient, minutes: int = 60) -> dict[str, object]:
    answer = await client.get(f"/api/ops/history?minutes={minutes}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["items"][0])


@pytest.mark.spec("K17")
async def test_every_minute_has_its_throughput_and_its_error_rate(
    kernel: Kernel, clock: HandClock, operator: httpx.AsyncClient
) -> None:
    for fails in ("", "", "", "NEVER"):
        await wish(kernel, fails)
    await Worker(kernel).run_until_idle()
    clock.advance(120)
    seen = await history(operator, 5)
    minutes = seen["minutes"]
    assert isinstance(minutes, list) and len(minutes) == 5
    assert [(one["done"], one["died"], one["error_rate"]) for one in minutes[2:]] == [
        (3, 1, 0.25),
        (0, 0, 0),
        (0, 0, 0),
    ]


@pytest.mark.spec("K17")
async def test_latency_and_gates_are_told_by_provider(
    kernel: Kernel, clock: HandClock, operator: httpx.AsyncClient
) -> None:
    async with kernel.store.transaction() as tx:
        made = [
            NewCall(kernel.new_id(), None, None, None, "oracle", kernel.now(), ms, "ok" if ms < 90 else "failed", *REST)
            for ms in range(1, 101)
        ]
        await calls.put(tx, made)
    await force(kernel, "oracle", open=True, actor="olga", reason="a drill")
    clock.advance(7_200)
    await force(kernel, "oracle", open=False, actor="olga", reason="over")
    latencies = await provider(operator, "latencies")
    assert latencies == [], "an hour has passed"
    gates = await provider(operator, "gates")
    assert [one["gate"] for one in gates] == ["open", "closed"], "what it was when the hour began is told too"
    clock.advance(-7_200)
    (minute,) = await provider(operator, "latencies")
    assert {name: minute[name] for name in ("calls", "failed", "p50_ms", "p95_ms")} == {
        "calls": 100,
        "failed": 11,
        "p50_ms": 50,
        "p95_ms": 95,
    }


REST = (None, None, 0, None)


async def provider(client: httpx.AsyncClient, part: str) -> list[dict[str, object]]:
    found = (await history(client))["providers"]
    assert isinstance(found, list)
    (oracle,) = found
    return list(oracle[part])


async def test_the_depth_is_looked_at_and_kept(kernel: Kernel, clock: HandClock, operator: httpx.AsyncClient) -> None:
    await wish(kernel)
    clock.advance(30)
    await history(operator)
    clock.advance(30)
    looks = (await history(operator))["looks"]
    assert isinstance(looks, list)
    assert [(one["queued"], one["oldest_age_s"]) for one in looks] == [(1, 30.0), (1, 60.0)]


def test_many_looks_at_once_are_kept_as_few() -> None:
    looks = Looks()
    for at in range(0, 60_000, 1_000):
        looks.add("wishes", Snapshot(at, [Lane("wishes", "queued", at, 0.0)], 0, 0.0, {}, [], [], 0))
    kept = looks.of("wishes", 0)
    assert len(kept) <= 8
    assert kept[-1]["queued"] == 59_000, "the newest is always there"


class AfterTwoLooks(asyncio.Event):
    """Ends a stream that has looked for news twice."""

    asked = 0

    def is_set(self) -> bool:
        self.asked += 1
        return self.asked > 2


async def test_a_change_is_told_once_by_the_name_of_its_system(
    kernel: Kernel, web: FastAPI, operator: httpx.AsyncClient
) -> None:
    await wish(kernel)
    web.state.stopping = AfterTwoLooks()
    text = (await operator.get("/api/ops/changes")).text
    told = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    assert told == [{"systems": ["wishes"]}]


async def test_a_job_is_found_by_its_effects_its_messages_and_its_input(
    kernel: Kernel, operator: httpx.AsyncClient
) -> None:
    job = await wish(kernel, text="order-100%_7")
    other = await wish(kernel, text="order-100xx7")
    message = kernel.new_id()
    async with kernel.store.transaction() as tx:
        plan = effects.Plan("mail/ann", "tok-1", job, "k", "s", "oracle", "token", epoch=0, attempt=0)
        await effects.plan(tx, [plan], kernel.now())
        await outbox.put(tx, [(message, job, "x/y", "t", "{}", "{}")], kernel.now())
    for wanted in (job, "mail/ann", "tok-1", message, "order-100%_7"):
        found = (await operator.get("/api/ops/jobs", params={"q": wanted})).json()["items"]
        assert [one["id"] for one in found] == [job], wanted
    assert other not in [one["id"] for one in found]
