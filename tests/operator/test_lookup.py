"""What a person holds in hand, whatever it is the id of, leads to its job, and to no other."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kernel.places import Deploy, rows
from tests.tables.test_rare_rows import write

from holdfast import App, CallError, Category, Context, Job, Retry, stage
from holdfast.operator.desk import Desk
from holdfast.operator.jobs import query_jobs
from holdfast.operator.page import ListPage
from holdfast.system import OpenSystem, System
from holdfast.tables import effects, outbox
from holdfast.tables.effects import Plan

app = App("shop")


@app.job()
class Sell(Job[dict[str, Any]]):
    @stage(retry=Retry(attempts=1))
    async def charge(self, ctx: Context, order: dict[str, Any]) -> None:
        raise CallError.of(Category.VALIDATION, "UPSTREAM_UNPROCESSABLE", "The bank answered 422.", status=422)


@pytest.mark.spec("K17")
async def test_every_id_of_a_job_leads_to_it(deploy: Deploy) -> None:
    world = await deploy(app)
    kernel, now = world.kernel, world.kernel.now()
    desk = Desk([OpenSystem(System("shop", "shop", "DATABASE_URL", lambda env: app), kernel, {})])
    names = ("key", "trace", "awaited", "letter", "request", "effect", "token", "receipt", "message", "input", "other")
    ids = {}
    for name in names:
        ids[name] = await world.enqueue(Sell, {"order": f"in-{name}"}, key=f"key-{name}", trace=f"trace-{name}")
    await world.run_until_idle()
    letters = {letter["job_id"]: letter["id"] for letter in await world.dead_letters()}
    await write(
        world,
        "UPDATE holdfast_dead_letters SET request_id = CASE WHEN job_id = CAST(:id AS /*id*/) THEN 'request-1' END",
        id=ids["request"],
    )
    await write(
        world,
        "UPDATE holdfast_jobs SET state = 'waiting', finished_at = NULL, wait_key = 'answer-1'"
        " WHERE id = CAST(:id AS /*id*/)",
        id=ids["awaited"],
    )
    message = kernel.new_uuid4()
    async with kernel.store.transaction() as tx:
        await outbox.put(tx, [(message, ids["message"], "bank", "paid", "{}", "{}")], now)
        for name in ("effect", "token", "receipt"):
            known = (f"effect-{name}", f"token-{name}", ids[name], "shop.sell", "charge", "bank", "token", 0, 1)
            await effects.plan(tx, [Plan(*known, None, None)], now)
    await write(world, "UPDATE holdfast_effects SET provider_id = 'receipt-1' WHERE key = 'effect-receipt'")

    held = {
        "key-key": "key",
        "trace-trace": "trace",
        "answer-1": "awaited",
        letters[ids["letter"]]: "letter",
        "request-1": "request",
        "effect-effect": "effect",
        "token-token": "token",
        "receipt-1": "receipt",
        message: "message",
        "in-input": "input",
    }
    for text, name in held.items():
        found = (await query_jobs(desk, ListPage(), f" {text} "))["items"]
        assert [item["id"] for item in found] == [ids[name]], name
    assert len(await rows(kernel.store, "SELECT id FROM holdfast_jobs")) == len(names)
