"""Writes down what came of calls to providers: the call, its entry in the ledger of effects, the breaker's record.

One commit for all three, so that none is ever there without the others; and calls that end at the same time share it.
A send that went well has its call in the ledger's entry, and no row besides (`holdfast_every_call` tells both).

Why so: docs/decisions/0036-told-once.md
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from holdfast.core import breaker, rate
from holdfast.core.breaker import Gate
from holdfast.core.budget import asks_to_wait
from holdfast.core.failure import Failure
from holdfast.core.given import BadValue
from holdfast.core.job import Claimed
from holdfast.core.provider import Provider
from holdfast.core.redact import redact_text
from holdfast.errors import StoreDown
from holdfast.kernel.gather import write_together
from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Tx
from holdfast.tables import answers, audit, batch, calls, effects, jobs, providers
from holdfast.tables.answers import NewAnswer
from holdfast.tables.effects import Mark, Refusal
from holdfast.tables.providers import ProviderRow

T = TypeVar("T")
AMOUNT_MAX = 10**15
"""What one call may cost at most: beyond it sums would leave a column's range."""
UNRECORDED_MAX = 1_000
"""How many records are kept for a store that is away: the newest."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call spent, in millionths of a currency unit, and in the provider's own units: whole numbers."""

    micros: int = 0
    units: dict[str, int] | None = None

    def __post_init__(self) -> None:
        for name, value in (("micros", self.micros), *(self.units or {}).items()):
            if type(value) is not int or not 0 <= value <= AMOUNT_MAX:
                raise BadValue(f"The {name} of {value!r} of a Cost must be a whole number from 0 to {AMOUNT_MAX}.")


class CallPermit(NamedTuple):
    """Permission to make one call. A report from another generation of the breaker is ignored."""

    id: str
    generation: int


class Report(NamedTuple):
    """One call that was made. If it was an effect's send: what the ledger shall say of it."""

    provider: Provider
    permit: CallPermit
    job: Claimed | None
    started: int
    failure: Failure | None
    cost: Cost = Cost()
    mark: Mark | None = None
    refusal: Refusal | None = None
    answer: NewAnswer | None = None
    """If it was a paid call: what to keep of its answer."""
    is_again: bool = False
    """Whether it was tried to write this before, and nobody knows what came of it."""

    def with_answer(self, answer: NewAnswer | None, failure: Failure | None) -> Report:
        return self._replace(answer=answer, failure=failure)

    @property
    def outcome(self) -> str:
        return "ok" if self.failure is None else ("ambiguous" if self.failure.ambiguous else "failed")

    def row(self, now: int) -> calls.NewCall:
        job, failure = self.job, self.failure
        return calls.NewCall(
            id=self.permit.id,
            job_id=job.id if job else None,
            stage=job.stage if job else None,
            attempt=job.attempt if job else None,
            provider=self.provider.name,
            started_at=self.started,
            duration_ms=max(0, now - self.started),
            outcome=self.outcome,
            status=failure.status if failure else None,
            error_class=failure.error_class if failure else None,
            cost_micros=self.cost.micros,
            units=batch.text(self.cost.units) if self.cost.units else None,
        )


Record = tuple[Report, int]
"""A call and when it ended."""


async def record(kernel: Kernel, report: Report) -> bool:
    """Write down what came of a call. False: its effect was somebody else's to mark.

    What the provider asked for is kept in the process before anything can fail. If the store is away, or whoever waits
    for it gives up, the record is kept too, and written with the next one or by `write_late`."""
    ended = kernel.now()
    _remember(kernel, report, ended)
    try:
        marked = await write_together(kernel, _record_all, (report, ended))
    except (StoreDown, asyncio.CancelledError):
        _keep_for_later(kernel, report, ended)
        raise
    seconds = (ended - report.started) / 1_000
    kernel.watch.observe("provider_seconds", seconds, provider=report.provider.name, outcome=report.outcome)
    return marked


