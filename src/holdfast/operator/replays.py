"""A whole group of dead letters, mended and replayed: a look at what it would do first, then a replay that is a row.

    begun --running--> done          the keeper takes the next letters when they are due, by the rate
              |   ^
            paused /    --stopped    what was not taken yet stays as it was

Each letter goes through its own steps, in its own commits. A process that dies in the middle costs nothing: a letter
that was replayed and not marked is known by its state.

Why so: docs/decisions/0043-a-replay-is-a-row.md
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdfast.core.case import CaseState, Cause
from holdfast.core.redact import redact_text
from holdfast.errors import InvalidInput, NotAllowed, NotFound, SystemAmbiguous, UnknownKind
from holdfast.kernel.hands.correct import correct
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.explain import iso
from holdfast.operator.desk import Desk
from holdfast.operator.mend import IN_DOUBT, mend_case, stages_again
from holdfast.operator.page import BY_ID, ListPage, fetch_page
from holdfast.operator.shape import shape_row
from holdfast.system import OpenSystem
from holdfast.tables import audit, cases, providers, replays
from holdfast.tables.jobs import NIL
from holdfast.tables.replays import Group as Group
from holdfast.tables.replays import GroupReplay, NewReplay, Upcoming

CHANNEL = "replays"
STEP_S = 2.0
LETTERS_MAX = 50_000
TAKEN_MAX = 100
"""So many letters are taken in one step."""
CATCH_UP_MS = 10_000
"""A replay that nobody took further for long goes on at its rate: what was missed is not sent at once."""
SAMPLED = 20
TROUBLES_SHOWN = 100
KEPT_MS = 90 * 86_400_000
MINUTE_MS = 60_000


async def preview_group(
    desk: Desk,
    group: Group,
    *,
    actor: str,
    values: dict[str, Any] | None = None,
    full: bool = False,
    per_minute: float | None = None,
) -> dict[str, Any]:
    """What a replay of a group would do: nothing is written. With corrections, the first letters are tried."""
    system = await _find_group(desk, group)
    kernel = system.kernel
    async with kernel.store.reading() as tx:
        facts = await replays.facts_of(tx, group)
        sample = await replays.letters_of(tx, group, SAMPLED)
        case = await cases.show(tx, sample[0])
        assert case is not None, "it was listed in this transaction"
        gate = await providers.read(tx, case.provider) if case.provider else None
    start, again = stages_again(kernel, case, case.replay_stage or case.stage, full)
    changes, refused = await _try_corrections(kernel, sample, values, actor)
    taken = min(facts.letters, LETTERS_MAX)
    spread_ms = 0 if per_minute is None else int((taken - 1) * MINUTE_MS / per_minute)
    return {
        "system": system.name,
        "fingerprint": group.fingerprint,
        "dry_run": True,
        "letters": taken,
        "owners": facts.owners,
        "replay_from": start,
        "stages_kept": {name: jobs for name, jobs in facts.results.items() if name not in again},
        "stages_again": {name: jobs for name, jobs in facts.results.items() if name in again},
        "effects_kept": facts.effects.get("sent", 0),
        "effects_in_doubt": sum(facts.effects.get(status, 0) for status in IN_DOUBT),
        "cost_kept_micros": sum(cost for name, cost in facts.costs.items() if name not in again),
        "cost_again_micros": sum(cost for name, cost in facts.costs.items() if name in again),
        "provider": case.provider,
        "gate": None if gate is None else gate.state.gate,
        "last_begins_at": iso(kernel.now() + spread_ms),
        "changes": changes,
        "sampled": len(sample) if values else 0,
        "refused": refused,
    }


async def _try_corrections(
    kernel: Kernel, sample: Sequence[str], values: dict[str, Any] | None, actor: str
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """What the first letter's input would become, and which of the sample could not be corrected so."""
    changes: list[dict[str, Any]] = []
    refused: list[dict[str, str]] = []
    for case_id in sample if values else ():
        try:
            seen = await correct(kernel, case_id, actor=actor, values=values, dry_run=True)
            changes = changes or [change._asdict() for change in seen.changes]
        except (InvalidInput, NotAllowed) as error:
            refused.append({"id": case_id, "detail": str(error)})
    return changes, refused


async def begin_replay(
    desk: Desk,
    group: Group,
    *,
    actor: str,
    cause: Cause = Cause.TRANSIENT,
    evidence: str | None = None,
    values: dict[str, Any] | None = None,
    full: bool = False,
    per_minute: float | None = None,
) -> dict[str, Any]:
    """Begin the replay of a group; the keeper of its system carries it out. One that runs is not begun twice, and
    corrections that do not fit the first letter's input are refused."""
    system = await _find_group(desk, group)
    kernel, now = system.kernel, system.kernel.now()
    if values:
        async with kernel.store.reading() as tx:
            sample = await replays.letters_of(tx, group, 1)
        await correct(kernel, sample[0], actor=actor, values=values, dry_run=True)
    async with kernel.store.transaction() as tx:
        letters = await replays.letters_of(tx, group, 1)
        case = await cases.show(tx, letters[0]) if letters else None
        if case is None:
            raise NotFound(f"No dead letter of the group {group.fingerprint} can be replayed.")
        about = (case.kind, case.stage, case.error_class)
        changes = json.dumps(values, ensure_ascii=False, allow_nan=False) if values else None
        new = NewReplay(kernel.new_id(), *about, actor, cause, evidence, changes, full, per_minute)
        number = await replays.begin(tx, new, group, LETTERS_MAX, now)
        if not number:
            raise NotAllowed("A replay of this group has not ended yet; stop it or let it end.")
        data = {"fingerprint": group.fingerprint, "letters": number, "per_minute": per_minute, "evidence": evidence}
        await audit.write(tx, actor, "replay.begun", f"replay:{new.id}", data, now)
        await replays.prune(tx, now - KEPT_MS)
        await tx.notify(CHANNEL)
    return await show_replay(desk, new.id)


