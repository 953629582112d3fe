"""Prometheus: what this process counted, and how the systems are at the moment of the scrape.

Counters and histograms are fed through the kernel's `Watch`, as `kernel.counters` and the systems declare them; gauges
are read from the store when somebody scrapes, so that any one process tells the whole deployment's queue depth.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import prometheus_client
import uvicorn
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from holdfast.core.breaker import Gate
from holdfast.errors import StoreError
from holdfast.http import health, problem
from holdfast.http.auth import NobodyKnown
from holdfast.http.buckets import Callers
from holdfast.http.guard import Guard
from holdfast.http.server import connection_limits, limited_protocol
from holdfast.kernel.observe.counters import COUNTERS, TIMINGS, Counter
from holdfast.kernel.observe.watch import LogWatch
from holdfast.operator.attention import AttentionNotice
from holdfast.operator.overview import look_at
from holdfast.operator.snapshot import Snapshot
from holdfast.settings import Settings
from holdfast.system import OpenSystem

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300)
SCRAPERS_MAX = 32
GATES = {Gate.CLOSED: 0, Gate.HALF_OPEN: 1, Gate.OPEN: 2}


class PrometheusWatch(LogWatch):
    """Counts what the kernel tells, and logs as usual. One registry each: nothing is global."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        super().__init__(logger)
        self.registry = CollectorRegistry()
        self._counters: dict[str, tuple[Counter, prometheus_client.Counter]] = {}
        self._undeclared: set[str] = set()
        self._timings = {
            timing.name: (
                timing,
                Histogram(_name(timing.name), timing.doc, timing.labels, registry=self.registry, buckets=SECONDS),
            )
            for timing in TIMINGS
        }
        self.declare(COUNTERS)

    def declare(self, counters: Sequence[Counter]) -> None:
        for counter in counters:
            if counter.name not in self._counters:
                exported = prometheus_client.Counter(
                    _name(counter.name), counter.doc, counter.labels, registry=self.registry
                )
                self._counters[counter.name] = counter, exported

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Count a declared name. What nobody declares cannot be exported: that is logged, once a name."""
        if name in self._counters:
            counter, exported = self._counters[name]
            _child(exported, counter.labels, labels).inc(amount)
        elif name not in self._undeclared:
            self._undeclared.add(name)
            self.log("counter.undeclared", counter=name, fix="declare it in System.counters")

    def observe(self, name: str, value: float, **labels: str) -> None:
        timing, exported = self._timings[name]
        _child(exported, timing.labels, labels).observe(value)


def _name(name: str) -> str:
    return f"holdfast_{name}"


def _child(metric: Any, names: tuple[str, ...], labels: dict[str, str]) -> Any:
    return metric.labels(*(str(labels.get(name, "")) for name in names)) if names else metric


class _Gauges:
    """Hands ready-made families to the exposition."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


async def exposition(systems: Sequence[OpenSystem]) -> bytes:
    """The whole text of a scrape. A store that is away costs its gauges, not the scrape."""
    looks = await asyncio.gather(*map(look_at, systems))
    views = [(one.name, *look) for one, look in zip(systems, looks, strict=True)]
    registry = CollectorRegistry()
    registry.register(_Gauges([*_families(views), *await _system_families(systems)]))
    watches = {id(one.kernel.watch): one.kernel.watch for one in systems}
    counted = [generate_latest(watch.registry) for watch in watches.values() if isinstance(watch, PrometheusWatch)]
    return b"".join([*counted, generate_latest(registry)])


