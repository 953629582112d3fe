"""The demo's account: what every system accepted against what became of it, and the audit of every database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from holdfast.core.job import TERMINAL
from holdfast.kernel.kernel import Kernel
from holdfast.playground.demo_stage import DemoStanding
from holdfast.system import OpenSystem
from holdfast.tables import cases, effects, jobs, outbox


@dataclass(frozen=True)
class AccountRow:
    """One system's account. `accepted` is what its callers hold a promise of."""

    system: str
    accepted: int
    done: int
    with_a_person: int
    jobs: int
    jobs_unfinished: int
    dead_letters_open: int
    messages_pending: int
    effects_sent: int
    findings: tuple[str, ...]

    @property
    def adds_up(self) -> bool:
        whole = self.accepted == self.done + self.with_a_person
        left = self.jobs_unfinished + self.dead_letters_open + self.messages_pending
        return whole and left == 0 and not self.findings


@dataclass(frozen=True)
class Account:
    rows: tuple[AccountRow, ...]
    seconds: float

    @property
    def adds_up(self) -> bool:
        return all(row.adds_up for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        systems = [{**asdict(row), "adds_up": row.adds_up} for row in self.rows]
        return {"accounted": self.adds_up, "seconds": round(self.seconds, 1), "systems": systems}


async def account(one: OpenSystem, standings: Sequence[DemoStanding]) -> AccountRow:
    """What became of what a system accepted, and what the audit of its database finds."""
    from holdfast.operator.audit import audit

    async with one.kernel.store.reading() as tx:
        stored = await jobs.page(tx, limit=1_000)
        letters = await cases.page(tx, limit=1_000)
        counted = await effects.count(tx)
        pending = (await outbox.lag(tx)).pending
    return AccountRow(
        system=one.name,
        accepted=len(standings),
        done=standings.count(DemoStanding.DONE),
        with_a_person=standings.count(DemoStanding.WITH_A_PERSON),
        jobs=len(stored),
        jobs_unfinished=sum(row.state not in TERMINAL for row in stored),
        dead_letters_open=sum(row.state != "resolved" for row in letters),
        messages_pending=pending,
        effects_sent=sum(row.effects for row in counted if row.status == "sent"),
        findings=tuple(str(finding) for finding in await audit(one.kernel)),
    )


async def no_message_pending(kernel: Kernel) -> bool:
    async with kernel.store.reading() as tx:
        return bool((await outbox.lag(tx)).pending == 0)


def show(made: Account, console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = ("system", "accepted", "done", "waiting", "jobs", "live", "dead", "effects", "audit")
    for column in columns:
        table.add_column(column, justify="left" if column in ("system", "audit") else "right", no_wrap=True)
    for row in made.rows:
        numbers = (row.accepted, row.done, row.with_a_person, row.jobs, row.jobs_unfinished, row.dead_letters_open)
        verdict = "[red]broken[/]" if row.findings else "[green]kept[/]"
        table.add_row(row.system, *map(str, numbers), str(row.effects_sent), verdict)
    console.print(table)
    for row in made.rows:
        for finding in row.findings:
            console.print(f"{row.system}: {finding}", markup=False)
    verdict = "[green]Everything accepted is accounted for[/]" if made.adds_up else "[red]Something is missing[/]"
    console.print(f"\n{verdict}, in {made.seconds:.0f} seconds.", highlight=False)
