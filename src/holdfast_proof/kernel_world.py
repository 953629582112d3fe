"""The kernel's world: workers, keepers, relays and consumers of the production kernel, a client that submits (and
submits again), an operator who works the dead letters in the middle of it all, and a desk that calls back."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from holdfast.engines.run import Duties, run
from holdfast.errors import IdempotencyConflict, StoreError, TransportDown, UsageError
from holdfast.kernel import operate
from holdfast.kernel.app import Job
from holdfast.kernel.context import Context
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.ledger.verify import verify_once
from holdfast.kernel.loop import repeat
from holdfast.kernel.submit import JobToEnqueue as Enqueued
from holdfast.kernel.submit import prepare, submit, submit_orders
from holdfast.kernel.upkeep.schedule import announce_schedules, schedule_once
from holdfast.operator.finding import Violation
from holdfast.tables import cases
from holdfast_proof import workload
from holdfast_proof.coverage import Coverage, edges_but
from holdfast_proof.history import AcceptedJob, RunHistory
from holdfast_proof.kernel_checks import (
    SEEN,
    check_effects_of_jobs,
    check_messages_of_stages,
    check_notices,
    check_paid,
    tally,
)
from holdfast_proof.operator import Operator
from holdfast_proof.provider_stub import ProviderFaults
from holdfast_proof.workload import (
    Digest,
    Essay,
    Hasty,
    Letter,
    Moody,
    Notice,
    Order,
    Parcel,
    Poison,
    Question,
    Summary,
    transient,
)
from holdfast_proof.world import CANARY, SimWorld

COMMON: tuple[type[Job[Any]], ...] = (Digest, Letter, Parcel, Notice, Summary, Hasty, Question, Moody)
# What a burst's provider suffers from: down, asking for patience, or now this and now that.
DOWN, LIMITED, MIXED = {"error_before": 0.65}, {"limited": 0.65}, {"limited": 0.25, "silent": 0.2, "error_after": 0.15}
OUTAGES: dict[type[Job[Any]], tuple[str, dict[str, float]]] = {
    Summary: ("llm", DOWN),
    Letter: ("mail.lookup", DOWN),
    Digest: ("oracle", LIMITED),
    Parcel: ("mail.neither", DOWN),
    Notice: ("mail.token", MIXED),
}
REPLAYS_MAX = 2
OPERATOR_RESTS_AFTER_MS = 180_000


@dataclass(slots=True)
class KernelWish:
    """One submission of the client, which remembers it until it is told that it is accepted."""

    at_ms: int
    job: type[Job[Any]]
    order: Order
    key: str | None
    options: dict[str, Any] = field(default_factory=dict)
    made: Enqueued | None = None
    done: bool = False


class KernelWorld(SimWorld):
    system = "kernel"
    databases = {"main": [workload.app]}  # noqa: RUF012
    stubs = workload.STUBS
    watched = {"main": workload.TOLD_CONSUMED}  # noqa: RUF012
    # The table allows more edges, which the kernel's verbs never take, or no honest provider here brings about.
    coverage = Coverage(edges=edges_but("waiting -> succeeded", "succeeded -> dead"), seen=SEEN, seeds=150)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.wishes = self._wishes()
        self._failed: dict[tuple[str, str], int] = {}
        self._seen: set[tuple[str, str]] = set()
        self._person = Operator(self.dice, replays_max=REPLAYS_MAX)

    def cast(self) -> None:
        workers = self.dice.randint(1, 3)
        if self.dice.random() < 0.2:
            for number in range(workers):
                self.role(f"all-{number}", _duties(Duties(concurrency=5, grace_s=5)))
        else:
            for number in range(workers):
                work = Duties(relay=False, consume=False, keep=False, concurrency=5, grace_s=5)
                self.role(f"worker-{number}", _duties(work))
            for number in range(self.dice.choice((1, 1, 2))):
                self.role(f"keeper-{number}", _duties(Duties(work=False, relay=False, consume=False)))
            for number in range(self.dice.choice((1, 1, 2))):
                self.role(f"relay-{number}", _duties(Duties(work=False, consume=False, keep=False)))
            self.role("consumer", _duties(Duties(work=False, relay=False, keep=False)))
        self.role("client", self.client)
        self.role("operator", self.operator)
        if self.dice.random() < 0.3:
            self.role("clock", self.clock)
        if self.loop.stream("sampling").random() < 0.12:  # of a stream of its own: a seed without it is the seed it was
            self.role("verifier", self.verifier)

    def is_quiet(self) -> bool:
        return all(wish.done for wish in self.wishes) and self.mostly_quiet()

    def judge(self, history: RunHistory) -> list[Violation]:
        checks = (check_messages_of_stages, check_effects_of_jobs, check_notices, check_paid)
        return [finding for check in checks for finding in check(history)]

    def tally(self, history: RunHistory) -> dict[str, int]:
        return tally(history)

    # The client

    def _wishes(self) -> list[KernelWish]:
        dice = self.loop.stream("wishes")
        kinds = dice.sample(COMMON, dice.randint(3, len(COMMON)))
        wishes = [self._wish(dice, number, kinds) for number in range(dice.randint(3, 7))]
        if dice.random() < 0.35:
            for number in range(3):
                hurry = {"deadline_s": dice.uniform(0.5, 5)}
                wishes.append(KernelWish(dice.randint(0, 90_000), Hasty, Order(f"hasty-{number}"), None, hurry))
        if dice.random() < 0.4:
            wishes += self._burst(dice)
        if dice.random() < 0.3:
            wishes.append(KernelWish(dice.randint(0, 30_000), Poison, Order("poison"), "poison"))
        for wish in list(wishes):
            if wish.key is not None and dice.random() < 0.35:
                order = wish.order if dice.random() < 0.7 else Order("another")
                wishes.append(KernelWish(wish.at_ms + dice.randint(0, 20_000), wish.job, order, wish.key, wish.options))
        wishes += self._essays(self.loop.stream("essays"))
        return sorted(wishes, key=lambda wish: wish.at_ms)

    def _essays(self, dice: Random) -> list[KernelWish]:
        """Work that costs money. By dice of its own: what else happens does not depend on it."""
        if dice.random() < 0.5:
            return []
        amount = dice.randint(1, 3)
        return [
            KernelWish(dice.randint(0, 60_000), Essay, Order(f"essay-{n}", dice.randint(0, 2)), None)
            for n in range(amount)
        ]

    def _burst(self, dice: Random) -> list[KernelWish]:
        """Many of one kind at once, often while their provider is down: what breakers and batches are for."""
        burst = dice.choice((Summary, Letter, Parcel, Digest, Notice, Hasty, Hasty))
        at_ms = dice.randint(0, 60_000)
        if burst in OUTAGES and dice.random() < 0.6:
            provider, rates = OUTAGES[burst]
            slow_ms = dice.choice((100, 3_000))
            self.swarm.providers[provider] = ProviderFaults(**rates, late_ms_max=20_000, latency_ms_max=slow_ms)  # type: ignore[arg-type]
        wishes = []
        for number in range(dice.randint(5, 8)):
            options = {"deadline_s": dice.uniform(1, 8)} if burst is Hasty else {}
            order = Order(f"burst-{number}", group=f"burst-{number // 2}" if burst is Notice else "")
            wishes.append(KernelWish(at_ms + dice.randint(0, 40_000), burst, order, None, options))
        return wishes

    def _wish(self, dice: Any, number: int, kinds: list[type[Job[Any]]]) -> KernelWish:
        job = dice.choice(kinds)
        group = dice.choice(("a", "b")) if job is Notice else dice.choice(("", "", "discard"))
        order = Order(f"order-{number}", dice.choice((0, 0, 1, 2, 2, 5)), group, CANARY)
        options: dict[str, Any] = {"priority": dice.choice((0, 1, 2, 3, None))}
        if dice.random() < 0.2:
            delay_s = dice.uniform(0, 40)  # of a hasty one it ends just before the deadline, which comes first
            options["delay_s"] = min(delay_s, 7.9) if job is Hasty else delay_s
        key = f"key-{number}" if dice.random() < 0.7 else None
        return KernelWish(dice.randint(0, int(self.swarm.faults_s * 700)), job, order, key, options)

    async def client(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """Submit what is due, again and again until it is accepted. An error may have been a success: ask."""
        while not stop.is_set():
            due = [w for w in self.wishes if not w.done and w.at_ms <= self.loop.now_ms]
            if due:
                await asyncio.gather(*[self._submit(kernel, wish) for wish in due])
            upcoming = [w.at_ms for w in self.wishes if not w.done]
            wait_ms = max(1_000, min(upcoming, default=self.loop.now_ms + 600_000) - self.loop.now_ms)
            await asyncio.sleep(wait_ms / 1_000)

    async def _submit(self, kernel: Kernel, wish: KernelWish) -> None:
        kind = wish.job.__holdfast__
        payload = kind.dump_input(wish.order)
        job: str | None
        try:
            if wish.key is not None:
                job = await submit(kernel, wish.job, wish.order, key=wish.key, **wish.options)
            else:
                if wish.made is None:
                    made_at = kernel.now()
                    wish.made = prepare(kind, wish.order, job_id=kernel.new_id(), now=made_at, **wish.options)
                job = (await submit_orders(kernel, [wish.made]))[0]
        except IdempotencyConflict:
            job = None
        except StoreError:
            return
        self.accepted.append(AcceptedJob(self.loop.now_ms, kind.name, wish.key, payload, job))
        wish.done = True

    async def clock(self, kernel: Kernel, stop: asyncio.Event) -> None:
        kernel.registry = Registry([workload.app, workload.clock])

        async def step(kernel: Kernel) -> int:
            if not self.is_healing:  # the end must come
                await announce_schedules(kernel)
                await schedule_once(kernel)
            return 0

        await repeat(kernel, "schedule", step, 45, stop)

    async def verifier(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """The keeper's sample, of providers that know their ids: it may take back nothing that was done."""
        kernel.registry = Registry([workload.app])
        for provider in (workload.by_token, workload.by_lookup):
            stub = self.providers[provider.name]
            kernel.registry.providers[provider.name] = replace(provider, has_id=stub.has_id)

        async def step(kernel: Kernel) -> int:
            await verify_once(kernel)
            return 0

        await repeat(kernel, "verify", step, 20, stop)

    # The operator

    async def operator(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """Triage, mend, replay (twice, as an impatient finger does), cancel, and answer what only a person can."""
        while not stop.is_set():
            await asyncio.sleep(self.dice.uniform(10, 60))
            if self.healed_ms is not None and self.loop.now_ms > self.healed_ms + OPERATOR_RESTS_AFTER_MS:
                await asyncio.sleep(600)
                continue
            try:
                await self._work_cases(kernel)
                await self._answer_doubts(kernel)
                if not self.is_healing:
                    await self._cancel_one(kernel)
            except (StoreError, UsageError):
                continue

    async def _work_cases(self, kernel: Kernel) -> None:
        async with kernel.store.reading() as tx:
            letters = await cases.page(tx, limit=20)
        await self._person.work_cases(kernel, [(letter.id, letter.job_id, letter.state) for letter in letters])

    async def _answer_doubts(self, kernel: Kernel) -> None:
        rows = self.query("SELECT key, token, provider FROM holdfast_effects WHERE status = 'review' ORDER BY key")
        over = self.healed_ms is not None and self.loop.now_ms > self.healed_ms + 170_000
        await self._person.answer_doubts(kernel, rows, self.done_by, self.is_unsent if over else None)

    async def _cancel_one(self, kernel: Kernel) -> None:
        """One that waits for an answer rather than any other: such are rare."""
        live = self.query("SELECT id, state FROM holdfast_jobs WHERE state IN ('queued', 'processing', 'waiting')")
        waiting = sorted(row["id"] for row in live if row["state"] == "waiting")
        if waiting and self.dice.random() < 0.2:
            await operate.cancel(kernel, self.dice.choice(waiting), "operator")
        elif live and self.dice.random() < 0.05:
            await operate.cancel(kernel, self.dice.choice(sorted(row["id"] for row in live)), "operator")

    # What handlers ask for

    def maybe_fail(self, ctx: Context, fails: int) -> None:
        key = (ctx.job_id, ctx.stage)
        if self._failed.get(key, 0) < fails:
            self._failed[key] = self._failed.get(key, 0) + 1
            raise transient(f"flaky, as ordered, with {CANARY}")

    def first_time(self, ctx: Context, what: str) -> bool:
        new = (ctx.job_id, what) not in self._seen
        self._seen.add((ctx.job_id, what))
        return new

    def ask_desk(self, key: str) -> None:
        """Somebody outside answers: soon, at once, too late, twice, or never."""
        for delay_ms, message_id in self._answers(key):
            self.loop.world.after_ms(delay_ms, self._call_back, key, message_id)

    def _answers(self, key: str) -> list[tuple[int, str]]:
        dice, count = self.dice, sum(1 for event in self.broker.log if event.queue == workload.CALLBACKS.name)
        first = (dice.choice((0, 2, dice.randint(500, 30_000), dice.randint(50_000, 100_000))), f"{key}/{count}")
        roll = dice.random()
        if roll < 0.1:
            return []
        if roll < 0.5:
            return [first]
        again = first[0] + dice.randint(0, 20_000)
        return [first, (again, first[1] if roll < 0.8 else f"{key}/{count}/other")]

    def _call_back(self, key: str, message_id: str) -> None:
        self.loop.world.spawn(self._publish_answer(key, message_id), name=f"desk-{key}")

    async def _publish_answer(self, key: str, message_id: str) -> None:
        body = json.dumps({"key": key, "answer": "forty-two", "at_ms": self.loop.now_ms}).encode()
        while True:
            try:
                async with asyncio.timeout(5):
                    await self.broker.publish(workload.CALLBACKS.name, message_id, body, {})
                return
            except (TransportDown, TimeoutError):
                await asyncio.sleep(2)


def _duties(duties: Duties) -> Any:
    async def main(kernel: Kernel, stop: asyncio.Event) -> None:
        await run(kernel, duties, stop)

    return main
