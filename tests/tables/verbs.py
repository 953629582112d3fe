"""Statements that need more than one row of a family to show what they do: how both must stand, and what is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.core.effect import EffectStatus
from holdfast.stores.seam import Tx
from holdfast.tables import (
    answers,
    audit,
    callbacks,
    calls,
    cases,
    depth,
    effects,
    events,
    idempotency,
    inbox,
    incidents,
    jobs,
    joins,
    keepers,
    ops,
    outbox,
    pauses,
    providers,
    replays,
    rollups,
    schedules,
    tickets,
    workers,
)
from holdfast.tables.answers import NewAnswer, RunId
from holdfast.tables.calls import NewCall
from holdfast.tables.effects import Begin, Mark, Plan, Refusal
from holdfast.tables.incidents import Hit
from holdfast.tables.job_rows import JobLine
from holdfast.tables.jobs import NIL
from holdfast.tables.pauses import Pause
from holdfast.tables.replays import Group
from holdfast.tables.rollups import Cell
from holdfast.testing import World
from tests.tables.crowd import Unordered
from tests.tables.families import Family

Verb = Callable[[Tx, Family, int], Awaitable[Any]]
Asked = Callable[[Tx, World], Awaitable[Any]]
LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
SENDING = "UPDATE holdfast_effects SET status = 'sending', attempt = 1"
SENT = "UPDATE holdfast_effects SET status = 'sent', provider_id = 'm-1', marked_at = 7, attempt = 1"
FREE = "lease_owner = NULL, lease_until = NULL"
RAN = "UPDATE holdfast_replays SET state = 'done', ended_at = created_at"
CELLS = [Cell(60_000, "depth", "kind", "queued", "", 0, 4, 40), Cell(60_000, "stage", "kind", "run", "ok", 1, 2, 20)]


async def loose(answer: Awaitable[list[Any]]) -> list[Any]:
    return Unordered(await answer)


async def after(*steps: Awaitable[Any]) -> list[Any]:
    """The answers of several statements, one after the other."""
    return [await step for step in steps]


def call(a: Family, number: int, now: int, **other: Any) -> NewCall:
    """A call of the job that died: `other` says what is different about it."""
    row = NewCall(f"00000000-0000-4000-8000-00000000000{number}", a.dead, "run", 1, a.named("provider"), now - 90,
                  5, "ok", 200, None, 12, '{"tokens":3}')  # fmt: skip
    return row._replace(**other)


def called(tx: Tx, a: Family, now: int, *then: Awaitable[Any]) -> Awaitable[list[Any]]:
    made = [call(a, 1, now), call(a, 2, now - 40, outcome="failed", status=503, error_class="E", units=None)]
    return after(calls.put(tx, made), *then)


def begun(a: Family, sends: int = 1, attempt: int = 1) -> list[Begin]:
    return [Begin(a.named("effect"), a.running, attempt, 2, sends, "ticket")]


def plan(a: Family, job_id: str, former: str | None = None) -> list[Plan]:
    return [Plan("new", "t", job_id, a.named("kind"), "run", a.named("provider"), "token", 2, 1, former, "ticket")]


async def prune_outbox(tx: Tx, before: int, limit: int) -> list[int]:
    """How many messages went, and after which to go on, from the first: a database that was used goes on counting."""
    (head,) = await tx.rows(outbox.sql.oldest, after=0, limit=1)
    gone, upto = await outbox.prune(tx, 0, before, limit)
    return [gone, upto - head["first"] + 1]


async def followed(tx: Tx, a: Family, severity: str, hit: Hit) -> list[Any]:
    (known,) = [each for each in await incidents.live(tx, 0) if each.id == a.incident]
    return [await incidents.follow(tx, known, severity, "what is known now", hit)]


OF_A_FAMILY: dict[str, Verb] = {
    "answers.put": lambda tx, a, now: answers.put(tx, [NewAnswer(RunId(a.running, "run", 0, "ask"), 2, '"v"')], now),
    "answers.put again": lambda tx, a, now: after(
        answers.put(tx, [NewAnswer(RunId(a.running, "run", 0, "ask"), 2, None)], now),
        answers.put(tx, [NewAnswer(RunId(a.running, "run", 0, "ask"), 3, '"v"')], now + 1),
    ),
    "answers.put of an epoch that is over": lambda tx, a, now: answers.put(
        tx, [NewAnswer(RunId(a.running, "run", 9, "ask"), 2, '"v"')], now
    ),
    "answers.prune": lambda tx, a, now: answers.prune(tx, NIL, 9),
    "answers.prune of what has left its stage": lambda tx, a, now: loose(answers.prune(tx, NIL, 9)),
    "audit.acts_since": lambda tx, a, now: audit.acts_since(tx, a.at),
    "callbacks.awaited": lambda tx, a, now: loose(callbacks.awaited(tx, 9, 0)),
    "callbacks.waiter": lambda tx, a, now: callbacks.waiter(tx, "waited"),
    "callbacks.prune": lambda tx, a, now: callbacks.prune(tx, 0, a.at + 1, 9),
    "calls.put": lambda tx, a, now: called(tx, a, now),
    "calls.spending": lambda tx, a, now: called(tx, a, now, calls.spending(tx, now - 1_000)),
    "calls.spending since a call": lambda tx, a, now: called(tx, a, now, calls.spending(tx, now - 90)),
    "calls.prune": lambda tx, a, now: called(tx, a, now, loose(calls.prune(tx, NIL, LAST, now - 90, 9))),
    "cases.groups": lambda tx, a, now: loose(cases.groups(tx)),
    "cases.page": lambda tx, a, now: cases.page(tx, kind=a.named("kind")),
    "cases.page before the last": lambda tx, a, now: cases.page(tx, before=a.case),
    "cases.refer": lambda tx, a, now: cases.refer(tx, a.dead, "request", {"file": "a.py", "none": None}),
    "depth.doubtful": lambda tx, a, now: loose(depth.doubtful(tx, 0)),
    "depth.letters": lambda tx, a, now: loose(depth.letters(tx, "open", 0)),
    "depth.dying": lambda tx, a, now: loose(depth.dying(tx, 0)),
    "effects.begin": lambda tx, a, now: effects.begin(tx, begun(a), now),
    "effects.begin after another's": lambda tx, a, now: effects.begin(tx, begun(a, sends=0), now),
    "effects.begin of what was marked": lambda tx, a, now: effects.begin(tx, begun(a), now),
    "effects.begin of an attempt that is over": lambda tx, a, now: effects.begin(tx, begun(a, attempt=0), now),
    "effects.begin_new": lambda tx, a, now: effects.begin_new(tx, plan(a, a.running), now),
    "effects.begin_new of an old spelling": lambda tx, a, now: effects.begin_new(
        tx, plan(a, a.running, a.named("effect")), now
    ),
    "effects.begin_new of a job that is not held": lambda tx, a, now: effects.begin_new(tx, plan(a, a.dead), now),
    "effects.mark": lambda tx, a, now: effects.mark(tx, [Mark(a.named("effect"), a.dead, 1, "m-2")], now),
    "effects.mark of another attempt": lambda tx, a, now: effects.mark(
        tx, [Mark(a.named("effect"), a.dead, 2, "m-2")], now
    ),
    "effects.mark of what is marked": lambda tx, a, now: effects.mark(
        tx, [Mark(a.named("effect"), a.dead, 1, "m-2")], now
    ),
    "effects.backfill": lambda tx, a, now: effects.backfill(tx, a.named("effect"), "m-2", now),
    "effects.backfill of what is marked": lambda tx, a, now: effects.backfill(tx, a.named("effect"), "m-2", now),
    "effects.backfill of a known id": lambda tx, a, now: effects.backfill(tx, a.named("effect"), "m-2", now, was="m-1"),
    "effects.refuse": lambda tx, a, now: effects.refuse(
        tx, [Refusal(a.named("effect"), a.dead, 1, 1, EffectStatus.UNKNOWN, "E", "why")], now
    ),
    "effects.refuse of another send": lambda tx, a, now: effects.refuse(
        tx, [Refusal(a.named("effect"), a.dead, 1, 0, EffectStatus.UNKNOWN, "E", "why")], now
    ),
    "effects.unsent": lambda tx, a, now: effects.unsent(tx, a.named("effect"), 1, now),
    "effects.unsent of what is marked": lambda tx, a, now: effects.unsent(tx, a.named("effect"), 1, now),
    "effects.unsent of a known id": lambda tx, a, now: effects.unsent(tx, a.named("effect"), 1, now, was="m-1"),
    "effects.hand_over": lambda tx, a, now: effects.hand_over(tx, a.dead, a.running, now),
    "effects.in_doubt": lambda tx, a, now: effects.in_doubt(tx, now, 9),
    "effects.in_doubt since": lambda tx, a, now: effects.in_doubt(tx, now, 9, a.at + 1),
    "effects.sample": lambda tx, a, now: effects.sample(tx, a.named("provider"), NIL, scan=9, limit=9),
    "effects.page": lambda tx, a, now: effects.page(tx, a.named("provider"), "", 9),
    "effects.page after a key": lambda tx, a, now: effects.page(tx, a.named("provider"), a.named("effect"), 9),
    "effects.count": lambda tx, a, now: loose(effects.count(tx)),
    "events.write_success after another event": lambda tx, a, now: after(
        events.append_once(tx, a.running, 1, "resumed", None, now), events.write_success(tx, a.running)
    ),
    "events.write_success": lambda tx, a, now: events.write_success(tx, a.running),
    "idempotency.prune": lambda tx, a, now: loose(idempotency.prune(tx, 0, a.at + 1, 9)),
    "inbox.accept": lambda tx, a, now: after(
        *(inbox.accept(tx, who, what, "print", now) for who, what in [("c", "m"), ("c", "m"), ("d", "m"), ("c", "n")]),
        loose(inbox.prune(tx, 0, now, 9)),
        loose(inbox.prune(tx, 0, now + 1, 9)),
    ),
    "incidents.follow": lambda tx, a, now: followed(tx, a, "page", Hit(5, 2, now + 9, "503")),
    "incidents.follow to less": lambda tx, a, now: followed(tx, a, "ticket", Hit(1, 0, None)),
    "incidents.live": lambda tx, a, now: loose(incidents.live(tx, 0)),
    "incidents.live after they ended": lambda tx, a, now: loose(incidents.live(tx, a.at)),
    "incidents.live after one ended": lambda tx, a, now: loose(incidents.live(tx, a.at + 1)),
    "incidents.reopen": lambda tx, a, now: incidents.reopen(tx, a.incident, "ticket", "again"),
    "incidents.reopen while it goes on": lambda tx, a, now: incidents.reopen(tx, a.incident, "ticket", "again"),
    "incidents.page": lambda tx, a, now: incidents.page(tx, before=None, limit=9),
    "incidents.page of a state": lambda tx, a, now: incidents.page(tx, before=None, limit=9, state="over"),
    "incidents.join_held": lambda tx, a, now: incidents.join_held(tx, a.incident, a.named("provider"), 0, now),
    "incidents.join_dead": lambda tx, a, now: after(
        incidents.join_dead(tx, a.incident, 0, category="validation"),
        loose(incidents.letters_by_minute(tx, a.incident)),
        loose(incidents.jobs_hit(tx, a.incident)),
    ),
    "incidents.join_dead of what came too late": lambda tx, a, now: incidents.join_dead(
        tx, a.incident, 0, queue=a.named("queue"), category="validation"
    ),
    "incidents.join_dead of a cause": lambda tx, a, now: incidents.join_dead(
        tx, a.incident, 0, died_of=f"{a.named('kind')}/run/UPSTREAM_BAD_REQUEST"
    ),
    "incidents.acts_between": lambda tx, a, now: incidents.acts_between(tx, a.named("subject"), a.at, a.at + 1),
    "incidents.last_answer": lambda tx, a, now: called(
        tx, a, now, incidents.last_answer(tx, a.named("provider"), now - 1_000)
    ),
    "incidents.prune": lambda tx, a, now: incidents.prune(tx, a.at + 1, 9),
    "jobs.lock_waiting": lambda tx, a, now: jobs.lock_waiting(tx, "waited"),
    "jobs.page": lambda tx, a, now: jobs.page(tx),
    "jobs.page before a job": lambda tx, a, now: jobs.page(tx, before=LAST, limit=1),
    "jobs.prune": lambda tx, a, now: jobs.prune(tx, NIL, LAST, now + 1, 9),
    "jobs.prune of what a person is done with": lambda tx, a, now: loose(jobs.prune(tx, NIL, LAST, now + 1, 9)),
    "jobs.forget": lambda tx, a, now: loose(jobs.forget(tx, a.named("queue"), 9)),
    "joins.generations": lambda tx, a, now: joins.generations(tx, a.named("join"), 9),
    "joins.ready": lambda tx, a, now: loose(joins.ready(tx, 9, 0)),
    "keepers.forget": lambda tx, a, now: keepers.forget(tx, a.at + 10_001),
    "keepers.take of another's": lambda tx, a, now: keepers.take(tx, a.named("keep"), "other", now + 9, now),
    "keepers.take of what is over": lambda tx, a, now: keepers.take(
        tx, a.named("keep"), "other", now + 99_999, now + 99_998
    ),
    "keepers.take of a new name": lambda tx, a, now: keepers.take(tx, "new", "other", now + 9, now),
    "ops.audit_page": lambda tx, a, now: ops.audit_page(tx, before=None, limit=9),
    "ops.audit_page of people": lambda tx, a, now: ops.audit_page(tx, before=None, limit=9, people=True),
    "ops.effects_page": lambda tx, a, now: ops.effects_page(tx, before=None, limit=9),
    "ops.gate_changes": lambda tx, a, now: ops.gate_changes(tx, a.at, a.at + 1, 9),
    "ops.jobs_found by a key": lambda tx, a, now: ops.jobs_found(tx, wanted="dead-a", before=None, limit=9),
    "ops.jobs_found by a token": lambda tx, a, now: ops.jobs_found(tx, wanted="token-a", before=None, limit=9),
    "ops.jobs_found in an input": lambda tx, a, now: ops.jobs_found(tx, wanted="fails", before=None, limit=9),
    "ops.jobs_found in the newest inputs": lambda tx, a, now: loose(
        tx.rows(ops.sql.jobs_found, into=JobLine, wanted="?", as_id=None, before=None, limit=9,
                quoted="%name%", payloads_max=1)
    ),
    "ops.messages_aside": lambda tx, a, now: ops.messages_aside(tx),
    "ops.outbox_page": lambda tx, a, now: ops.outbox_page(tx, before=None, limit=9),
    "outbox.prune": lambda tx, a, now: prune_outbox(tx, a.at + 1, 9),
    "outbox.prune at the very time": lambda tx, a, now: prune_outbox(tx, a.at, 1),
    "pauses.is_paused": lambda tx, a, now: after(
        *(pauses.is_paused(tx, sort, name) for sort in ("kind", "queue") for name in (a.named("kind"), "x"))  # type: ignore[arg-type]
    ),
    "pauses.put": lambda tx, a, now: pauses.put(tx, Pause("kind", a.named("kind"), False, now, "ann", "again")),
    "pauses.read_every": lambda tx, a, now: loose(pauses.read_every(tx)),
    "providers.ensure": lambda tx, a, now: after(
        providers.ensure(tx, "new", now), providers.ensure(tx, a.named("provider"), now)
    ),
    "providers.read_all": lambda tx, a, now: providers.read_all(tx, [a.named("provider")]),
    "providers.read_all of what an earlier release counted": lambda tx, a, now: providers.read_all(
        tx, [a.named("provider")]
    ),
    "providers.read_every": lambda tx, a, now: loose(providers.read_every(tx)),
    "replays.due": lambda tx, a, now: replays.due(tx, now),
    "replays.due of one that is paused": lambda tx, a, now: replays.due(tx, now),
    "replays.resume": lambda tx, a, now: replays.resume(tx, a.replay, now),
    "replays.page": lambda tx, a, now: replays.page(tx, before=None, limit=9),
    "replays.progress": lambda tx, a, now: replays.progress(tx, a.replay),
    "replays.progress of what was refused": lambda tx, a, now: replays.progress(tx, a.replay),
    "replays.troubles": lambda tx, a, now: replays.troubles(tx, a.replay, 9),
    "replays.troubles of what died again": lambda tx, a, now: replays.troubles(tx, a.replay, 9),
    "replays.facts_of": lambda tx, a, now: called(tx, a, now, replays.facts_of(tx, Group(a.named("print")))),
    "replays.prune": lambda tx, a, now: replays.prune(tx, a.at + 1),
    "replays.prune at the very time": lambda tx, a, now: replays.prune(tx, a.at),
    "rollups.position": lambda tx, a, now: rollups.read_position(tx, a.named("position")),
    "rollups.read": lambda tx, a, now: called(tx, a, now, loose(rollups.read(tx, 0, 2**60))),
    "rollups.submitted": lambda tx, a, now: loose(rollups.submitted(tx, 0, now + 1)),
    "rollups.add": lambda tx, a, now: after(
        rollups.add(tx, CELLS), rollups.add(tx, CELLS[::-1]),
        loose(rollups.between(tx, 60_000, 0, 120_000, 60_000, ["depth", "stage"])),
        loose(rollups.between(tx, 60_000, 0, 60_000, 60_000, ["depth", "stage"])),
        loose(rollups.between(tx, 60_000, 0, 120_000, 60_000, ["stage"], kind="other")),
    ),
    "rollups.put": lambda tx, a, now: after(
        rollups.put(tx, CELLS), rollups.put(tx, [cell._replace(number=1, sum=1) for cell in CELLS]),
        loose(rollups.between(tx, 60_000, 60_000, 120_000, 60_000, ["depth", "stage"])),
    ),
    "rollups.fold_hour": lambda tx, a, now: after(
        rollups.add(tx, [cell._replace(at=at) for cell in CELLS for at in (0, 60_000, 3_600_000)]),
        rollups.fold_hour(tx, 0), rollups.fold_hour(tx, 0),
        loose(rollups.between(tx, 3_600_000, 0, 9_000_000, 3_600_000, ["depth", "stage"])),
        rollups.usual_age(tx, 0, 60_000),
        rollups.prune(tx, 60_000, 0, 60_000),
        loose(rollups.between(tx, 60_000, 0, 9_000_000, 60_000, ["depth", "stage"])),
    ),
    "schedules.is_live": lambda tx, a, now: after(
        schedules.is_live(tx, a.named("kind"), "live-a"), schedules.is_live(tx, a.named("kind"), "dead-a")
    ),
    "schedules.lock_due": lambda tx, a, now: schedules.lock_due(tx, a.named("tick"), now),
    "schedules.lock_due too early": lambda tx, a, now: schedules.lock_due(tx, a.named("tick"), a.at - 1),
    "schedules.read_every": lambda tx, a, now: loose(schedules.read_every(tx)),
    "schedules.runs": lambda tx, a, now: schedules.runs(tx, a.named("kind"), "live", 9),
    "schedules.upcoming": lambda tx, a, now: schedules.upcoming(tx, [a.named("kind")], [], 9),
    "schedules.upcoming by name": lambda tx, a, now: schedules.upcoming(tx, [], [a.named("tick")], 9),
    "tickets.prune": lambda tx, a, now: tickets.prune(tx, a.at + 10_001),
    "tickets.prune at the very time": lambda tx, a, now: tickets.prune(tx, a.at + 10_000),
    "workers.company": lambda tx, a, now: workers.company(tx, a.named("queue"), "{}", a.at),
    "workers.declaring": lambda tx, a, now: loose(workers.declaring(tx, a.named("queue"), a.at)),
    "workers.declaring after": lambda tx, a, now: workers.declaring(tx, a.named("queue"), now + 1),
    "workers.seen for the first time": lambda tx, a, now: workers.seen(
        tx, "new", "q", 3, now, "{}", heeds=True, release="2", holds_until=now + 9
    ),
}  # fmt: skip
STANDING = {
    "answers.prune of what has left its stage": "UPDATE holdfast_jobs SET stage = 'next'",
    "callbacks.awaited": "UPDATE holdfast_jobs SET state = 'waiting', wait_key = 'wait-a', "
    f"{FREE} WHERE job_key = 'live-a'",
    "callbacks.waiter": "UPDATE holdfast_jobs SET state = 'waiting', wait_key = 'waited', "
    f"{FREE} WHERE job_key = 'live-b'",
    "depth.doubtful": "UPDATE holdfast_effects SET status = 'sending', provider = 'both'",
    "effects.begin of what was marked": SENT,
    "events.write_success after another event": "UPDATE holdfast_jobs SET state = 'succeeded', finished_at = run_at,"
    f" last_attempt_at = 7, {FREE} WHERE state = 'processing'",
    "effects.mark": SENDING,
    "effects.mark of another attempt": SENDING,
    "effects.mark of what is marked": SENT,
    "effects.backfill": SENDING,
    "effects.backfill of what is marked": SENT,
    "effects.backfill of a known id": SENT,
    "effects.refuse": SENDING,
    "effects.refuse of another send": SENDING,
    "effects.unsent": SENDING,
    "effects.unsent of what is marked": SENT,
    "effects.unsent of a known id": SENT,
    "effects.in_doubt": SENDING,
    "effects.in_doubt since": SENDING,
    "effects.sample": SENT,
    "effects.page": SENT,
    "effects.page after a key": SENT,
    "incidents.live after they ended": "UPDATE holdfast_incidents SET state = 'over', ended_at = began_at",
    "incidents.live after one ended": "UPDATE holdfast_incidents SET state = 'over', ended_at = began_at",
    "incidents.reopen": "UPDATE holdfast_incidents SET state = 'over', ended_at = began_at",
    "incidents.prune": "UPDATE holdfast_incidents SET state = 'closed', ended_at = began_at, closed_at = began_at",
    "jobs.lock_waiting": "UPDATE holdfast_jobs SET state = 'waiting', wait_key = 'waited', "
    f"{FREE} WHERE job_key = 'live-a'",
    "jobs.prune of what a person is done with": "UPDATE holdfast_dead_letters SET state = 'resolved'",
    "ops.messages_aside": "UPDATE holdfast_outbox SET status = 'failed'",
    "outbox.prune": "UPDATE holdfast_outbox SET status = 'published', processed_at = created_at",
    "outbox.prune at the very time": "UPDATE holdfast_outbox SET status = 'published', processed_at = created_at",
    "providers.read_all of what an earlier release counted": "UPDATE holdfast_breakers SET tokens = 3, tokens_at = 7,"
    " ramp = 2, ramp_at = 7",
    "replays.due of one that is paused": "UPDATE holdfast_replays SET state = 'paused' WHERE fingerprint = 'print-a'",
    "replays.resume": "UPDATE holdfast_replays SET state = 'paused'",
    "replays.progress of what was refused": "UPDATE holdfast_replay_letters SET done_at = 7, detail = 'refused'",
    "replays.troubles": "UPDATE holdfast_replay_letters SET done_at = 7, detail = 'refused'",
    "replays.troubles of what died again": "UPDATE holdfast_replay_letters SET done_at = 7",
    "replays.prune": RAN,
    "replays.prune at the very time": RAN,
    "events.write_success": "UPDATE holdfast_jobs SET state = 'succeeded', finished_at = run_at, "
    f"{FREE} WHERE state = 'processing'",
    "incidents.join_held": "UPDATE holdfast_jobs SET state = 'queued', parked = 1, hold = 'breaker', "
    f"{FREE} WHERE state = 'processing'",
    "incidents.join_dead of what came too late": "UPDATE holdfast_dead_letters SET failure_reason = 'deadline'",
    "joins.ready": "UPDATE holdfast_joins SET state = 'sealed', unended = 0",
    "workers.company": "UPDATE holdfast_workers SET heeds = 1",
}  # fmt: skip
"""How the rows must stand for these to do anything."""
