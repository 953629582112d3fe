"""What a run of some size must have seen, or its silence means nothing. A world declares its own:

    coverage = Coverage(edges=edges_but("waiting -> succeeded"), seen=frozenset({"late callback"}))

`seen` names what the world's own `tally` counts; `at_least` is a mean per seed of anything counted; `seeds` is how many
must have seen all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.core.job import EDGES
from holdfast.kernel.failpoint import NAMES
from holdfast_proof.chaos import FAULT_KINDS, ILLNESSES

BROKER_FAULTS = frozenset(
    ["refused", "confirm_lost", "confirm_never", "duplicated", "delayed", "reordered", "returned", "ack_lost"]
)
PROVIDER_FAULTS = frozenset((*ILLNESSES, "timeout", "answer_unheard", "deduplicated"))
ALL_FAULTS = FAULT_KINDS | BROKER_FAULTS | PROVIDER_FAULTS
EVERY_JOBS = frozenset(name for name in NAMES if not name.startswith(("spawn.", "wake.", "checkpoint.", "own_rows.")))
"""The failpoints that any job may come by. The others are met only by jobs with children, checkpoints or rows of their
own: the world of families has those, and tests/kernel/test_own_rows.py crashes at the last two."""
ALL_EDGES = frozenset(f"{old} -> {new}" for old, new in EDGES)


def edges_but(*unreached: str) -> frozenset[str]:
    """Every edge of a job's states but those that a workload has no job for."""
    return ALL_EDGES - set(unreached)


def once_a_seed(*names: str) -> dict[str, float]:
    return dict.fromkeys(names, 1.0)


def _usual() -> dict[str, float]:
    return once_a_seed("kills", "stalls", "provider calls", "effects", "jobs")


@dataclass(frozen=True, slots=True)
class Coverage:
    """What must be seen at least once, and what at least how often per seed."""

    failpoints: frozenset[str] = EVERY_JOBS
    faults: frozenset[str] = ALL_FAULTS
    edges: frozenset[str] = ALL_EDGES
    seen: frozenset[str] = frozenset()
    at_least: Mapping[str, float] = field(default_factory=_usual)
    seeds: int = 300

    def missed(self, counts: Counter[str], seeds: int) -> list[str]:
        """What a run of this size should have seen and did not. Empty for small runs: luck is no problem."""
        if seeds < self.seeds:
            return []
        wanted = {
            "failpoint": (self.failpoints, "failpoint:"),
            "fault": (self.faults, "fault:"),
            "state edge": (self.edges, "edge:"),
            "event": (self.seen, "seen:"),
        }
        found = [
            f"No seed of {seeds} has seen the {what} '{name}'."
            for what, (names, prefix) in wanted.items()
            for name in sorted(names)
            if not counts[f"{prefix}{name}"]
        ]
        for name, mean in self.at_least.items():
            if counts[name] < mean * seeds:
                found.append(f"Only {counts[name]} {name} in {seeds} seeds.")
        return found
