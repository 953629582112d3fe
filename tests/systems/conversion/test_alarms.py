"""What users' own documents cause wakes nobody; what the service causes does, under the codes that users see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.deploy.alarms import alarms, pages
from tests.systems.conversion.place import Place

from holdfast import CallError, Category
from holdfast.http.metrics import PrometheusWatch

pytestmark = [pytest.mark.slow, pytest.mark.spec("001.28", "K17")]
ROUNDS, MINUTES_EACH = 18, 3
# What is counted is counted by the process, in the same words whichever database it has.
counted_by_the_process = pytest.mark.parametrize("open_store", ["sqlite"], indirect=True)


def refused() -> Exception:
    return CallError.of(Category.VALIDATION, "DOCUMENT_ENCRYPTED", "It has a password.")


def misconfigured() -> Exception:
    return CallError.from_status(401, "no key", {}, now_ms=0)


async def scrapes(place: Place, fail: Callable[[], Exception], *, others: bool = True) -> list[str]:
    """One for each minute; every few minutes two documents fail; `others`: and one is converted."""
    place.kernel.watch = PrometheusWatch()
    found = [await scrape(place)]
    for number in range(ROUNDS):
        place.world.clock.advance(60 * MINUTES_EACH)
        place.gateway.errors = [fail(), fail()]
        await place.upload(name=f"{number}.pdf")
        await place.upload(name=f"{number}-too.pdf")
        await place.world.run_until_idle()
        if others:
            await place.upload(name=f"{number}-good.pdf")
            await place.world.run_until_idle()
        found += [await scrape(place)] * MINUTES_EACH
    return found


async def scrape(place: Place) -> str:
    return (await place.client(None).get("/metrics")).text


def counted(text: str, name: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    return {s.labels["kind"]: s.value for family in families for s in family.samples if s.name == name}


def failed(text: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels[name] for name in ("kind", "code", "error_class", "cause")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "holdfast_jobs_failed_total"
    }


@counted_by_the_process
async def test_documents_that_cannot_be_converted_wake_nobody(place: Place, tmp_path: Path) -> None:
    seen = await scrapes(place, refused)
    assert counted(seen[-1], "holdfast_jobs_created_total") == {"conversion.convert": 3 * ROUNDS}
    assert counted(seen[-1], "holdfast_jobs_completed_total") == {"conversion.convert": ROUNDS}
    assert failed(seen[-1]) == {("conversion.convert", "GW_4XX", "DOCUMENT_ENCRYPTED", "input"): 2 * ROUNDS}
    assert pages(tmp_path, seen) == set()


async def test_a_user_who_tries_again_and_again_wakes_nobody(place: Place, tmp_path: Path) -> None:
    place.kernel.watch = PrometheusWatch()
    place.gateway.errors = [refused(), refused()]
    job = await place.upload()
    await place.world.run_until_idle()
    assert (await place.client().post(f"/api/jobs/{job['id']}/retry")).status_code == 202
    await place.world.run_until_idle()
    text = await scrape(place)
    assert 'state="escalated"' in text
    assert pages(tmp_path, [text] * 30) == set()


@counted_by_the_process
async def test_a_service_that_fails_wakes_somebody(place: Place, tmp_path: Path) -> None:
    seen = await scrapes(place, misconfigured)
    assert failed(seen[-1]) == {("conversion.convert", "GW_4XX", "AUTH_INVALID", "service"): 2 * ROUNDS}
    assert "HoldfastErrorRate" in pages(tmp_path, seen)


@counted_by_the_process
async def test_a_converter_that_takes_nothing_any_more_is_a_ticket(place: Place, tmp_path: Path) -> None:
    seen = await scrapes(place, refused, others=False)
    assert ("HoldfastInputsRefused", "ticket") in alarms(tmp_path, seen)
    assert pages(tmp_path, seen) == set()