def _families(views: Sequence[tuple[str, Snapshot | None, list[AttentionNotice]]]) -> list[Metric]:
    up = _gauge("store_up", "1 while the database answers", "system")
    depth = _gauge(
        "queue_depth",
        "Jobs that have not ended (10000: so many or more); parked ones wait for a provider",
        "system",
        "queue",
        "state",
    )
    age = _gauge("queue_oldest_age_seconds", "Age of the oldest job that is due", "system", "queue")
    pending = _gauge("outbox_pending", "Messages not yet confirmed (10000: so many or more)", "system")
    lag = _gauge("outbox_lag_seconds", "Age of the oldest message not yet confirmed", "system")
    letters = _gauge(
        "dead_letters", "Dead letters by state, category of failure and cause", "system", "state", "category", "cause"
    )
    unworked = _gauge("dead_letters_open", "Dead letters that wait for a person", "system")
    gate = _gauge("breaker_state", "0 closed, 1 half open, 2 open", "system", "provider")
    open_s = _gauge("breaker_open_seconds", "How long the breaker has not been closed", "system", "provider")
    effects = _gauge("effects", "External effects whose fate is open, by status", "system", "provider", "status")
    alive = _gauge("workers", "Workers that reported lately", "system")
    undeclared = _gauge(
        "undeclared_jobs", "Due jobs, of those in front, that no running worker declares", "system", "kind", "stage"
    )
    open_transaction = _gauge(
        "oldest_transaction_seconds", "How long old row versions have been kept from being removed", "system"
    )
    dead_versions = _gauge("dead_row_versions", "Old versions of rows in the tables that every job writes to", "system")
    asks = _gauge(
        "asks_for_a_person", "What asks for a person: how many it is about", "system", "topic", "severity", "subject"
    )
    acts = _gauge("acts_last_hour", "What people did within the last hour, in whatever process", "system", "action")
    for name, view, notices in views:
        up.add_metric([name], 0 if view is None else 1)
        for notice in notices:
            asks.add_metric([name, notice.topic, notice.severity, notice.subject], max(1, notice.number))
        if view is None:
            continue
        for lane in view.lanes:
            depth.add_metric([name, lane.queue, lane.state], lane.jobs)
            if lane.state == "queued":
                age.add_metric([name, lane.queue], lane.oldest_age_s)
        pending.add_metric([name], view.outbox_pending)
        lag.add_metric([name], view.outbox_lag_s)
        for labels, number in sorted(view.letters.items()):
            letters.add_metric([name, *labels], number)
        unworked.add_metric([name], view.dead_letters_open)
        for one in view.breakers:
            gate.add_metric([name, one.name], GATES[one.state.gate])
            open_s.add_metric([name, one.name], one.open_s(view.now))
        for provider, status, number in view.effects:
            effects.add_metric([name, provider, status], number)
        alive.add_metric([name], view.workers_alive)
        for kind, stage, number in view.undeclared:
            undeclared.add_metric([name, kind, stage], number)
        open_transaction.add_metric([name], view.horizon.open_s)
        dead_versions.add_metric([name], view.horizon.dead_versions)
        for action, number in view.acts:
            acts.add_metric([name, action], number)
    queue = [up, depth, age, pending, lag, letters, unworked, alive, undeclared]
    return [*queue, gate, open_s, effects, open_transaction, dead_versions, asks, acts]


async def _system_families(systems: Sequence[OpenSystem]) -> list[Metric]:
    """The systems' own gauges. A store that is away costs that system's."""
    families: dict[str, GaugeMetricFamily] = {}
    for one in systems:
        for gauge in one.system.gauges:
            families.setdefault(gauge.name, _gauge(gauge.name, gauge.doc, "system", *gauge.labels))
        if one.system.read_gauges is None or one.is_awaited:
            continue
        try:
            values = await one.system.read_gauges(one.kernel)
        except StoreError:
            continue
        for gauge, labels, value in values:
            families[gauge.name].add_metric([one.name, *labels], value)
    return list(families.values())


def _gauge(name: str, doc: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(_name(name), doc, labels=labels)


router = APIRouter()


@router.get("/metrics", tags=["health"], response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """What Prometheus scrapes."""
    return Response(await exposition(request.app.state.systems), headers={"Content-Type": CONTENT_TYPE_LATEST})


def metrics_server(systems: Sequence[OpenSystem], settings: Settings) -> uvicorn.Server:
    """A worker's own /metrics, /healthz and /readyz: `await server.serve()`, ended by `server.should_exit = True`. Held
    to the limits of every server, and to few connections: whoever scrapes needs one."""
    limits = connection_limits(replace(settings, connections_max=min(settings.connections_max, SCRAPERS_MAX)))
    app = FastAPI(
        title="Holdfast worker",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        telemetry={"tracing": False, "logs": False},
    )
    app.state.systems = tuple(systems)
    app.state.callers = Callers(settings)
    app.state.auth = NobodyKnown()
    problem.install(app)
    app.include_router(router)
    app.include_router(health.router)
    app.add_middleware(Guard)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.metrics_port,
        http=limited_protocol(limits),
        ws="none",
        backlog=limits.backlog,
        timeout_keep_alive=limits.keep_alive_s,  # type: ignore[arg-type]  # a timer's seconds, whole or not
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    return _QuietServer(config)


class _QuietServer(uvicorn.Server):
    """Signals belong to the process that runs it."""

    def capture_signals(self) -> Any:
        return nullcontext()
