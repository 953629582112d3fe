"""What Prometheus and load balancers see."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from tests.http.conftest import Client
from tests.http.wishes import Grant, Wish, app, web_for

from holdfast.engines.worker import Worker
from holdfast.http.metrics import PrometheusWatch, exposition, metrics_server
from holdfast.kernel.hold import force
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.observe.counters import Counter
from holdfast.kernel.operate import triage
from holdfast.kernel.submit import submit
from holdfast.settings import Settings
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.statement import Migration
from holdfast.tables import cases, outbox, workers
from holdfast.tables.schema import KERNEL
from holdfast.testing import HandClock

pytestmark = pytest.mark.spec("K17")
KIND = Grant.__holdfast__.name


def sample(text: str, name: str, **labels: str) -> float | None:
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name == name and all(one.labels.get(key) == value for key, value in labels.items()):
                return float(one.value)
    return None


@pytest.fixture
async def scraped(web: FastAPI, kernel: Kernel, client: Client, clock: HandClock) -> Mapping[str, str]:
    """A system with a life behind it, as a scrape tells it."""
    kernel.watch = PrometheusWatch()
    for fails in ("", "NEVER"):
        await submit(kernel, Grant, Wish(text="rain", fails=fails))
    await Worker(kernel).run_until_idle()
    await force(kernel, "oracle", open=True, actor="olga", reason="it babbles")
    await submit(kernel, Grant, Wish(text="sun"))
    async with kernel.store.transaction() as tx:
        await outbox.put(tx, [(kernel.new_uuid4(), "a", "x/y", "told", "{}", "{}")], kernel.now())
    clock.advance(90)
    answer = await client().get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {"text": answer.text}


@pytest.mark.spec("K8")
async def test_an_act_of_a_process_that_has_ended_is_told_by_any_other(
    web: FastAPI, kernel: Kernel, client: Client, clock: HandClock
) -> None:
    """The command line counts in a process that nobody scrapes: what people did is read from the audit."""
    await submit(kernel, Grant, Wish(text="rain", fails="NEVER"))
    await Worker(kernel).run_until_idle()
    async with kernel.store.reading() as tx:
        (letter,) = await cases.page(tx)
    await triage(kernel, letter.id, cause="data", actor="olga")
    text = (await client().get("/metrics")).text
    assert sample(text, "holdfast_acts_last_hour", action="case.triaged") == 1
    assert sample(text, "holdfast_acts_last_hour", action="case.opened") is None, "that was the kernel"
    clock.advance(3_601)
    assert sample((await client().get("/metrics")).text, "holdfast_acts_last_hour") is None


@pytest.mark.spec("001.29")
@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("holdfast_jobs_created_total", {"kind": KIND}, 3),
        ("holdfast_jobs_settled_total", {"event": "succeeded"}, 1),
        ("holdfast_jobs_completed_total", {"kind": KIND}, 1),
        ("holdfast_jobs_failed_total", {"code": "NEVER", "error_class": "NEVER", "cause": "service"}, 1),
        ("holdfast_queue_depth", {"queue": "wishes", "state": "queued"}, 1),
        ("holdfast_queue_oldest_age_seconds", {"queue": "wishes"}, 90),
        ("holdfast_outbox_pending", {"system": "wishes"}, 1),
        ("holdfast_outbox_lag_seconds", {"system": "wishes"}, 90),
        ("holdfast_dead_letters_open", {"system": "wishes"}, 1),
        ("holdfast_dead_letters", {"state": "open", "cause": "service"}, 1),
        ("holdfast_dead_letters_opened_total", {"error_class": "NEVER", "cause": "service"}, 1),
        ("holdfast_breaker_state", {"provider": "oracle"}, 2),
        ("holdfast_breaker_open_seconds", {"provider": "oracle"}, 90),
        ("holdfast_store_up", {"system": "wishes"}, 1),
    ],
)
async def test_a_scrape_tells(scraped: Mapping[str, str], name: str, labels: dict[str, str], value: float) -> None:
    assert sample(scraped["text"], name, **labels) == value


@pytest.mark.spec("K22")
async def test_a_scrape_tells_what_no_running_worker_declares(kernel: Kernel, client: Client) -> None:
    await submit(kernel, Grant, Wish(text="rain"))
    async with kernel.store.transaction() as tx:
        await workers.seen(tx, "of another release", "wishes", 0, kernel.now(), '{"wishes.other stage 1": []}')
    text = (await client().get("/metrics")).text
    stage = Grant.__holdfast__.stages[0].name
    assert sample(text, "holdfast_undeclared_jobs", system="wishes", kind=KIND, stage=stage) == 1


@pytest.mark.spec("001.29")
def test_latency_and_reclaims_are_counted() -> None:
    watch = PrometheusWatch()
    watch.count("lease_reclaims", 3)
    watch.observe("provider_seconds", 0.2, provider="llm", outcome="ok")
    value = watch.registry.get_sample_value
    assert value("holdfast_lease_reclaims_total") == 3
    assert value("holdfast_provider_seconds_count", {"provider": "llm", "outcome": "ok"}) == 1
    assert value("holdfast_provider_seconds_bucket", {"provider": "llm", "outcome": "ok", "le": "0.25"}) == 1


def test_a_counter_that_nobody_declares_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    watch = PrometheusWatch()
    watch.declare([Counter("wishes_made", "Wishes", ("colour",))])
    for name in ("wishes_made", "wishes_lost", "wishes_lost"):
        watch.count(name, colour="red")
    assert watch.registry.get_sample_value("holdfast_wishes_made_total", {"colour": "red"}) == 1
    assert [record.holdfast["counter"] for record in caplog.records] == ["wishes_lost"]  # type: ignore[attr-defined]


async def test_a_store_that_is_away_costs_its_gauges_and_not_the_scrape(tmp_path: Path, settings: Settings) -> None:
    folder = tmp_path / "a-folder-is-no-database.db"
    folder.mkdir()
    kernel = Kernel(store=SqliteStore(folder), registry=Registry([app]), watch=PrometheusWatch())
    web = web_for(settings, kernel)
    text = (await exposition(web.state.systems)).decode()
    assert sample(text, "holdfast_store_up", system="wishes") == 0
    assert sample(text, "holdfast_lease_reclaims_total") == 0
    transport = httpx.ASGITransport(web)
    async with httpx.AsyncClient(transport=transport, base_url="http://holdfast") as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "NOT_READY")
    assert "does not answer" in answer.json()["systems"]["wishes"]
    await kernel.store.close()


async def test_ready_means_the_schema_of_this_very_code(tmp_path: Path, settings: Settings) -> None:
    kernel = Kernel(store=SqliteStore(tmp_path / "new.db"), registry=Registry([app]))
    transport = httpx.ASGITransport(web_for(settings, kernel))
    async with httpx.AsyncClient(transport=transport, base_url="http://holdfast") as client:
        assert (await client.get("/readyz")).status_code == 503
        await kernel.store.migrate(KERNEL[:-1])
        assert "run holdfast migrate" in (await client.get("/readyz")).json()["systems"]["wishes"]
        await kernel.migrate()
        assert (await client.get("/readyz")).json() == {"status": "ready", "systems": {"wishes": "ready"}}
        await kernel.store.migrate([*KERNEL, Migration("holdfast", 999, "CREATE TABLE later (id INTEGER)")])
        assert "newer than this code" in (await client.get("/readyz")).json()["systems"]["wishes"]
    await kernel.store.close()


@pytest.mark.slow
async def test_a_worker_serves_its_own_metrics(tmp_path: Path, settings: Settings) -> None:
    kernel = Kernel(store=SqliteStore(tmp_path / "w.db"), registry=Registry([app]), watch=PrometheusWatch())
    await kernel.migrate()
    limited = replace(settings, header_s=0.2, requests_per_address=0.3)
    server = metrics_server(web_for(settings, kernel).state.systems, limited)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.wait([serving], timeout=0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        answer = await client.get("/metrics")
        assert "holdfast_jobs_created_total" in answer.text and "server" not in answer.headers
        assert (await client.get("/readyz")).status_code == 200
        assert [(await client.get("/healthz")).status_code for _ in range(3)] == [200, 429, 429]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: ")
    assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 408 ")
    writer.close()
    server.should_exit = True
    with suppress(asyncio.CancelledError):
        await serving
    await kernel.store.close()