async def write_late(kernel: Kernel) -> int:
    """Write the records that the store was away for; returns how many there were."""
    late = len(kernel.unrecorded)
    if late:
        await write_together(kernel, _record_all, None)  # behind the records that are under way, never beside them
    return late


def _remember(kernel: Kernel, report: Report, ended: int) -> None:
    asked_ms = _asked_ms(report)
    if asked_ms:
        name = report.provider.name
        kernel.asked[name] = max(kernel.asked.get(name, 0), ended + asked_ms)


def _leave_to_the_store(kernel: Kernel, report: Report, ended: int) -> None:
    """What is written counts from there alone, so that a person who ends the wait there ends it for every process."""
    name = report.provider.name
    if kernel.asked.get(name, 0) <= ended + _asked_ms(report):
        kernel.asked.pop(name, None)


def _keep_for_later(kernel: Kernel, report: Report, ended: int) -> None:
    """The ledger's entry is left out: whoever comes next resolves the doubt that is in it now."""
    kernel.unrecorded.append((report._replace(mark=None, refusal=None, answer=None), ended))
    del kernel.unrecorded[:-UNRECORDED_MAX]


async def _record_all(kernel: Kernel, given: Sequence[Record | None]) -> list[bool]:
    """Write these records, and with them what the store was away for, all in one commit; None adds nothing to them."""
    late, records = list(kernel.unrecorded), [record for record in given if record is not None]
    reports = [report for report, _ in records]
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        kept = [report.answer for report in reports if report.answer]
        if kept:
            await answers.put(tx, kept, now)
        entered = await _mark_effects(kernel, tx, reports, now)
        new_records = await _put_calls(
            tx, late, [record for record in records if record[0].permit.id not in entered.complete]
        )
        new_records += [record for record in records if record[0].permit.id in entered.complete]
        for name in sorted({report.provider.name for report, _ in new_records}):
            await _update_provider(
                kernel, tx, [record for record in new_records if record[0].provider.name == name], now
            )
        await kernel.failpoint("breaker.before_commit")
    written = {report.permit.id for report, _ in late}
    kernel.unrecorded[:] = [record for record in kernel.unrecorded if record[0].permit.id not in written]
    for report, ended in (*late, *records):
        _leave_to_the_store(kernel, report, ended)
    return [record is None or record[0].permit.id not in entered.refused for record in given]


async def _put_calls(tx: Tx, late: Sequence[Record], records: Sequence[Record]) -> list[Record]:
    """Write the calls; return those that were not written before. One that was tried before may be there already, by a
    commit whose answer was lost: then it teaches nothing again."""
    tried = {report.permit.id: (report, ended) for report, ended in late}
    tried |= {record[0].permit.id: record for record in records if record[0].is_again or record[0].permit.id in tried}
    fresh = [record for record in records if record[0].permit.id not in tried]
    new = await calls.put_again(tx, [report.row(ended) for report, ended in tried.values()]) if tried else set()
    if fresh:
        await calls.put(tx, [report.row(ended) for report, ended in fresh])
    return [*(record for permit_id, record in tried.items() if permit_id in new), *fresh]


class Entered(NamedTuple):
    """What came of entries in the ledger, by the permits of their calls."""

    complete: set[str]
    """The row has the whole call: there is nothing to write of it besides."""
    refused: set[str]
    """The row was not theirs to mark."""


async def _mark_effects(kernel: Kernel, tx: Tx, reports: Sequence[Report], now: int) -> Entered:
    """Make the ledger's entries."""
    entered = Entered(set(), set())
    marks = [(report.mark, report) for report in reports if report.mark]
    refusals = [report.refusal for report in reports if report.refusal]
    for part in _split_by_key(marks, lambda pair: pair[0].key):
        marked = await effects.mark(tx, [mark for mark, _ in part], now)
        for mark, report in part:
            if mark.key not in marked:
                entered.refused.add(report.permit.id)
                await _report_duplicate(kernel, tx, report.provider, mark, now)
            elif marked[mark.key] == report.permit.id:
                entered.complete.add(report.permit.id)
    for some in _split_by_key(refusals, lambda refusal: refusal.key):
        await effects.refuse(tx, some, now)
    return entered


