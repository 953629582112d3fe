"""Opens incidents, follows them and ends them: a step of the keeper, by the notices that everybody's lights come from.

    a notice --opened--> open --the notice is gone--> over --a person, with a summary--> closed
                          ^---- it is back within a quarter of an hour ---/

One trouble is one incident: the same topic and subject. What woke nobody and was touched by nobody closes itself when
it is over. Writes only where something changed; two processes that look at once are harmless.

Why so: docs/decisions/0032-an-incident-is-a-row.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.failure import Category
from holdfast.core.floor import BOTTOM
from holdfast.kernel.kernel import Kernel
from holdfast.operator import replays
from holdfast.operator.attention import AttentionNotice, Severity, Topic, what_asks
from holdfast.operator.incident_news import IncidentApp, IncidentSettings, declare_incidents, tell
from holdfast.operator.outside import reach_broker
from holdfast.operator.rollup import ROLL_UP_S, roll_up_once
from holdfast.operator.snapshot import snapshot
from holdfast.stores.seam import Tx
from holdfast.tables import audit, incidents
from holdfast.tables.incidents import Hit, Incident

WATCH_S = 15.0
BACK_MS = 900_000
"""What comes back within this time is the same incident; and letters of jobs that it held still join it."""
STEADY_MS = {Topic.WAITING: 10_000, Topic.NO_WORKER: 30_000, Topic.UNDECLARED: 60_000, Topic.BROKER: 30_000}
"""How long these must last to be an incident: a restart is none."""
SeenSince = dict[tuple[str, str], int]
"""Since when a process has been seeing each notice at every look."""
BUGS_BEFORE_MS = 60_000
"""A bug is noticed after its first letter was written."""
DEATHS_SLACK_MS = 5_000
"""So long before now a letter may be dated that is committed only now; an older one is seen by the look of a minute."""
KEPT_MS = 90 * 86_400_000
GROWN = 1.1
"""A count is rewritten when it has grown by a tenth: a long outage is not a write at every look."""
OF_QUEUES = frozenset({Topic.NO_WORKER, Topic.WAITING})
CAUSES = OF_QUEUES | {Topic.PROVIDER}
EFFECTS = {Topic.DEADLINES: CAUSES, Topic.OUTBOX: frozenset({Topic.BROKER})}
"""What these may come of."""
WORK = frozenset({Topic.LETTERS, Topic.DOUBT, Topic.ASIDE, Topic.PAUSED, Topic.UNTRIED})
"""What waits for a person without being an incident."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a look means for the incidents that are known."""

    opened: Sequence[AttentionNotice]
    back: Sequence[tuple[Incident, AttentionNotice]]
    followed: Sequence[tuple[Incident, AttentionNotice]]
    over: Sequence[Incident]

    def any(self) -> bool:
        return bool(self.opened or self.back or self.followed or self.over)


def incidents_app(settings: IncidentSettings, public_url: str | None, schema: str | None = None) -> IncidentApp:
    """The app that every process carries: its keeper watches, rolls up and replays
    groups, its jobs tell. Its jobs lie in `schema`."""

    def link(id: str) -> str | None:
        return None if public_url is None else f"{public_url.rstrip('/')}/console#incident/{id}"

    app = declare_incidents(settings, link, schema)
    seen: SeenSince = {}

    @app.step(every_s=WATCH_S)
    async def watch(kernel: Kernel) -> int:
        await watch_incidents(kernel, seen)
        return 0  # it keeps its rhythm: what was opened is news to nobody a moment later

    @app.step(every_s=ROLL_UP_S)
    async def roll_up(kernel: Kernel) -> int:
        return await roll_up_once(kernel)

    @app.step(every_s=replays.STEP_S, channel=replays.CHANNEL)
    async def replay_groups(kernel: Kernel) -> int:
        return await replays.replay_some(kernel)

    return app


async def watch_incidents(kernel: Kernel, seen: SeenSince | None = None) -> int:
    """Look once; return how many incidents were opened or ended. `seen` is what this process saw the last time."""
    await reach_broker(kernel)
    view = await snapshot(kernel)
    async with kernel.store.reading() as tx:
        known = await incidents.live(tx, view.now - BACK_MS)
    notices = choose_notices(what_asks(view))
    if seen is not None:  # what is open was seen by whoever kept before
        seen.update({(each.topic, each.subject): 0 for each in known if each.state == "open"})
        notices = keep_steady(notices, seen, view.now)
    changes = compare(known, notices)
    if not known and not changes.any():
        return 0
    async with kernel.store.transaction() as tx:
        ids = [await _open(kernel, tx, notice, view.now) for notice in changes.opened]
        for incident, notice in changes.back:
            await _come_back(kernel, tx, incident, notice, view.now)
        for incident, notice in changes.followed:
            await _follow(kernel, tx, incident, notice, view.now)
        for incident in [*known, *filter(None, ids)]:
            await join_jobs(kernel, tx, incident, view.now)
        for incident in changes.over:
            await _end(kernel, tx, incident, view.now)
        if changes.over:
            await incidents.prune(tx, view.now - KEPT_MS, 200)
    return len(changes.opened) + len(changes.over)