async def list_replays(desk: Desk, page: ListPage, fingerprint: str | None = None) -> dict[str, Any]:
    """Replays of groups, the newest first."""
    found = await fetch_page(desk, page, BY_ID, replays.page, fingerprint=fingerprint)
    found["items"] = [_shape(item) for item in found["items"]]
    return found


async def show_replay(desk: Desk, replay_id: str) -> dict[str, Any]:
    """A replay: how far it is, what became of its letters, and the first that went wrong again."""
    system, row = await desk.find(replays.show, replay_id, "replay")
    async with system.kernel.store.reading() as tx:
        outcomes = await replays.progress(tx, replay_id)
        troubles = [shape_row(each) for each in await replays.troubles(tx, replay_id, TROUBLES_SHOWN)]
    left = outcomes.get("waiting", 0) if row.state in ("running", "paused") else 0
    rate = row.per_minute if left and row.state == "running" else None
    ends_at = None if rate is None else row.next_at + int((left - 1) / rate * MINUTE_MS)
    return {
        **_shape({"system": system.name, **shape_row(row)}),
        "letters": sum(outcomes.values()),
        "outcomes": outcomes,
        "last_begins_at": None if ends_at is None else iso(ends_at),
        "troubles": troubles,
    }


async def steer_replay(desk: Desk, replay_id: str, verb: str, *, actor: str) -> dict[str, Any]:
    """Pause, resume or stop one. What has been replayed runs on; what has not stays as it was."""
    system, row = await desk.find(replays.show, replay_id, "replay")
    now = system.kernel.now()
    async with system.kernel.store.transaction() as tx:
        match verb:
            case "pause":
                is_done = await replays.pause(tx, replay_id)
            case "resume":
                is_done = await replays.resume(tx, replay_id, now)
            case _:
                is_done = await replays.stop(tx, replay_id, now)
        if not is_done:
            raise NotAllowed(f"A replay that is {row.state} cannot be {PAST[verb]}.")
        await audit.write(tx, actor, f"replay.{PAST[verb]}", f"replay:{replay_id}", None, now)
        await tx.notify(CHANNEL)
    return await show_replay(desk, replay_id)


PAST = {"pause": "paused", "resume": "resumed", "stop": "stopped"}


async def replay_some(kernel: Kernel) -> int:
    """Take the letters that are due in one replay; return how many, 0 when nothing is due."""
    now = kernel.now()
    async with kernel.store.reading() as tx:
        row = await replays.due(tx, now)
        if row is None:
            return 0
        gap_ms = 0.0 if row.per_minute is None else MINUTE_MS / row.per_minute
        since = max(row.next_at, now - CATCH_UP_MS)
        number = TAKEN_MAX if not gap_ms else min(TAKEN_MAX, 1 + int((now - since) / gap_ms))
        with kernel.floors.ids("replay", row.id).scan(kernel.now) as scan:
            first = scan.start or NIL  # no letter joins a replay, and none that is done is to be done again
            letters = await replays.upcoming(tx, row.id, number, first)
            first = letters[0].id if letters else first
            scan.reached(first)
    for letter in letters:
        await _take(kernel, row, letter)
    async with kernel.store.transaction() as tx:
        await replays.advance(tx, row.id, since + int(len(letters) * gap_ms), kernel.now(), first)
        await tx.notify("events")
    return 0 if gap_ms else len(letters)


async def _take(kernel: Kernel, replay: GroupReplay, letter: Upcoming) -> None:
    """One letter, and its mark. One that was replayed since this began, also by a process that died before the mark,
    is only marked."""
    async with kernel.store.reading() as tx:
        case = await cases.show(tx, letter.id)
        fresh = await replays.show(tx, replay.id)
    if fresh is None or fresh.state != "running":
        return
    detail = "It is not there any more." if case is None else None
    if case is not None and case.state != CaseState.REPLAYED and case.deaths == letter.deaths:
        try:
            await mend_case(
                kernel,
                case,
                actor=replay.actor,
                cause=Cause(replay.cause),
                evidence=replay.evidence,
                values=json.loads(replay.changes) if replay.changes else None,
                full=bool(replay.is_full),
            )
        except (NotAllowed, NotFound, InvalidInput, UnknownKind) as error:
            detail = redact_text(str(error))
    async with kernel.store.transaction() as tx:
        await replays.mark(tx, replay.id, letter.id, detail, kernel.now())


async def _find_group(desk: Desk, group: Group) -> OpenSystem:
    having = []
    for system in desk.systems:
        async with system.kernel.store.reading() as tx:
            if await replays.letters_of(tx, group, 1):
                having.append(system)
    if not having:
        raise NotFound(f"No dead letter of the group {group.fingerprint} can be replayed.")
    if len(having) > 1:
        raise SystemAmbiguous(f"letters of the group {group.fingerprint}", [system.name for system in having])
    return having[0]


def _shape(item: dict[str, Any]) -> dict[str, Any]:
    changes = item.pop("changes")
    return {**item, "is_full": bool(item["is_full"]), "set": json.loads(changes) if changes else None}
