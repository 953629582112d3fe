"""Two of everything, alike but for their names: whoever is said something for the one sees what the other does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.job import Claimed
from holdfast.tables import (
    answers,
    audit,
    callbacks,
    cases,
    effects,
    idempotency,
    incidents,
    jobs,
    joins,
    keepers,
    logs,
    ops,
    outbox,
    pauses,
    providers,
    replays,
    results,
    rollups,
    schedules,
    secrets,
    tickets,
    workers,
)  # fmt: skip
from holdfast.tables.answers import NewAnswer, RunId
from holdfast.tables.effects import Plan
from holdfast.tables.incidents import Hit
from holdfast.tables.pauses import Pause
from holdfast.tables.replays import Group, NewReplay
from holdfast.tables.schedules import NewSchedule
from holdfast.tables.secrets import NewSecret
from holdfast.testing import World
from tests.tables.test_fences import Note
from tests.tables.test_rare_rows import write

LATER = 10_000


class Family:
    """One of the two: a job that died and one that runs, and a row of every sort that belongs to it."""

    def __init__(self, side: str, dead: str, running: str, new_id: Callable[[], str]) -> None:
        self.side, self.dead, self.running = side, dead, running
        self.case, self.at = "", 0
        self.replay, self.incident, self.message = new_id(), new_id(), new_id()
        self.claimed: Claimed

    def named(self, what: str) -> str:
        return f"{what}-{self.side}"

    @property
    def marks(self) -> set[str]:
        return {self.dead, self.running, self.case, self.replay, self.incident, self.message}

    def owns(self, row: dict[str, Any]) -> bool:
        texts = [str(value) for value in row.values()]
        return any(text in self.marks or text.endswith(f"-{self.side}") for text in texts)


async def both(world: World) -> tuple[Family, Family]:
    kernel, made = world.kernel, []
    for side in ("a", "b"):
        dead = await world.enqueue(Note, {"name": "fails"}, owner=f"owner-{side}", key=f"dead-{side}")
        running = await world.enqueue(Note, {"name": "x"}, owner=f"owner-{side}", key=f"live-{side}", delay_s=3_600)
        made.append(Family(side, dead, running, kernel.new_id))
        world.clock.advance(1)
    await world.work()
    for one in made:
        await fill(world, one)
        world.clock.advance(1)
    return made[0], made[1]


async def fill(world: World, one: Family) -> None:
    now, name = world.kernel.now(), one.named
    one.at = now
    await write(
        world,
        "UPDATE holdfast_jobs SET kind = :kind, queue = :queue, provider = :provider WHERE owner = :owner",
        kind=name("kind"), queue=name("queue"), provider=name("provider"), owner=name("owner"),
    )  # fmt: skip
    await write(
        world,
        "UPDATE holdfast_jobs SET state = 'processing', attempt = 1, lease_owner = :worker, lease_until = :until,"
        " join_id = :join_id WHERE id = CAST(:id AS /*id*/)",
        worker=name("worker"), until=now + LATER, id=one.running, join_id=name("join"),
    )  # fmt: skip
    await write(
        world,
        "UPDATE holdfast_dead_letters SET fingerprint = :print, kind = :kind WHERE job_id = CAST(:id AS /*id*/)",
        print=name("print"), kind=name("kind"), id=one.dead,
    )  # fmt: skip
    async with world.kernel.store.transaction() as tx:
        locked = await jobs.lock_one(tx, one.dead)
        summary = await ops.case_of_job(tx, one.dead)
        assert locked is not None and summary is not None
        one.claimed, one.case = locked[0], summary.id
        await results.put(tx, [(one.dead, "run", 1, 0, '"x"'), (one.dead, "run", 1, 1, '"late"')], now)
        await answers.restore(tx, [NewAnswer(RunId(one.dead, "run", 0, "ask"), 1, f'"{name("answer")}"')], now)
        await logs.put(tx, [(one.dead, 7, "[]")])
        await secrets.put(tx, {one.dead: [NewSecret(1, name("sealed"))]}, now)
        await joins.begin(tx, name("join"), one.claimed, "children", name("kind"), "spawning", now)
        await effects.plan(
            tx,
            [Plan(name("effect"), name("token"), one.dead, name("kind"), "run", name("provider"), "token", 0, 1)],
            now,
        )
        await cases.keep_correction(
            tx, one.case, one.dead, now, actor="ann", reason=None, before=name("before"), after="{}"
        )
        new = NewReplay(one.replay, name("kind"), "run", "E", "ann", "code", None, None, False, None)
        assert await replays.begin(tx, new, Group(name("print")), 9, now) == 1
        await incidents.open(
            tx, one.incident, "provider_down", name("provider"), "page", name("sentence"), now, Hit(1), now
        )
        await schedules.ensure(
            tx, NewSchedule(name("tick"), "* * * * *", name("kind"), "{}", "UTC", 0, "allow", 1), now, now
        )
        await keepers.take(tx, name("keep"), name("owner"), now + LATER, now)
        await idempotency.reserve(tx, name("scope"), "key", name("print"), now)
        await outbox.put(tx, [(one.message, name("aggregate"), "there", "told", "{}", "{}")], now)
        await workers.seen(tx, name("worker"), name("queue"), 1, now, release="1")
        await providers.lock(tx, name("provider"), now)
        await providers.log(tx, name("provider"), "open", name("reason"), now)
        await callbacks.put(tx, name("wait"), f'"{name("body")}"', now)
        await tickets.put(tx, name("digest"), name("sub"), "viewer", now + LATER)
        await rollups.lock(tx, name("position"))
        await audit.write(tx, name("actor"), "acted", name("subject"), None, now)
        for sort in ("kind", "queue"):
            await pauses.put(tx, Pause(sort, name(sort), True, now, name("actor"), name("reason")))  # type: ignore[arg-type]