def choose_notices(notices: Sequence[AttentionNotice]) -> list[AttentionNotice]:
    """Those that make an incident: not the work that waits, nor what comes of a cause that is named anyway."""
    topics = {notice.topic for notice in notices}
    explained = {effect for effect, causes in EFFECTS.items() if topics & causes}
    return [notice for notice in notices if notice.topic not in WORK | explained]


def keep_steady(notices: Sequence[AttentionNotice], seen: SeenSince, now: int) -> list[AttentionNotice]:
    """Those that last. A worker that is restarted is away for a moment; and a job that a breaker has just let go has
    been due for as long as the outage, until a worker takes it a moment later."""
    keys = {(str(notice.topic), notice.subject): notice for notice in notices}
    for gone in seen.keys() - keys.keys():
        del seen[gone]
    for key in keys:
        seen.setdefault(key, now)
    return [notice for key, notice in keys.items() if now - seen[key] >= STEADY_MS.get(notice.topic, 0)]


def compare(known: Sequence[Incident], notices: Sequence[AttentionNotice]) -> Changes:
    """What to write. Pure; an incident that a person closed stays closed, and the trouble gets a new one."""
    going_on = {(each.topic, each.subject): each for each in known if each.state == "open"}
    ended = {(each.topic, each.subject): each for each in known if each.state != "open" and each.summary is None}
    opened, back, followed = [], [], []
    for notice in notices:
        key = (str(notice.topic), notice.subject)
        if key in going_on:
            incident = going_on.pop(key)
            if _has_grown(incident, notice):
                followed.append((incident, notice))
        elif key in ended:
            back.append((ended[key], notice))
        else:
            opened.append(notice)
    return Changes(opened, back, followed, list(going_on.values()))


def _has_grown(incident: Incident, notice: AttentionNotice) -> bool:
    """Worse, or hitting more; a page does not become a ticket again while it lasts."""
    worse = notice.severity is Severity.PAGE and incident.severity == Severity.TICKET
    return worse or notice.number > incident.jobs_max * GROWN or notice.owners > incident.owners_max * GROWN


async def _open(kernel: Kernel, tx: Tx, notice: AttentionNotice, now: int) -> Incident | None:
    began_at = notice.since_at or now
    id = kernel.new_id()
    hit = Hit(notice.number, notice.owners)
    if not await incidents.open(
        tx, id, notice.topic, notice.subject, notice.severity, notice.sentence, began_at, hit, now
    ):
        return None
    await _note(kernel, tx, id, "opened", notice, now)
    row = await incidents.show(tx, id)
    assert row is not None, "it was written a moment ago"
    return Incident(*row)


async def _come_back(kernel: Kernel, tx: Tx, incident: Incident, notice: AttentionNotice, now: int) -> None:
    if await incidents.reopen(tx, incident.id, notice.severity, notice.sentence):
        await _note(kernel, tx, incident.id, "reopened", notice, now)


async def _follow(kernel: Kernel, tx: Tx, incident: Incident, notice: AttentionNotice, now: int) -> None:
    is_page = Severity.PAGE in (notice.severity, incident.severity)
    severity = Severity.PAGE if is_page else Severity.TICKET
    if not await incidents.follow(tx, incident, severity, notice.sentence, Hit(notice.number, notice.owners)):
        return
    if severity != incident.severity:
        await _note(kernel, tx, incident.id, "worse", notice, now)


async def _end(kernel: Kernel, tx: Tx, incident: Incident, now: int) -> None:
    state = await incidents.over(tx, incident.id, now)
    if state is not None:
        await audit.write(tx, "kernel", "incident.over", f"incident:{incident.id}", {"state": state}, now)
        await tell(kernel, tx, incident.id, "over", incident.severity, incident.sentence, now)


async def _note(kernel: Kernel, tx: Tx, id: str, event: str, notice: AttentionNotice, now: int) -> None:
    data = {"severity": notice.severity, "sentence": notice.sentence, "jobs": notice.number, "owners": notice.owners}
    await audit.write(tx, "kernel", f"incident.{event}", f"incident:{id}", data, now)
    await tell(kernel, tx, id, event, notice.severity, notice.sentence, now)


async def join_jobs(kernel: Kernel, tx: Tx, incident: Incident, now: int) -> None:
    """The jobs that it holds now, and those that died of it since the last look."""
    if incident.topic == Topic.PROVIDER and incident.state == "open":
        floor = kernel.floors.parked_since(incident.subject)
        await incidents.join_held(tx, incident.id, incident.subject, floor, now)
    with kernel.floors.times("deaths", incident.id).scan(kernel.now) as scan:
        floor, id = scan.start or BOTTOM, incident.id
        if incident.topic == Topic.PROVIDER:
            joined = await incidents.join_dead(tx, id, incident.began_at, floor, provider=incident.subject)
        elif incident.topic in OF_QUEUES:
            joined = await incidents.join_dead(tx, id, incident.began_at, floor, queue=incident.subject)
        elif incident.topic == Topic.BUG:
            since = incident.began_at - BUGS_BEFORE_MS
            joined = await incidents.join_dead(tx, id, since, floor, category=Category.BUG)
        elif incident.topic == Topic.DYING:
            joined = await incidents.join_dead(tx, id, incident.began_at, floor, died_of=incident.subject)
        else:
            return
        if not joined:  # else the next look goes on behind what this one has joined
            scan.reached(now - DEATHS_SLACK_MS)
