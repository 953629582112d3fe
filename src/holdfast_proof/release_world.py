"""A fleet between two releases: workers are stopped, killed and started again as older or newer code, in the middle of
jobs that either release has submitted. After the faults both releases are there, and everything must end well."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.engines.run import Duties, run
from holdfast.errors import StoreError
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.kinds import JobKind, declared_key
from holdfast.kernel.submit import JobToEnqueue as Enqueued
from holdfast.kernel.submit import prepare, submit_orders
from holdfast.operator.finding import Violation
from holdfast_proof import releases
from holdfast_proof.chaos import FAULT_KINDS
from holdfast_proof.coverage import PROVIDER_FAULTS, Coverage
from holdfast_proof.history import AcceptedJob, JobChange, RunHistory
from holdfast_proof.hosts import Host
from holdfast_proof.provider_stub import Dedup, ProviderStub
from holdfast_proof.releases import RELEASES, STUBS, Price, ReleaseOrder
from holdfast_proof.world import Role, SimWorld

REGISTRIES = {name: Registry([app]) for name, app in RELEASES.items()}
DECLARED = {
    name: {key for kind in registry.kinds.values() for key in kind.declares()} for name, registry in REGISTRIES.items()
}
_STANDING = "SELECT kind, stage, version FROM holdfast_jobs WHERE state = 'queued'"
COVERAGE = Coverage(
    failpoints=frozenset({"claim.after_commit", "settle.before_commit", "settle.after_commit", "reap.before_commit"}),
    faults=(FAULT_KINDS | PROVIDER_FAULTS) - {"broker_restart", "refused"},
    edges=frozenset({"queued -> processing", "processing -> queued", "processing -> succeeded"}),
    seen=frozenset(
        {
            "a worker became another release",
            "a job that no running worker declares",
            "a job that both releases worked on",
            "a job that went back for a stage",
            "an input of the older version in newer code",
        }
    ),
    seeds=80,
)


@dataclass(slots=True)
class ReleaseWish:
    """One submission of a client of one release."""

    at_ms: int
    release: str
    kind: str
    made: Enqueued | None = None
    done: bool = False


class ReleaseWorld(SimWorld):
    system = "releases"
    databases = {"main": [releases.v2]}  # noqa: RUF012
    stubs = STUBS
    coverage = COVERAGE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.release_of: dict[str, str] = {}
        """Which release a process is started as, by the name of its role."""
        self.ran: dict[str, str] = {}
        """Which release a process was, by its label."""
        self.seen: Counter[str] = Counter()
        self.wishes = self._wishes()
        # A job that the provider refuses for good dies of that, and hides what a deploy would do to it.
        self.swarm.providers["mail"] = replace(self.swarm.providers["mail"], refused=0.0)

    def cast(self) -> None:
        for number in range(self.dice.randint(2, 4)):
            self._process(f"worker-{number}", Duties(relay=False, consume=False, keep=False, concurrency=5, grace_s=5))
        self._process("keeper", Duties(work=False, relay=False, consume=False))
        for release in RELEASES:
            self.role(f"client-{release}", self.client)
            self.release_of[f"client-{release}"] = release
        self.loop.world.spawn(self._deploy(), name="deployer")

    def _process(self, name: str, duties: Duties) -> None:
        async def main(kernel: Kernel, stop: asyncio.Event) -> None:
            await run(kernel, duties, stop)

        self.role(name, main)
        self.release_of[name] = self.dice.choice(sorted(RELEASES))

    def kernel(self, host: Host, database: str) -> Kernel:
        kernel = super().kernel(host, database)
        self.ran[host.label] = release = self.release_of.get(host.name, "v2")
        kernel.registry = REGISTRIES[release]
        return kernel

    def stub(self, name: str, dedup: Dedup) -> ProviderStub:
        stub = super().stub(name, dedup)
        stub.retention_ms = int(releases.RETENTION_S * 1_000)
        return stub

    # The client

    def _wishes(self) -> list[ReleaseWish]:
        dice = self.loop.stream("wishes")
        wishes = []
        for _ in range(dice.randint(6, 16)):
            release = dice.choice(sorted(RELEASES))
            kind = dice.choice(sorted(RELEASES[release].kinds))
            wishes.append(ReleaseWish(dice.randint(0, int(self.swarm.faults_s * 900)), release, kind))
        return wishes

    async def client(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """Submit what is due until it is accepted; an error may have been a success, so that the id stays."""
        while not stop.is_set():
            await asyncio.sleep(2)
            mine = [wish for wish in self.wishes if REGISTRIES[wish.release] is kernel.registry and not wish.done]
            for wish in mine:
                if wish.at_ms <= self.loop.now_ms:
                    await self._submit(kernel, wish)

    async def _submit(self, kernel: Kernel, wish: ReleaseWish) -> None:
        kind = kernel.registry.kinds[wish.kind]
        value = Price(7) if kind.version == 2 else ReleaseOrder("seven")
        if wish.made is None:
            wish.made = prepare(kind, value, job_id=kernel.new_id(), now=kernel.now())
        try:
            (job,) = await submit_orders(kernel, [wish.made])
        except StoreError:
            return
        self.accepted.append(AcceptedJob(self.loop.now_ms, wish.kind, None, kind.dump_input(value), job))
        wish.done = True

    # The deployer

    async def _deploy(self) -> None:
        """Now and then a process becomes the other release: asked to stop, or gone from one moment to the next."""
        while not self.is_healing:
            await asyncio.sleep(self.dice.uniform(10, 120))
            role = self.dice.choice([role for role in self.roles if not role.name.startswith("client")])
            if not self.is_healing:
                self._become(role, "v2" if self.release_of[role.name] == "v1" else "v1")
                self.seen["a job that no running worker declares"] += self._undeclared()

    def _become(self, role: Role, release: str) -> None:
        if self.release_of[role.name] == release:
            return
        self.release_of[role.name] = release
        self.seen["a worker became another release"] += 1
        if role.host is not None and self.dice.random() < 0.3:
            role.host.kill()
        else:
            role.stop.set()

    def _undeclared(self) -> int:
        running = {release for name, release in self.release_of.items() if name.startswith("worker")}
        declared = set().union(*(DECLARED[release] for release in running))
        return sum(declared_key(*row) not in declared for row in map(tuple, self.query(_STANDING)))

    def _heal(self) -> None:
        super()._heal()
        first, second, *_ = [role for role in self.roles if role.name.startswith("worker")]
        self._become(first, "v1")
        self._become(second, "v2")

    def is_quiet(self) -> bool:
        return all(wish.done for wish in self.wishes) and self.mostly_quiet()

    # Its history

    def history(self) -> RunHistory:
        told = super().history()
        return replace(told, kinds=merged_kinds(), ordered=False)

    def judge(self, history: RunHistory) -> list[Violation]:
        checks = (self._check_claims, self._check_stages, self._check_deaths)
        return [finding for check in checks for finding in check(history)]

    def _check_claims(self, history: RunHistory) -> Iterator[Violation]:
        """S24: who claims a job declares its kind, its stage and the version of its input."""
        versions = {wish.made.id: wish.made.row.version for wish in self.wishes if wish.made is not None}
        for change in history.all_changes():
            kind, release = history.kind_of(change.job).name, self.ran[change.host]
            key = declared_key(kind, change.stage, versions[change.job])
            if change.event == "claimed" and key not in DECLARED[release]:
                yield Violation(
                    "S24", f"{change.host} is {release}, and claimed job {change.job} at '{key}'.", change.job
                )

    def _check_stages(self, history: RunHistory) -> Iterator[Violation]:
        """S24: nothing is done twice, under whatever name, and a job that succeeded has done all that the release that
        ended it declares."""
        for job, changes in history.changes.items():
            done: list[str] = []
            for change in changes:
                if change.event not in ("advanced", "succeeded"):
                    continue
                kind = REGISTRIES[self.ran[change.host]].kinds[history.kind_of(job).name]
                name = kind.by_name[change.old_stage].name
                again = ALIASES.get(name, {name}) & set(done)
                if again:
                    yield Violation("S24", f"Job {job} did '{name}' although '{min(again)}' was done.", job)
                done.append(name)
                if change.event == "succeeded":
                    yield from _left_out(change, kind, done)

    def _check_deaths(self, history: RunHistory) -> Iterator[Violation]:
        """S24: nobody dies of a deploy. (Whoever loses its worker again and again may still be taken for poison.)"""
        for change in history.all_changes():
            if change.state == "dead" and change.note.get("reason") != "poison":
                why = change.note.get("error_class")
                yield Violation(
                    "S24", f"Job {change.job} died of {why} in '{change.old_stage}', by {change.host}.", change.job
                )

    def tally(self, history: RunHistory) -> Mapping[str, int]:
        changes = list(history.all_changes())
        claims = {(change.job, self.ran[change.host]) for change in changes if change.event == "claimed"}
        olds = {wish.made.id for wish in self.wishes if wish.made is not None and wish.release == "v1"}
        priced = {job for job in olds & set(history.born) if history.kind_of(job).name == "shop.versioned"}
        return {
            **self.seen,
            "a job that both releases worked on": len(claims) - len({job for job, _ in claims}),
            "a job that went back for a stage": sum(change.event == "rewound" for change in changes),
            "an input of the older version in newer code": sum((job, "v2") in claims for job in priced),
        }


ALIASES = {
    "bill": {"bill", "invoice"},
    "invoice": {"bill", "invoice"},
    "make": {"make", "cut", "sew"},
    "cut": {"make", "cut"},
    "sew": {"make", "sew"},
}
"""What is the same work, by the name of a stage of either release."""


def merged_kinds() -> dict[str, JobKind]:
    """The newer release's kinds, with the stages of the older one under their names."""
    first, second = REGISTRIES["v1"].kinds, REGISTRIES["v2"].kinds
    return {
        name: replace(kind, by_name={**first[name].by_name, **kind.by_name} if name in first else kind.by_name)
        for name, kind in second.items()
    }


def _left_out(change: JobChange, kind: JobKind, done: list[str]) -> Iterator[Violation]:
    for stage in kind.stages:
        if not ALIASES.get(stage.name, {stage.name}) & set(done):
            text = f"Job {change.job} succeeded, by {change.host}, without '{stage.name}'."
            yield Violation("S24", text, change.job)
