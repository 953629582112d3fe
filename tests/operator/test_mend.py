"""Fix and replay in one: the preview promises what the ledger knows, and every step leaves its evidence."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.kernel.places import Deploy

from holdfast import App, CallError, Category, Context, Cost, Job, Provider, Retry, stage
from holdfast.errors import InvalidInput, NotAllowed
from holdfast.kernel.hold import force
from holdfast.operator.desk import Desk
from holdfast.operator.letters import show_letter
from holdfast.operator.mend import mend_and_replay, preview_replay
from holdfast.system import OpenSystem, System
from holdfast.testing import World

pytestmark = pytest.mark.spec("K8")
bank, post = Provider("bank"), Provider("post", effects="token")
app = App("shop")


@dataclass(frozen=True)
class Order:
    item: str
    pieces: int = 1


@app.job()
class Sell(Job[Order]):
    @stage(provider=bank, reads=("item",))
    async def charge(self, ctx: Context, order: Order) -> str:
        return await ctx.call(_pay, cost=lambda _: Cost(micros=700))

    @stage(provider=post, retry=Retry(attempts=1))
    async def send(self, ctx: Context, order: Order, charge: str) -> str:
        await ctx.effect(("slip", order.item), send=_print)
        if order.pieces > 5:
            raise CallError.of(Category.VALIDATION, "TOO_MANY", "Six is too many.", status=422)
        return "sent"


async def _pay() -> str:
    return "paid"


async def _print(token: str) -> str:
    return "slip-1"


def desk_of(world: World) -> Desk:
    return Desk([OpenSystem(System("shop", "shop", "DATABASE_URL", lambda env: app), world.kernel, {})])


async def one_dead(world: World) -> str:
    await world.enqueue(Sell, Order("rope", 6))
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    return str(letter["id"])


async def test_the_preview_says_what_is_kept_sent_and_paid_and_writes_nothing(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = desk_of(world)
    letter = await one_dead(world)
    seen = await preview_replay(desk, letter, actor="olga", values={"pieces": 5})
    assert seen["changes"] == [{"path": "pieces", "before": 6, "after": 5}]
    assert (seen["replay_from"], seen["stages_kept"], seen["stages_again"]) == ("send", ["charge"], [])
    assert len(seen["effects_kept"]) == 1 and seen["effects_in_doubt"] == []
    assert (seen["cost_kept_micros"], seen["gate"]) == (700, "closed")
    full = await preview_replay(desk, letter, actor="olga", full=True)
    assert (full["replay_from"], full["stages_again"], full["cost_again_micros"]) == ("charge", ["charge"], 700)
    with pytest.raises(InvalidInput, match="pieces"):
        await preview_replay(desk, letter, actor="olga", values={"pieces": "many"})
    await force(world.kernel, "post", open=True, actor="olga", reason="strike")
    assert (await preview_replay(desk, letter, actor="olga"))["gate"] == "open"
    shown = await show_letter(desk, letter)
    assert (shown["state"], len(shown["audit"]), shown["corrections"]) == ("open", 1, [])
    assert shown["input_schema"]["properties"]["pieces"]["type"] == "integer"


async def test_corrected_values_are_replayed_with_the_reason_as_evidence(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = desk_of(world)
    letter = await one_dead(world)
    done = await mend_and_replay(desk, letter, actor="olga", values={"pieces": 5}, evidence="asked the buyer")
    await world.run_until_idle()
    assert (await world.state(done["job_id"]), done["stage"]) == ("succeeded", "send")
    shown = await show_letter(desk, letter)
    assert shown["evidence"] == "Corrected pieces: asked the buyer"
    assert [entry["action"] for entry in shown["audit"]] == ["case.opened", "case.corrected", "case.replayed"]
    with pytest.raises(NotAllowed, match="is replayed"):
        await mend_and_replay(desk, letter, actor="olga")


async def test_as_it_is_leaves_evidence_and_takes_no_step_twice(deploy: Deploy) -> None:
    world = await deploy(app)
    desk = desk_of(world)
    letter = await one_dead(world)
    await mend_and_replay(desk, letter, actor="olga")
    shown = await show_letter(desk, letter)
    assert (shown["cause"], shown["evidence"]) == ("transient", "Replayed as it is.")
    assert [entry["action"] for entry in shown["audit"]] == [
        f"case.{name}" for name in ("opened", "triaged", "remediated", "replayed")
    ]
    await world.run_until_idle()
    assert (await show_letter(desk, letter))["state"] == "escalated", "it died again in the same way"