def _split_by_key(entries: Iterable[T], key: Callable[[T], str]) -> list[list[T]]:
    """The entries in parts in which no key is twice: several jobs may share an effect."""
    parts: list[dict[str, T]] = []
    for entry in entries:
        part = next((part for part in parts if key(entry) not in part), None)
        if part is None:
            parts.append(part := {})
        part[key(entry)] = entry
    return [list(part.values()) for part in parts]


async def _report_duplicate(kernel: Kernel, tx: Tx, provider: Provider, mark: Mark, now: int) -> None:
    """Somebody else sent while we were paused, and so did we. Where no token made the two one, that is written down:
    it could not be prevented, so it must be seen."""
    row = await effects.lock(tx, mark.key)
    known = row.provider_id if row else mark.provider_id
    if known == mark.provider_id or (known is None and provider.effects == "token"):
        return
    data: dict[str, Any] = {"provider": provider.name, "ours": mark.provider_id, "theirs": known}
    await audit.write(tx, "kernel", "effect.duplicate", f"effect:{mark.key}", data, now)
    kernel.watch.log("effect.duplicate", key=redact_text(mark.key), **data)
    kernel.watch.count("effects_duplicated", provider=provider.name)


async def _update_provider(kernel: Kernel, tx: Tx, new_records: Sequence[Record], now: int) -> None:
    """Tell a provider's row what came of these calls: its breaker, its gate, its free places."""
    reports = [report for report, _ in new_records]
    provider = reports[0].provider
    asked_until = max((ended + _asked_ms(report) for report, ended in new_records if _asked_ms(report)), default=None)
    if provider.breaker is None and asked_until is None and provider.concurrency is None:
        return
    row = await providers.lock(tx, provider.name, now)
    if provider.concurrency is not None:
        await _give_places_back(kernel, tx, provider, row, reports, now)
    if asked_until is not None:
        await providers.set_not_before(tx, provider.name, asked_until)
    if provider.breaker is None:
        return
    state = row.state
    for report in reports:
        permit, failure = report.permit, report.failure
        if failure is None or failure.faults:
            state = breaker.record(state, provider.breaker, now, permit.generation, permit.id, failure is None)
        else:
            state = breaker.release(state, permit.generation, permit.id)
    await providers.swap(tx, provider.name, row.state, state, now)
    kernel.gates[provider.name] = state.gate
    if state.gate is not row.state.gate:
        await tx.notify("breakers")
        kernel.watch.count("breaker_changes", provider=provider.name, gate=state.gate)
        kernel.watch.log("breaker", provider=provider.name, breaker_state=state.gate, reason=state.reason)


def _asked_ms(report: Report) -> int:
    """For how long the provider asked not to be called; one of many hosts speaks for itself only."""
    failure = report.failure
    if failure is None or report.provider.many_hosts or not asks_to_wait(failure):
        return 0
    return report.provider.asked_ms(failure.retry_after_ms or 0)


async def _give_places_back(
    kernel: Kernel, tx: Tx, provider: Provider, row: ProviderRow, reports: Sequence[Report], now: int
) -> None:
    """The places go to whoever waits longest for one. What this misses, `hold_once` sees."""
    free = row.places
    for report in reports:
        free = rate.give_place_back(free, now, report.permit.id)
    await providers.set_places(tx, provider.name, free)
    if row.state.gate is Gate.CLOSED:
        floor = kernel.floors.parked_since(provider.name)
        for queue in sorted(await jobs.unpark(tx, provider.name, len(reports), now, floor)):
            await tx.notify(f"queue:{queue}")
