"""What a scrape of the main app tells: from its database, so that any one process tells the whole deployment's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.deploy.alarms import alarms
from tests.systems.grading.callbacks_made import completed, error, result
from tests.systems.grading.pair import SPEAKING, Pair, made_engine, opened, village

from holdfast.http.metrics import PrometheusWatch, exposition
from holdfast.providers.outbound import Fetched, OutboundPolicy
from holdfast.system import OpenSystem
from holdfast_systems.grading.contract import CALLBACK_QUEUE, SLA_MS
from holdfast_systems.grading.sweep import sweep_timeouts
from holdfast_systems.grading.system import grading_main

Samples = dict[tuple[str, str], float]


async def scraped(pair: Pair) -> Samples:
    """Every sample of the main app by name and labels, the label `system` left out."""
    text = await exposition([OpenSystem(grading_main(), pair.main.kernel, {})])
    return {
        (sample.name, ",".join(str(value) for name, value in sorted(sample.labels.items()) if name != "system")): (
            sample.value
        )
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@pytest.mark.spec("K17", "G12")
async def test_a_scrape_tells_how_submissions_stand(pair: Pair) -> None:
    before = await scraped(pair)
    assert before["holdfast_submissions", "PENDING"] == before["holdfast_grading_silence_seconds", ""] == 0
    one, two, _ = await pair.submit(), await pair.submit(), await pair.submit()
    pair.clock.advance(60)
    await pair.call_back(completed(one.request_id, one.id, result(6.5, 40)))
    await pair.call_back(error(two.request_id, two.id, "A_STRANGERS_CODE"))
    pair.clock.advance(100)
    now = await scraped(pair)
    assert (now["holdfast_submissions", "PENDING"], now["holdfast_submissions", "REVIEW_REQUIRED"]) == (1, 1)
    assert now["holdfast_submissions_oldest_age_seconds", "PENDING"] == 160
    assert (now["holdfast_review_backlog", "Critical"], now["holdfast_review_backlog", "High"]) == (1, 0)
    assert now["holdfast_review_oldest_age_seconds", "Critical"] == 160
    assert now["holdfast_submissions_ended_last_hour", "OTHER,FAILED"] == 1, "nobody makes labels of their own"
    pair.clock.advance(3_700)
    later = await scraped(pair)
    assert ("holdfast_submissions_ended_last_hour", "OTHER,FAILED") not in later


@pytest.mark.spec("K17", "G11")
async def test_a_critical_review_that_waits_for_half_a_working_day_is_a_ticket(pair: Pair, tmp_path: Path) -> None:
    async def scrapes(hours: float) -> list[str]:
        pair.clock.advance(hours * 3_600)
        return [(await exposition([OpenSystem(grading_main(), pair.main.kernel, {})])).decode()] * 12

    waits = await pair.submit()
    await pair.call_back(completed(waits.request_id, waits.id, result(6.5, 40)))
    ticket = ("HoldfastReviewsWait", "ticket")
    assert ticket not in alarms(tmp_path, await scrapes(3.9))
    assert ticket in alarms(tmp_path, await scrapes(0.2))


@pytest.mark.spec("K17", "G12")
async def test_a_service_that_answers_nobody_is_seen(pair: Pair) -> None:
    """Silence counts from the oldest request that waits, or from the last callback to anybody."""
    first = await pair.submit()
    pair.clock.advance(400)
    assert (await scraped(pair))["holdfast_grading_silence_seconds", ""] == 400
    second = await pair.submit()
    await pair.call_back(completed(second.request_id, second.id))
    pair.clock.advance(30)
    assert (await scraped(pair))["holdfast_grading_silence_seconds", ""] == 30, "it answers somebody"
    await pair.call_back(completed(first.request_id, first.id))
    pair.clock.advance(1_000)
    assert (await scraped(pair))["holdfast_grading_silence_seconds", ""] == 0, "nobody waits"


@pytest.mark.spec("K17", "G9", "G12")
async def test_callbacks_and_ends_are_counted_once_they_are_committed(pair: Pair) -> None:
    pair.main.kernel.watch = PrometheusWatch()
    pair.main.kernel.watch.declare(grading_main().counters)
    one, _ = await pair.submit(), await pair.submit()
    callback = error(one.request_id, one.id, "LLM_FAIL")
    for _ in range(2):
        await pair.call_back(callback)
    await pair.deliver(CALLBACK_QUEUE, b"no callback")
    await pair.call_back(error("6f1a7f5e-7c55-4f0e-9d3a-0a4d4b7c9a10", "nobody's", "LLM_FAIL"))
    pair.clock.advance(SLA_MS["writing"] / 1_000 + 1)
    await sweep_timeouts(pair.main.kernel)
    now = await scraped(pair)
    counted = {
        labels: now["holdfast_callbacks_total", f"error,{labels}"] for labels in ("applied", "duplicate", "unknown")
    }
    assert counted == {"applied": 1, "duplicate": 1, "unknown": 1}
    assert now["holdfast_callbacks_total", "invalid,refused"] == 1
    assert now["holdfast_submissions_settled_total", "LLM_FAIL,FAILED"] == 1
    assert now["holdfast_submissions_settled_total", "TIMEOUT,FAILED"] == 1
    assert now["holdfast_submissions_ended_last_hour", "TIMEOUT,FAILED"] == 1


@pytest.mark.spec("K17", "G8")
@pytest.mark.parametrize(
    ("content", "trouble", "labels"),
    [
        (b"no audio at all", 0, ("AUDIO_UNDECODABLE", "AUDIO_UNDECODABLE", "input")),
        (None, 9, ("STT_FAIL", "UPSTREAM_INTERNAL", "service")),
    ],
    ids=["the learner's audio", "the provider"],
)
async def test_a_death_is_counted_by_what_the_learner_is_told_and_by_its_cause(
    tmp_path: Path, content: bytes | None, trouble: int, labels: tuple[str, str, str]
) -> None:
    async def fetch(url: str, policy: OutboundPolicy) -> Fetched:
        return await village(url, policy) if content is None else Fetched(content, None, url)

    engine = replace(made_engine(tmp_path), fetch=fetch)
    async with opened(tmp_path, engine) as pair:
        watch = pair.service.kernel.watch = PrometheusWatch()
        pair.service.script(engine.stt, server_errors=trouble)
        await pair.submit("speaking", SPEAKING)
        await pair.settle_for(60)
        (letter,) = pair.dead_letters
    code, error_class, cause = labels
    named = {"kind": "grading.speaking", "code": code, "error_class": error_class, "cause": cause}
    assert watch.registry.get_sample_value("holdfast_jobs_failed_total", named) == 1
    assert letter["failureReason"], "and the letter is written either way"
