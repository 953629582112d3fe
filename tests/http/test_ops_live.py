"""What the console's charts and its live updates are made of."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.http.conftest import Client
from tests.http.wishes import Grant, Wish

from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import submit
from holdfast.operator.rollup import roll_up_once
from holdfast.tables import effects, outbox
from holdfast.testing import HandClock


@pytest.fixture
def operator(client: Client) -> httpx.AsyncClient:
    return client("olga", "operator")


async def wish(kernel: Kernel, fails: str = "", text: str = "rain") -> str:
    return await submit(kernel, Grant, Wish(text=text, fails=fails))


async def charts(client: httpx.AsyncClient, query: str = "minutes=5") -> dict[str, Any]:
    answer = await client.get(f"/api/ops/charts?{query}")
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
    assert sum(point["jobs"] for point in (await charts(operator))["points"]) == 0, "not counted yet"
    await roll_up_once(kernel)
    seen = await charts(operator)
    assert [(one["jobs"], one["died"], one["error_rate"]) for one in seen["points"][2:]] == [
        (3, 1, 0.25),
        (0, 0, 0),
        (0, 0, 0),
    ]
    assert (await charts(operator, "minutes=5&kind=nothing"))["stages"] == []
    assert (await operator.get("/api/ops/charts?minutes=0")).status_code == 422
    assert (await operator.get("/api/ops/charts?minutes=43201")).status_code == 422


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
