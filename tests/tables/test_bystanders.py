"""Whoever is not meant is left alone. Two of everything stand side by side, alike but for their names; each statement
is said for the one, and the other may neither change nor be told of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.core.breaker import BreakerState, Gate
from holdfast.core.case import CaseState
from holdfast.core.effect import EffectStatus
from holdfast.core.rate import Usage
from holdfast.stores.seam import Tx
from holdfast.stores.statement import _statement
from holdfast.tables import (
    answers,
    audit,
    callbacks,
    cases,
    effects,
    events,
    idempotency,
    incidents,
    jobs,
    joins,
    keepers,
    leases,
    logs,
    ops,
    outbox,
    pauses,
    places,
    providers,
    replays,
    results,
    rollups,
    schedules,
    search,
    secrets,
    tickets,
    workers,
)
from holdfast.tables.replays import Group
from holdfast.tables.rollups import Position
from tests.kernel.places import Deploy
from tests.tables.families import LATER, Family, both
from tests.tables.test_fences import app

pytestmark = pytest.mark.spec("K3", "K17")
TABLES = (
    *("answers", "audit", "breaker_events", "breakers", "callbacks", "calls", "corrections", "dead_letters", "effects"),
    *(
        "idempotency",
        "incident_jobs",
        "incidents",
        "job_events",
        "jobs",
        "joins",
        "keepers",
        "logs",
        "outbox",
        "pauses",
    ),
    *("provider_use", "replay_letters", "replays", "results", "rollup_positions", "schedules", "search", "secrets"),
    *("tickets", "worker_signs", "workers"),
)


async def snapshot(tx: Tx) -> dict[str, list[dict[str, Any]]]:
    read = {}
    for table in TABLES:
        read[table] = [dict(row) for row in await tx.rows(_statement("all", {None: f"SELECT * FROM holdfast_{table}"}))]
    return read


def belonging(read: dict[str, list[dict[str, Any]]], one: Family) -> dict[str, list[str]]:
    return {table: sorted(str(row) for row in own if one.owns(row)) for table, own in read.items()}


Verb = Callable[[Tx, Family, int], Awaitable[Any]]
OPEN = BreakerState(gate=Gate.OPEN)
QUEUED = "UPDATE holdfast_jobs SET state = 'queued', lease_owner = NULL, lease_until = NULL WHERE state = 'processing'"
WRITES: dict[str, Verb] = {
    "answers.forget": lambda tx, a, now: answers.forget(tx, [a.dead]),
    "callbacks.take": lambda tx, a, now: callbacks.take(tx, a.named("wait")),
    "cases.begin_at": lambda tx, a, now: cases.begin_at(tx, a.dead, "else"),
    "cases.correct": lambda tx, a, now: cases.correct(
        tx, a.case, CaseState.OPEN, CaseState.REMEDIATED, now, evidence="e", replay_stage=None
    ),
    "cases.forget": lambda tx, a, now: cases.forget(tx, [a.dead]),
    "cases.step": lambda tx, a, now: cases.step(tx, a.case, CaseState.OPEN, CaseState.TRIAGED, now, cause="code"),
    "effects.answer": lambda tx, a, now: effects.answer(tx, a.named("effect"), EffectStatus.SENT, "m-1", now),
    "events.append_once": lambda tx, a, now: events.append_once(tx, a.dead, 1, "resumed", "{}", now),
    "events.forget": lambda tx, a, now: events.forget(tx, [a.dead]),
    "idempotency.answer": lambda tx, a, now: idempotency.answer(tx, a.named("scope"), "key", 201, "{}"),
    "incidents.acknowledge": lambda tx, a, now: incidents.acknowledge(tx, a.incident, "ann", now),
    "incidents.assign": lambda tx, a, now: incidents.assign(tx, a.incident, "bob"),
    "incidents.over": lambda tx, a, now: incidents.over(tx, a.incident, now),
    "jobs.correct": lambda tx, a, now: jobs.correct(tx, a.dead, '{"name":"y"}', 1, now),
    "jobs.revive": lambda tx, a, now: jobs.revive(tx, a.dead, "run", None, now, now, done=None),
    "joins.count_down": lambda tx, a, now: joins.count_down(tx, {a.named("join"): 1}, now + 1),
    "joins.forget": lambda tx, a, now: joins.forget(tx, [a.dead]),
    "joins.grow": lambda tx, a, now: joins.grow(tx, a.named("join"), 0, 2, now),
    "joins.leave": lambda tx, a, now: joins.leave(tx, [a.dead], now),
    "joins.move": lambda tx, a, now: joins.move(tx, a.named("join"), "spawning", "sealed", now),
    "joins.seal": lambda tx, a, now: joins.seal(tx, a.named("join"), 0, now),
    "keepers.release": lambda tx, a, now: keepers.release(tx, a.named("keep"), a.named("owner")),
    "keepers.release_owned": lambda tx, a, now: keepers.release_owned(tx, a.named("owner")),
    "keepers.take": lambda tx, a, now: keepers.take(tx, a.named("keep"), a.named("owner"), now + 2 * LATER, now),
    "leases.renew": lambda tx, a, now: leases.renew(tx, {a.running: 1}, now + 2 * LATER),
    "leases.renew_owned": lambda tx, a, now: leases.renew_owned(tx, a.named("worker"), now, now + 2 * LATER),
    "logs.forget": lambda tx, a, now: logs.forget(tx, [a.dead]),
    "outbox.requeue": lambda tx, a, now: outbox.requeue(tx, a.message, now + 1),
    "places.set_priority": lambda tx, a, now: places.set_priority(tx, a.running, 0, now),
    "places.run_now": lambda tx, a, now: places.run_now(tx, a.running, now),
    "places.remove": lambda tx, a, now: places.remove(tx, a.dead),
    "providers.lift_gate": lambda tx, a, now: providers.lift_gate(tx, a.named("provider")),
    "providers.set_not_before": lambda tx, a, now: providers.set_not_before(tx, a.named("provider"), now + 1),
    "providers.set_places": lambda tx, a, now: providers.set_places(tx, a.named("provider"), {"p": now}),
    "providers.set_ramp": lambda tx, a, now: providers.set_ramp(tx, a.named("provider"), 5, now),
    "providers.spend": lambda tx, a, now: providers.spend(tx, a.named("provider"), Usage(((now, 1),), 3.0, now)),
    "providers.swap": lambda tx, a, now: providers.swap(tx, a.named("provider"), BreakerState(), OPEN, now),
    "replays.advance": lambda tx, a, now: replays.advance(tx, a.replay, now + 5, now),
    "replays.mark": lambda tx, a, now: replays.mark(tx, a.replay, a.case, None, now),
    "replays.pause": lambda tx, a, now: replays.pause(tx, a.replay),
    "replays.stop": lambda tx, a, now: replays.stop(tx, a.replay, now),
    "results.clear": lambda tx, a, now: results.clear(tx, a.dead),
    "results.clear_stages": lambda tx, a, now: results.clear_stages(tx, a.dead, ["run"]),
    "results.forget": lambda tx, a, now: results.forget(tx, [a.dead]),
    "rollups.move": lambda tx, a, now: rollups.move(tx, a.named("position"), Position(9, 9)),
    "schedules.advance": lambda tx, a, now: schedules.advance(tx, a.named("tick"), a.at, now + 5, now),
    "schedules.pause": lambda tx, a, now: schedules.pause(tx, a.named("tick"), True, None, now),
    "schedules.remove": lambda tx, a, now: schedules.remove(tx, a.named("tick")),
    "search.forget": lambda tx, a, now: search.forget(tx, [a.dead]),
    "secrets.forget": lambda tx, a, now: secrets.forget(tx, [a.dead]),
    "tickets.redeem": lambda tx, a, now: tickets.redeem(tx, a.named("digest")),
    "workers.hold": lambda tx, a, now: workers.hold(tx, a.named("worker"), now + 1),
    "workers.drain": lambda tx, a, now: workers.drain(tx, a.named("worker"), now),
    "workers.expire": lambda tx, a, now: workers.expire(tx, a.named("worker"), now),
    "workers.gone": lambda tx, a, now: workers.gone(tx, a.named("worker"), 0),
}


PREPARED = {
    "effects.answer": "UPDATE holdfast_effects SET status = 'review'",
    "outbox.requeue": "UPDATE holdfast_outbox SET status = 'failed'",
    "places.set_priority": QUEUED,
    "places.run_now": QUEUED,
    "places.remove": "UPDATE holdfast_dead_letters SET state = 'resolved'",
    "providers.lift_gate": "UPDATE holdfast_breakers SET not_before = 7",
    "providers.read_watched": "UPDATE holdfast_breakers SET name = 'api' WHERE name = 'provider-a'",
}
"""How both must stand for these to do anything."""


class Undone(Exception):
    """Takes a write back, so that the next one meets the same rows."""


@pytest.mark.parametrize("side", ["a", "b"])
async def test_a_write_for_the_one_leaves_the_other_as_it_was(deploy: Deploy, side: str) -> None:
    world = await deploy(app)
    pair = await both(world)
    meant, other = pair if side == "a" else pair[::-1]
    now = world.kernel.now()
    for name, verb in WRITES.items():
        with pytest.raises(Undone):
            async with world.kernel.store.transaction() as tx:
                if name in PREPARED:
                    await tx.rows(_statement("prepare", {None: PREPARED[name]}))
                before = await snapshot(tx)
                await verb(tx, meant, now)
                after = await snapshot(tx)
                assert belonging(before, meant) != belonging(after, meant), f"{name} did nothing"
                assert belonging(before, other) == belonging(after, other), name
                raise Undone


READS: dict[str, Verb] = {
    "answers.of_job": lambda tx, a, now: answers.of_job(tx, a.dead),
    "answers.of_stage": lambda tx, a, now: answers.of_stage(tx, a.dead, "run", 0),
    "audit.of_subject": lambda tx, a, now: audit.of_subject(tx, a.named("subject")),
    "cases.corrections": lambda tx, a, now: cases.corrections(tx, a.dead),
    "cases.lock": lambda tx, a, now: cases.lock(tx, a.case),
    "cases.show": lambda tx, a, now: cases.show(tx, a.case),
    "effects.lock": lambda tx, a, now: effects.lock(tx, a.named("effect")),
    "effects.of_job": lambda tx, a, now: effects.of_job(tx, a.dead),
    "events.of_job": lambda tx, a, now: events.of_job(tx, a.dead),
    "idempotency.read": lambda tx, a, now: idempotency.read(tx, a.named("scope"), "key"),
    "incidents.show": lambda tx, a, now: incidents.show(tx, a.incident),
    "jobs.show": lambda tx, a, now: jobs.show(tx, a.dead),
    "joins.children_of": lambda tx, a, now: joins.children_of(tx, a.dead, 9),
    "joins.of_parent": lambda tx, a, now: joins.of_parent(tx, a.dead),
    "joins.of_stage": lambda tx, a, now: joins.of_stage(tx, a.claimed),
    "joins.outcome_of": lambda tx, a, now: joins.outcome_of(tx, a.dead),
    "joins.outcomes": lambda tx, a, now: joins.outcomes(tx, a.named("join"), joins.NIL, 9),
    "joins.parent_of": lambda tx, a, now: joins.parent_of(tx, a.running),
    "joins.unended": lambda tx, a, now: joins.unended(tx, a.named("join"), 9),
    "keepers.look": lambda tx, a, now: keepers.look(tx, a.named("keep")),
    "leases.held_by": lambda tx, a, now: leases.held_by(tx, a.named("worker"), now),
    "logs.of_job": lambda tx, a, now: logs.of_job(tx, a.dead),
    "ops.case_of_job": lambda tx, a, now: ops.case_of_job(tx, a.dead),
    "ops.gates_since": lambda tx, a, now: ops.gates_since(tx, a.named("provider"), 0),
    "ops.job_ids": lambda tx, a, now: ops.job_ids(tx, a.dead, a.dead),
    "ops.letter_ids": lambda tx, a, now: ops.letter_ids(tx, a.case, a.case),
    "ops.incident_ids": lambda tx, a, now: ops.incident_ids(tx, a.incident, a.incident),
    "outbox.of_aggregate": lambda tx, a, now: outbox.of_aggregate(tx, a.named("aggregate")),
    "pauses.of_job": lambda tx, a, now: pauses.of_job(tx, a.named("kind"), a.named("queue")),
    "providers.history": lambda tx, a, now: providers.history(tx, a.named("provider")),
    "replays.ids": lambda tx, a, now: replays.ids(tx, a.replay, a.replay),
    "replays.letters_of": lambda tx, a, now: replays.letters_of(tx, Group(a.named("print")), 9),
    "replays.show": lambda tx, a, now: replays.show(tx, a.replay),
    "replays.upcoming": lambda tx, a, now: replays.upcoming(tx, a.replay, 9),
    "results.of_job": lambda tx, a, now: results.of_job(tx, a.dead),
    "results.of_jobs": lambda tx, a, now: results.of_jobs(tx, [a.dead]),
    "secrets.of_owners": lambda tx, a, now: secrets.of_owners(tx, [a.dead]),
    "workers.running": lambda tx, a, now: workers.running(tx, a.named("worker"), now, 9),
}
SINGLE = {"answers.of_job", "answers.of_stage", "cases.corrections", "logs.of_job", "joins.of_stage", "results.of_jobs"}
"""One row each, that may say nothing of whose it is."""


@pytest.mark.parametrize("side", ["a", "b"])
async def test_a_read_of_the_one_tells_nothing_of_the_other(deploy: Deploy, side: str) -> None:
    world = await deploy(app)
    pair = await both(world)
    meant, other = pair if side == "a" else pair[::-1]
    async with world.kernel.store.reading() as tx:
        for name, verb in READS.items():
            found = await verb(tx, meant, world.kernel.now())
            assert found, f"{name} finds nothing"
            told = str(found)
            assert not any(mark in told for mark in other.marks) and f"-{other.side}'" not in told, name
            assert f'-{other.side}"' not in told, name
            if name in SINGLE:
                assert len(found) == 1, name
        assert len(await results.of_job(tx, meant.dead)) == 2


Listing = Callable[[Tx, int], Awaitable[Any]]
LISTS: dict[str, tuple[Listing, str]] = {
    "incidents.begun_between": (lambda tx, limit: incidents.begun_between(tx, 0, 2**60, limit), "ba"),
    "incidents.page": (lambda tx, limit: incidents.page(tx, before=None, limit=limit), "ba"),
    "ops.audit_page": (lambda tx, limit: ops.audit_page(tx, before=None, limit=limit), "ba"),
    "ops.effects_page": (lambda tx, limit: ops.effects_page(tx, before=None, limit=limit), "ba"),
    "ops.outbox_page": (lambda tx, limit: ops.outbox_page(tx, before=None, limit=limit), "ba"),
    "providers.history": (lambda tx, limit: providers.history(tx, None, limit), "ba"),
    "replays.page": (lambda tx, limit: replays.page(tx, before=None, limit=limit), "ba"),
}


async def test_a_list_has_its_order_and_no_more_than_was_asked_for(deploy: Deploy) -> None:
    world = await deploy(app)
    pair = await both(world)
    sides = {one.side: one for one in pair}
    async with world.kernel.store.reading() as tx:
        for name, (read, order) in LISTS.items():
            found = [row._asdict() for row in await read(tx, 9)]
            own = [row for row in found if any(one.owns(row) for one in pair)]
            assert ["".join(side for side in "ab" if sides[side].owns(row)) for row in own] == list(order), name
            assert [row._asdict() for row in await read(tx, 1)] == found[:1], name
