"""What goes wrong in one seed, and when. Each seed switches a random subset on: a fault that is always there hides
what another one would show.

A host dies or stalls at a named failpoint, at any step of its tasks, or at any moment; it is asked to stop and started
again; the database is busy, away, or loses the answer of a commit; clocks differ; the broker restarts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from holdfast.kernel.failpoint import NAMES
from holdfast_proof.broker import Broker, Faults
from holdfast_proof.history import Stall
from holdfast_proof.hosts import Host
from holdfast_proof.loop import SimLoop
from holdfast_proof.provider_stub import ProviderFaults
from holdfast_proof.store import StoreFaults

HOST_FAULTS = ("kill", "stall", "terminate", "failpoint_kill", "failpoint_stall", "step_kill", "step_stall")
STORE_FAULTS = ("store_down", "store_busy", "answer_lost", "hint_lost")
FAULT_KINDS = frozenset((*HOST_FAULTS, *STORE_FAULTS, "clock_skew", "broker_restart"))
ILLNESSES = ("unreachable", "limited", "refused", "error_before", "error_after", "silent")
STALL_MS_MAX = 200_000
IN_TRANSACTION_STALL_MS_MAX = 8_000
STEPS_BETWEEN = 900
# A few places where this seed's hosts die or stall again and again: rare interactions need the same place twice.
FAVOURITES = 2
FAVOURITE_CHANCE = 0.15


@dataclass(frozen=True, slots=True)
class Swarm:
    """Which faults this seed has, and how often."""

    on: frozenset[str]
    faults_s: int
    failpoint: float
    every_s: float
    favourites: frozenset[str] = frozenset()
    skews_ms: tuple[int, ...] = (0,)
    store: StoreFaults = field(default_factory=StoreFaults)
    broker: Faults = field(default_factory=Faults)
    providers: dict[str, ProviderFaults] = field(default_factory=dict)


def draw_swarm(dice: Random, providers: tuple[str, ...]) -> Swarm:
    """A random subset of all faults, each with a random rate."""
    on = frozenset(kind for kind in sorted(FAULT_KINDS) if dice.random() < 0.5)
    skew = dice.choice((500, 2_000, 5_000)) if "clock_skew" in on else 0
    store = StoreFaults(
        busy=dice.choice((0.01, 0.05)) if "store_busy" in on else 0.0,
        answer_lost=dice.choice((0.005, 0.03)) if "answer_lost" in on else 0.0,
        hint_lost=dice.choice((0.2, 1.0)) if "hint_lost" in on else 0.0,
    )
    return Swarm(
        on=on,
        faults_s=dice.randint(80, 1_100),
        failpoint=dice.choice((0.005, 0.02, 0.06)),
        every_s=dice.choice((20.0, 60.0, 120.0)),
        favourites=frozenset(dice.sample(sorted(NAMES), FAVOURITES)),
        skews_ms=tuple(dice.randint(-skew, skew) for _ in range(8)),
        store=store,
        broker=draw_broker(dice),
        providers={name: draw_provider(dice) for name in providers},
    )


def draw_broker(dice: Random) -> Faults:
    def maybe(rate: float) -> float:
        return rate if dice.random() < 0.5 else 0.0

    return Faults(
        refused=maybe(0.1),
        confirm_lost=maybe(0.15),
        confirm_never=maybe(0.1),
        duplicate=maybe(0.3),
        delayed=maybe(0.2),
        reordered=maybe(0.3),
        connection_lost=maybe(0.1),
        ack_lost=maybe(0.2),
    )


def draw_provider(dice: Random) -> ProviderFaults:
    """A provider has one bad day in two, and is ill in one or two ways at a time."""
    if dice.random() < 0.3:
        return ProviderFaults(latency_ms_max=dice.choice((200, 3_000)))
    ways = dice.sample(
        ("unreachable", "limited", "refused", "error_before", "error_after", "silent"), dice.randint(1, 3)
    )
    rates = {way: dice.choice((0.1, 0.3, 0.5)) / len(ways) for way in ways}
    if "refused" in rates:
        rates["refused"] /= 3
    return ProviderFaults(
        **rates, retry_after_s_max=60, late_ms_max=20_000, latency_ms_max=dice.choice((100, 1_000, 6_000))
    )


class Chaos:
    """Carries a swarm out on the living hosts, until `calm`."""

    def __init__(self, loop: SimLoop, swarm: Swarm, broker: Broker, dice: Random) -> None:
        self.loop = loop
        self.swarm = swarm
        self.dice = dice
        self.broker = broker
        self.on = False
        self.visits: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.stalls: list[Stall] = []
        self._next_step = 0

    def begin(self) -> None:
        self.on = True
        if self.swarm.on & {"step_kill", "step_stall"}:
            self._next_step = self.dice.randint(1, STEPS_BETWEEN)
            self.loop.on_step = self._at_step

    def calm(self) -> None:
        self.on = False
        self.loop.on_step = None

    async def failpoint(self, name: str) -> None:
        """Bound to `kernel.failpoint`: the named place where this host may die or stand still."""
        self.visits[name] += 1
        chance = FAVOURITE_CHANCE if name in self.swarm.favourites else self.swarm.failpoint
        if not self.on or self.dice.random() >= chance:
            return
        if "failpoint_kill" in self.swarm.on and self.dice.random() < 0.5:
            self.done["failpoint_kill"] += 1
            await self.loop.die()
        if "failpoint_stall" in self.swarm.on:
            self.done["failpoint_stall"] += 1
            self._note_stall(self.loop.current, self._stall_ms("before_commit" in name))
            await asyncio.sleep(0)

    async def trouble(self, store: StoreFaults, terminate: Callable[[Host], object]) -> None:
        """Timed faults, one after another, until the faults are over."""
        kinds = sorted(self.swarm.on & {"kill", "stall", "terminate", "store_down", "broker_restart"})
        while kinds and self.on:
            await asyncio.sleep(self.dice.expovariate(1 / self.swarm.every_s))
            kind = self.dice.choice(kinds)
            if not self.on:
                return
            self.done[kind] += 1
            if kind == "store_down":
                store.down_until_ms = self.loop.now_ms + self.dice.randint(500, 15_000)
            elif kind == "broker_restart":
                self.broker.restart(self.dice.randint(500, 15_000))
            else:
                self._trouble_host(kind, terminate)

    def _trouble_host(self, kind: str, terminate: Callable[[Host], object]) -> None:
        hosts = self.loop.hosts
        if not hosts:
            return
        host = self.dice.choice(hosts)
        if kind == "kill":
            host.kill()
        elif kind == "stall":
            self._note_stall(host, self._stall_ms(False))
        else:
            terminate(host)

    def _at_step(self, host: Host) -> None:
        self._next_step -= 1
        if self._next_step > 0:
            return
        self._next_step = self.dice.randint(1, STEPS_BETWEEN)
        if "step_kill" in self.swarm.on and self.dice.random() < 0.5:
            self.done["step_kill"] += 1
            host.kill()
        elif "step_stall" in self.swarm.on:
            self.done["step_stall"] += 1
            self._note_stall(host, self._stall_ms(False))

    def _stall_ms(self, in_transaction: bool) -> int:
        longest = IN_TRANSACTION_STALL_MS_MAX if in_transaction else self.dice.choice((5_000, 20_000, STALL_MS_MAX))
        return self.dice.randint(50, longest)

    def _note_stall(self, host: Host, stall_ms: int) -> None:
        self.stalls.append(Stall(host.label, self.loop.now_ms, self.loop.now_ms + stall_ms))
        host.stall(stall_ms)
