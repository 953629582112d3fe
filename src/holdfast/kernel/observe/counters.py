"""What the kernel counts and times, each with its labels and its meaning. A system declares its own likewise.

Exported to Prometheus as `holdfast_<name>_total`, and `holdfast_<name>` for what is timed. A test walks the source: a
name that nobody declares, or labels that are not the declared ones, do not pass.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counter:
    """A number that a process counts up with `watch.count(name, ...)`."""

    name: str
    doc: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in seconds, kept with `watch.observe(name, seconds, ...)` as a histogram."""

    name: str
    doc: str
    labels: tuple[str, ...] = ()


COUNTERS = (
    Counter(
        "jobs_created",
        "Jobs that a Holdfast process accepted; what is enqueued on a caller's own connection is not among them",
        ("kind",),
    ),
    Counter("jobs_settled", "Attempts that ended, by how", ("kind", "event")),
    Counter("jobs_completed", "Jobs that succeeded", ("kind",)),
    Counter(
        "jobs_failed",
        "Jobs that died: by the code that the kind's users see, the class inside, and whether the input or the "
        "service is the cause",
        ("kind", "code", "error_class", "cause"),
    ),
    Counter("retries_scheduled", "Retries scheduled", ("kind",)),
    Counter("lease_reclaims", "Leases taken back from lost workers"),
    Counter("loop_blocked", "Times that a handler blocked its worker's event loop", ("kind",)),
    Counter("settles_refused", "Writes refused because the lease was gone", ("kind",)),
    Counter("dead_letters_opened", "Dead letters written", ("kind", "error_class", "cause")),
    Counter("breaker_changes", "Changes of a breaker's gate", ("provider", "gate")),
    Counter("effects_sent", "External effects sent and marked", ("provider",)),
    Counter("effects_in_review", "Effects set aside for a person"),
    Counter("effects_without_evidence", "Marked without a provider id", ("provider",)),
    Counter(
        "effects_unknown_to_provider",
        "Effects marked as sent with an id that the provider does not know, by what came of it",
        ("provider", "verdict"),
    ),
    Counter("effects_duplicated", "Second sends that were found out", ("provider",)),
    Counter("outbox_published", "Messages confirmed by the broker"),
    Counter("outbox_set_aside", "Messages given up after their last try"),
    Counter("outbox_stale", "Warnings about messages older than the threshold"),
)
TIMINGS = (Timing("provider_seconds", "How long calls to providers took", ("provider", "outcome")),)
