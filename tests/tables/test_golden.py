"""What every statement writes and answers, whole: each column, each order, each bound, the same on both databases.

`golden.txt` holds it, one block a statement. If what differs is as it should be, write it there with
`python -m tests.tables.test_golden`, and read the difference before you commit it."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.floor import BOTTOM, LATER
from holdfast.stores.seam import Tx
from holdfast.stores.statement import _statement
from holdfast.tables import (
    answers,
    callbacks,
    calls,
    cases,
    depth,
    effects,
    events,
    incidents,
    jobs,
    joins,
    keepers,
    lanes,
    leases,
    ops,
    outbox,
    pauses,
    providers,
    workers,
)
from holdfast.testing import HandClock, World
from tests.kernel.places import Deploy
from tests.services.sqlite import open_migrated
from tests.tables.crowd import Unordered, gather, told
from tests.tables.crowd_verbs import OF_THE_CROWD, STANDING_CROWD
from tests.tables.ending_verbs import ENDS, STANDING_ENDS
from tests.tables.families import Family, both
from tests.tables.test_bystanders import PREPARED, READS, WRITES, Undone, snapshot
from tests.tables.test_fences import app
from tests.tables.verbs import OF_A_FAMILY, STANDING

pytestmark = pytest.mark.spec("K3", "K17")
GOLDEN = Path(__file__).with_name("golden.txt")
Rows = list[dict[str, Any]]
Asked = Callable[[Tx, World], Awaitable[Any]]
USED = [
    "UPDATE holdfast_outbox SET retry_count = 3, error_message = 'old', available_at = available_at - 7",
    "UPDATE holdfast_jobs SET crashes = 2, failures = 1, first_failure_at = 7 WHERE state = 'processing'",
    "UPDATE holdfast_effects SET error = 'old', sends = 1",
    "UPDATE holdfast_joins SET unended = 2",
]
"""Rows that have been through something: what is not reset shows."""


async def each(limited: Callable[[int, int], Awaitable[Any]], now: int) -> list[Any]:
    """All of it, in no order; the first three in theirs; from a floor on."""
    return [Unordered(await limited(99, BOTTOM)), await limited(3, BOTTOM), await limited(3, now - 1_000)]


async def loose(answer: Awaitable[list[Any]]) -> list[Any]:
    return Unordered(await answer)


async def lanes_of(read: Callable[[str, int, int], Awaitable[Any]], now: int) -> list[Any]:
    return [
        Unordered(await read(f"q{queue}", 2 + queue, floor)) for queue in (0, 1) for floor in (BOTTOM, now - 1_500, now)
    ]


ASKED: dict[str, Asked] = {
    "depth.ready": lambda tx, w: lanes_of(lambda q, p, floor: depth.ready(tx, q, p, floor), w.kernel.now()),
    "depth.later": lambda tx, w: lanes_of(
        lambda q, p, floor: depth.later(tx, q, w.kernel.now(), floor), w.kernel.now()
    ),
    "depth.in_line": lambda tx, w: lanes_of(
        lambda q, p, floor: depth.in_line(tx, q, p, w.kernel.now(), floor), w.kernel.now()
    ),
    "depth.processing": lambda tx, w: lanes_of(lambda q, p, floor: depth.processing(tx, floor), w.kernel.now()),
    "depth.waiting": lambda tx, w: lanes_of(lambda q, p, floor: depth.waiting(tx, floor), w.kernel.now()),
    "depth.parked": lambda tx, w: lanes_of(lambda q, p, floor: depth.parked(tx, "api", floor), w.kernel.now()),
    "depth.standing": lambda tx, w: depth.standing(tx, ["q1"]),
    "incidents.held_for": lambda tx, w: lanes_of(
        lambda q, p, floor: listed(incidents.held_for(tx, "api", floor)), w.kernel.now()
    ),
    "incidents.due_in": lambda tx, w: lanes_of(
        lambda q, p, floor: listed(incidents.due_in(tx, q, [floor] * 4)), w.kernel.now()
    ),
    "lanes.below": lambda tx, w: lanes.below(
        tx,
        {(f"q{queue}", lane): w.kernel.now() for queue in (0, 1) for lane in (2, 3, LATER)},
        w.kernel.registry.declared,
        w.kernel.now(),
    ),
    "leases.expired": lambda tx, w: each(
        lambda limit, floor: leases.expired(tx, ["q0"], w.kernel.now(), limit, floor), w.kernel.now()
    ),
    "leases.overdue": lambda tx, w: each(
        lambda limit, floor: leases.overdue(tx, ["q0"], w.kernel.now(), limit, floor), w.kernel.now()
    ),
    "leases.unanswered": lambda tx, w: each(
        lambda limit, floor: leases.unanswered(tx, ["q1"], w.kernel.now(), limit, floor), w.kernel.now()
    ),
    "leases.held_by": lambda tx, w: loose(leases.held_by(tx, "w", w.kernel.now())),
    "ops.at_risk": lambda tx, w: ops.at_risk(tx, w.kernel.now() - 1_500),
    "workers.running": lambda tx, w: each(lambda limit, floor: workers.running(tx, "w", floor, limit), w.kernel.now()),
    "workers.known": lambda tx, w: workers.known(tx, w.kernel.now()),
    "providers.read_watched": lambda tx, w: loose(
        providers.read_watched(tx, ["q0"], {"api": w.kernel.now() - 1_500, "other": w.kernel.now() + 9_000})
    ),
    "pauses.held": lambda tx, w: lanes_of(lambda q, p, floor: pauses.held(tx, "fences.note", floor), w.kernel.now()),
}
DONE: dict[str, Asked] = {
    "jobs.unpark": lambda tx, w: jobs.unpark(tx, "api", 2, w.kernel.now()),
    "jobs.unpark a trial": lambda tx, w: jobs.unpark(tx, "api", 1, w.kernel.now(), is_trial=True),
    "lanes.due_ids": lambda tx, w: due(tx, w, 99),
    "lanes.due_ids of two": lambda tx, w: due(tx, w, 2),
    "lanes.promote": lambda tx, w: loose(lanes.promote(tx, "q0", w.kernel.now(), w.kernel.now() - 1_500, 3)),
    "leases.renew_owned": lambda tx, w: leases.renew_owned(tx, "w", w.kernel.now() - 1_000, w.kernel.now() + 500),
    "workers.expire": lambda tx, w: workers.expire(tx, "w", w.kernel.now()),
    "pauses.release": lambda tx, w: loose(pauses.release(tx, "fences.note", {"run": "api"}, 99, w.kernel.now())),
    "pauses.release of three from a floor": lambda tx, w: loose(
        pauses.release(tx, "fences.note", {"run": "api"}, 3, w.kernel.now(), w.kernel.now() - 1_000)
    ),
    "pauses.release of another kind": lambda tx, w: loose(pauses.release(tx, "kind-a", {}, 99, w.kernel.now())),
}
MESSAGES: dict[str, Callable[[Tx, Family, int], Awaitable[Any]]] = {
    "outbox.claim": lambda tx, a, now: outbox.claim(tx, "t", now, now + 5, 9),
    "outbox.claim of the first": lambda tx, a, now: outbox.claim(tx, "t", now, now + 5, 1),
    "outbox.claim from a floor": lambda tx, a, now: outbox.claim(tx, "t", now, now + 5, 9, a.at - 6),
    "outbox.claim before its time": lambda tx, a, now: outbox.claim(tx, "t", a.at - 8, now, 9),
    "outbox.first_pending": lambda tx, a, now: outbox.first_pending(tx),
    "outbox.lag": lambda tx, a, now: outbox.lag(tx),
    "outbox.published": lambda tx, a, now: after_claim(tx, a, now, lambda seq: outbox.published(tx, "t", [seq], now)),
    "outbox.published by another": lambda tx, a, now: after_claim(
        tx, a, now, lambda seq: outbox.published(tx, "u", [seq], now)
    ),
    "outbox.refused": lambda tx, a, now: after_claim(
        tx, a, now, lambda seq: outbox.refused(tx, "t", seq, "why", now + 9, 5)
    ),
    "outbox.refused for good": lambda tx, a, now: after_claim(
        tx, a, now, lambda seq: outbox.refused(tx, "t", seq, "why", now + 9, 4)
    ),
    "outbox.release": lambda tx, a, now: after_claim(tx, a, now, lambda seq: outbox.release(tx, "t", [seq], "why")),
    "outbox.put": lambda tx, a, now: outbox.put(
        tx, [("00000000-0000-4000-8000-000000000007", "agg", "dest", "type", '{"p":1}', '{"h":1}')], now
    ),
    "joins.begin": lambda tx, a, now: joins.begin(tx, "new", a.claimed, "name", "kind", "loose", now),
    "joins.grow from another size": lambda tx, a, now: joins.grow(tx, a.named("join"), 1, 2, now),
    "joins.seal of another size": lambda tx, a, now: joins.seal(tx, a.named("join"), 1, now),
    "joins.move from elsewhere": lambda tx, a, now: joins.move(tx, a.named("join"), "sealed", "left", now),
    "incidents.close": lambda tx, a, now: closed(tx, a, now),
    "incidents.close while it goes on": lambda tx, a, now: incidents.close(tx, a.incident, "learned", now),
    "providers.read_with_lease": lambda tx, a, now: providers.read_with_lease(tx, a.named("provider"), a.running, 1),
    "providers.read_with_lease of an earlier one": lambda tx, a, now: providers.read_with_lease(
        tx, a.named("provider"), a.running, 0
    ),
    "workers.seen again": lambda tx, a, now: workers.seen(tx, a.named("worker"), "other", 5, now + 1, "d", heeds=True),
    "workers.read_every": lambda tx, a, now: workers.read_every(tx),
    "workers.started_since": lambda tx, a, now: loose(workers.started_since(tx, a.at)),
    "pauses.release of a paused kind": lambda tx, a, now: pauses.release(tx, "kind-a", {}, 9, now),
    "answers.parked": lambda tx, a, now: answers.parked(tx, [a.dead, a.running]),
    "calls.of_job": lambda tx, a, now: calls.of_job(tx, a.dead),
    "callbacks.is_kept": lambda tx, a, now: callbacks.is_kept(tx, a.named("wait")),
    "cases.lock_of_job": lambda tx, a, now: cases.lock_of_job(tx, a.dead),
    "depth.finished_since by the newest events": lambda tx, a, now: each_limit(
        lambda limit: tx.rows(depth.sql.finished_since, into=depth.EndedCount, since=0, limit=limit), (1, 2, 3, 4)
    ),
    "effects.ask": lambda tx, a, now: effects.ask(tx, a.named("effect"), "why", now),
    "effects.stage_of": lambda tx, a, now: effects.stage_of(tx, a.named("effect")),
    "events.failed_in_stage": lambda tx, a, now: events.failed_in_stage(tx, a.dead),
    "events.last_data": lambda tx, a, now: events.last_data(tx, a.dead, "buried"),
    "incidents.hit": lambda tx, a, now: incidents.hit(tx, a.incident),
    "jobs.take_back of one that has not succeeded": lambda tx, a, now: jobs.take_back(tx, a.dead, "run", "{}", now),
    "keepers.owners": lambda tx, a, now: loose(keepers.owners(tx)),
    "ops.states_of": lambda tx, a, now: loose(ops.states_of(tx, [a.dead, a.running])),
    "providers.names": lambda tx, a, now: loose(providers.names(tx)),
}


async def due(tx: Tx, world: World, limit: int) -> Any:
    ids, floors = await lanes.due_ids(tx, "q0", world.kernel.registry.declared, world.kernel.now(), limit)
    return [Unordered(ids), floors]


async def each_limit(read: Callable[[int], Awaitable[Any]], limits: Sequence[int]) -> list[Any]:
    return [Unordered(await read(limit)) for limit in limits]


async def listed(answer: Awaitable[Any]) -> list[Any]:
    return [await answer]


async def closed(tx: Tx, a: Family, now: int) -> Any:
    return [await incidents.over(tx, a.incident, now), await incidents.close(tx, a.incident, "learned", now + 1)]


async def after_claim(tx: Tx, a: Family, now: int, act: Callable[[int], Awaitable[Any]]) -> Any:
    rows = await outbox.claim(tx, "t", now, now + 5, 9)
    return await act(next(row.seq for row in rows if row.id == a.message))


def changed(before: Mapping[str, Rows], after: Mapping[str, Rows]) -> list[str]:
    """What became of the rows: each column that has another value, each row that came or went."""
    lines = []
    for table in before:
        gone = subtracted(before[table], after[table])
        come = subtracted(after[table], before[table])
        for old in gone:
            same = [(sum(old[name] == new[name] for name in old), place) for place, new in enumerate(come)]
            best, place = max(same, default=(0, 0))
            if best * 2 < len(old):
                lines.append(f"{table} - {shown(old)}")
                continue
            new = come.pop(place)
            moves = [f"{name} {old[name]} -> {new[name]}" for name in sorted(old) if old[name] != new[name]]
            lines.append(f"{table} {identity(old)}: {', '.join(moves)}")
        lines += [f"{table} + {shown(new)}" for new in come]
    return sorted(lines)


def subtracted(these: Rows, those: Rows) -> Rows:
    left = Counter(shown(row) for row in those)
    kept = []
    for row in these:
        if left[shown(row)]:
            left[shown(row)] -= 1
        else:
            kept.append(row)
    return kept


def identity(row: Mapping[str, Any]) -> str:
    return str(row.get("id") or row.get("name") or row.get("key") or row.get("job_id") or "")


def shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(row.items()) if value is not None and name != "seq")


async def whole(world: World) -> dict[str, list[str]]:
    """Every block of the golden file, as it is now."""
    pair, standing = await both(world), PREPARED | STANDING | STANDING_CROWD | STANDING_ENDS
    a, now, found = pair[0], world.kernel.now(), {}
    marks = {getattr(one, name): f"<{name} {one.side}>" for one in pair
             for name in ("dead", "running", "case", "replay", "incident", "message")}  # fmt: skip

    async def tried(name: str, verb: Callable[[Tx], Awaitable[Any]], used: bool, names: Mapping[str, str]) -> None:
        with pytest.raises(Undone):
            async with world.kernel.store.transaction() as tx:
                for text in [*(USED if used else ()), *([standing[name]] if name in standing else ())]:
                    await tx.rows(_statement("prepare", {None: text}))
                before = plain(await snapshot(tx), names, now)
                answer = await verb(tx)
                lines = changed(before, plain(await snapshot(tx), names, now))
                found[name] = [f"= {told(answer, names, now)}", *lines]
                raise Undone

    for name, verb in (WRITES | READS | MESSAGES | OF_A_FAMILY).items():
        await tried(name, lambda tx, verb=verb: verb(tx, a, now), True, marks)  # type: ignore[misc]
    names = marks | await gather(world)
    for name, asked in (ASKED | DONE | OF_THE_CROWD | ENDS).items():
        await tried(name, lambda tx, asked=asked: asked(tx, world), False, names)  # type: ignore[misc]
    return found


def plain(read: Mapping[str, Rows], names: Mapping[str, str], now: int) -> dict[str, Rows]:
    return {
        table: [
            {name: None if value is None else told(value, names, now) for name, value in row.items()} for row in own
        ]
        for table, own in read.items()
    }


def golden() -> dict[str, list[str]]:
    blocks = [block.strip("\n").split("\n") for block in GOLDEN.read_text().split("\n## ")[1:]]
    return {lines[0]: lines[1:] for lines in blocks}


async def test_every_statement_writes_and_answers_what_it_did(deploy: Deploy) -> None:
    found, kept = await whole(await deploy(app)), golden()
    assert sorted(found) == sorted(kept)
    differing = [name for name, lines in found.items() if lines != kept[name]]
    assert {name: found[name] for name in differing} == {name: kept[name] for name in differing}


async def _write() -> None:
    with tempfile.TemporaryDirectory() as folder:
        clock = HandClock()
        world = World([app], lambda given: open_migrated(Path(folder) / "golden.db", given), clock, 1)
        blocks = await whole(world)
        await world.close()
    text = "".join(f"\n## {name}\n" + "".join(f"{line}\n" for line in lines) for name, lines in sorted(blocks.items()))
    GOLDEN.write_text(
        f"What each statement answers (=) and changes. Times are told from the moment of the asking.\n{text}"
    )


if __name__ == "__main__":
    asyncio.run(_write())
