"""What came of a seed, and of many: findings, counts, and whether the harness itself did its work."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.operator.finding import Violation
from holdfast_proof.coverage import BROKER_FAULTS, PROVIDER_FAULTS, Coverage
from holdfast_proof.history import RunHistory

if TYPE_CHECKING:
    from holdfast_proof.world import SimWorld

FINDINGS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class SeedReport:
    """One seed: what it broke, the hash of its history, and what happened in it."""

    seed: int
    system: str
    findings: list[Violation]
    hash: str
    counts: Counter[str]
    timelines: dict[str, list[str]] = field(default_factory=dict)
    cpu_s: float = 0.0

    @property
    def command(self) -> str:
        return f"holdfast simulate --seeds 1 --first-seed {self.seed} --system {self.system}"

    def text(self) -> str:
        """For a person: every finding, how to see it again, and the story of the job concerned."""
        lines = [f"Seed {self.seed} of {self.system} breaks {len(self.findings)} promise(s); again with:"]
        lines += [f"  {self.command}", *(f"  {finding}" for finding in self.findings[:FINDINGS_SHOWN])]
        for job, story in self.timelines.items():
            lines += [f"  job {job}:", *(f"    {line}" for line in story)]
        return "\n".join(lines)


@dataclass(slots=True)
class Totals:
    """Many seeds, added up."""

    system: str = "kernel"
    coverage: Coverage = field(default_factory=Coverage)
    seeds: int = 0
    cpu_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failed: list[SeedReport] = field(default_factory=list)

    def add(self, report: SeedReport) -> None:
        self.seeds += 1
        self.cpu_s += report.cpu_s
        self.counts += report.counts
        if report.findings:
            self.failed.append(report)

    @property
    def violations(self) -> int:
        return sum(len(report.findings) for report in self.failed)

    @property
    def simulated_s(self) -> float:
        return self.counts["simulated_ms"] / 1_000

    def seen(self, prefix: str) -> set[str]:
        return {name.removeprefix(prefix) for name, count in self.counts.items() if count and name.startswith(prefix)}

    def problems(self) -> list[str]:
        """What the world says that a run of this size must have seen, and this one has not."""
        return self.coverage.missed(self.counts, self.seeds)

    def data(self) -> dict[str, object]:
        """The same as values."""
        names = ("jobs", "kills", "stalls", "provider calls", "effects", "messages", "replays")
        return {
            "system": self.system,
            "seeds": self.seeds,
            "simulated_s": round(self.simulated_s),
            "cpu_s": round(self.cpu_s, 1),
            **{name.replace(" ", "_"): self.counts[name] for name in names},
            "failpoints": sorted(self.seen("failpoint:")),
            "faults": sorted(self.seen("fault:")),
            "edges": sorted(self.seen("edge:")),
            "seen": {name: self.counts[f"seen:{name}"] for name in sorted(self.seen("seen:"))},
            "violations": self.violations,
            "failed": [
                {"seed": one.seed, "command": one.command, "findings": [str(f) for f in one.findings]}
                for one in self.failed
            ],
            "problems": self.problems(),
        }

    def text(self) -> str:
        c = self.counts
        rate = self.seeds / self.cpu_s if self.cpu_s else 0.0
        pace = self.simulated_s / self.cpu_s if self.cpu_s else 0.0
        return "\n".join(
            [
                f"{self.system}: {self.seeds:,} seeds, {self.simulated_s / 3600:,.1f} simulated hours, "
                f"{self.cpu_s:,.1f} CPU-seconds ({rate:.1f} seeds and {pace:,.0f} simulated seconds per CPU-second)",
                f"{c['jobs']:,} jobs, {c['kills']:,} kills, {c['stalls']:,} stalls, {c['provider calls']:,} provider "
                f"calls, {c['effects']:,} effects, {c['messages']:,} messages, {c['replays']:,} replays",
                f"{len(self.seen('failpoint:'))} failpoints, {len(self.seen('fault:'))} kinds of fault, "
                f"{len(self.seen('edge:'))} state edges seen; "
                f"{self.violations:,} violations in {len(self.failed)} seeds",
            ]
        )


def counted(world: SimWorld, history: RunHistory) -> Counter[str]:
    """What happened in one seed, by name."""
    counts: Counter[str] = Counter(
        {
            "simulated_ms": world.loop.now_ms,
            "steps": world.loop.steps,
            "kills": world.loop.kills,
            "stalls": world.loop.stalls,
            "jobs": len(history.born),
            "provider calls": sum(e.kind in ("send", "lookup") for t in history.providers.values() for e in t.log),
            "effects": sum(len(tale.effects) for tale in history.providers.values()),
            "messages": sum(1 for _ in history.of("told")),
        }
    )
    for change in history.all_changes():
        counts[f"edge:{change.old_state} -> {change.state}"] += change.old_state != change.state
        counts["replays"] += change.event == "replayed"
        counts[f"event:{change.event}"] += 1
    for name, visits in world.chaos.visits.items():
        counts[f"failpoint:{name}"] += visits
    for kind, times in world.chaos.done.items():
        counts[f"fault:{kind}"] += times
    for arena in world.arenas.values():
        for kind, times in arena.done.items():
            counts[f"fault:{kind}"] += times
    counts["fault:clock_skew"] += any(world.swarm.skews_ms)
    for event in history.broker:
        counts[f"fault:{event.kind}"] += event.kind in BROKER_FAULTS
    for tale in history.providers.values():
        for told in tale.log:
            counts[f"fault:{told.kind}"] += told.kind in PROVIDER_FAULTS
            counts[f"fault:{told.detail}"] += told.detail in PROVIDER_FAULTS
    for name, times in world.tally(history).items():
        counts[f"seen:{name}"] += times
    return counts
