"""What an operator sees and does over HTTP."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest
from tests.http.conftest import Client
from tests.http.wishes import Grant, Wish

from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import submit
from holdfast.tables import calls, effects, jobs, outbox, workers
from holdfast.testing import HandClock

OPS = "/api/ops"


@pytest.fixture
def operator(client: Client) -> httpx.AsyncClient:
    return client("olga", "operator")


async def wish(kernel: Kernel, fails: str = "", **options: Any) -> str:
    return await submit(kernel, Grant, Wish(text="rain", fails=fails), **options)


async def run(kernel: Kernel) -> None:
    await Worker(kernel).run_until_idle()


async def got(client: httpx.AsyncClient, path: str) -> Any:
    answer = await client.get(OPS + path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def did(client: httpx.AsyncClient, path: str, body: Any = None) -> Any:
    answer = await client.post(OPS + path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refused(client: httpx.AsyncClient, path: str, body: Any = None) -> tuple[int, str]:
    answer = await client.post(OPS + path, json=body)
    return answer.status_code, answer.json()["code"]


async def test_jobs_come_in_pages_that_miss_and_repeat_nothing(kernel: Kernel, operator: httpx.AsyncClient) -> None:
    made = [await wish(kernel, owner="ann" if n % 2 else "ben") for n in range(7)]
    seen: list[str] = []
    path = "/jobs?limit=3"
    for _ in range(3):
        answer = await got(operator, path)
        seen += [item["id"] for item in answer["items"]]
        path = f"/jobs?limit=3&next={answer['next']}"
    assert answer["next"] is None
    assert seen == sorted(made, reverse=True)
    assert {item["owner"] for item in (await got(operator, "/jobs?owner=ann"))["items"]} == {"ann"}
    assert len((await got(operator, f"/jobs?state=queued&kind={Grant.__holdfast__.name}&queue=wishes"))["items"]) == 7
    assert (await got(operator, "/jobs?state=dead"))["items"] == []


@pytest.mark.parametrize("cursor", ["rubbish", "eyJ3aXNoZXMiOiAibm90LWFuLWlkIn0", "W10"])
async def test_a_forged_cursor_is_refused(operator: httpx.AsyncClient, cursor: str) -> None:
    answer = await operator.get(f"{OPS}/jobs?next={cursor}")
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_INPUT")


async def test_a_job_is_found_by_any_id_that_belongs_to_it(kernel: Kernel, operator: httpx.AsyncClient) -> None:
    job = await wish(kernel, "NEVER", key="order-7", trace="trace-7")
    await wish(kernel)
    await run(kernel)
    case = (await got(operator, "/dead-letters"))["items"][0]["id"]
    for wanted in (job, "order-7", "trace-7", case):
        assert [item["id"] for item in (await got(operator, f"/jobs?q={wanted}"))["items"]] == [job]


@pytest.mark.spec("K17")
async def test_a_job_tells_its_whole_story(kernel: Kernel, operator: httpx.AsyncClient) -> None:
    job = await wish(kernel)
    async with kernel.store.transaction() as tx:
        call = calls.NewCall(kernel.new_id(), job, "ask", 1, "oracle", kernel.now(), 12, "ok", 200, None, 700, None)
        await calls.put(tx, [call])
        await outbox.put(tx, [(kernel.new_uuid4(), job, "x/y", "told", "{}", "{}")], kernel.now())
    await run(kernel)
    story = await got(operator, f"/jobs/{job}")
    assert (story["system"], story["state"], story["cost_micros"]) == ("wishes", "succeeded", 700)
    assert [event["type"] for event in story["events"]] == ["created", "claimed", "succeeded"]
    assert story["results"][0]["value"] == "RAIN" and story["outbox"][0]["status"] == "pending"
    assert "It succeeded" in story["why"] and story["created_at"].endswith("Z")
    missing = await operator.get(f"{OPS}/jobs/{uuid.uuid4()}")
    assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")


async def test_a_job_is_cancelled_once_and_audited(kernel: Kernel, operator: httpx.AsyncClient) -> None:
    job = await wish(kernel)
    assert (await did(operator, f"/jobs/{job}/cancel"))["state"] == "cancelled"
    assert await refused(operator, f"/jobs/{job}/cancel") == (409, "NOT_ALLOWED")
    entry = (await got(operator, f"/audit?subject=job:{job}"))["items"][0]
    assert (entry["actor"], entry["action"]) == ("olga", "job.cancelled")


@pytest.mark.spec("K8")
async def test_a_dead_letter_goes_through_its_steps_and_only_in_order(
    kernel: Kernel, operator: httpx.AsyncClient
) -> None:
    job = await wish(kernel, "NEVER")
    await run(kernel)
    case = (await got(operator, "/dead-letters?state=open"))["items"][0]["id"]
    shown = await got(operator, f"/dead-letters/{case}")
    assert shown["job_id"] == job and shown["next_step"].startswith("triage")
    assert await refused(operator, f"/dead-letters/{case}/replay") == (409, "NOT_ALLOWED")
    assert await refused(operator, f"/dead-letters/{case}/triage", {"cause": "luck"}) == (422, "INVALID_INPUT")
    triage = {"cause": "data", "notes": "a word that nobody knows"}
    assert (await did(operator, f"/dead-letters/{case}/triage", triage))["state"] == "triaged"
    assert (await got(operator, f"/dead-letters/{case}"))["notes"] == triage["notes"]
    assert await refused(operator, f"/dead-letters/{case}/remediate", {"evidence": " "}) == (422, "INVALID_INPUT")
    await did(operator, f"/dead-letters/{case}/remediate", {"evidence": "asked the oracle"})
    replayed = await did(operator, f"/dead-letters/{case}/replay", {"delay_s": 60})
    assert (replayed["job_id"], replayed["stage"], replayed["state"]) == (job, "ask", "replayed")
    assert "replayed" in (await got(operator, f"/jobs/{job}"))["why"]
    async with kernel.store.reading() as tx:
        row = await jobs.show(tx, job)
    assert row is not None and row.run_at == kernel.now() + 60_000
    assert await refused(operator, f"/dead-letters/{case}/resolve", {"notes": "done"}) == (409, "NOT_ALLOWED")
    early = {"without_replay": "surely"}
    assert await refused(operator, f"/dead-letters/{case}/resolve", early) == (409, "NOT_ALLOWED"), "it runs"
    assert await refused(operator, f"/dead-letters/{case}/resolve", {}) == (422, "INVALID_INPUT")
    await did(operator, f"/jobs/{job}/cancel")
    dry = {"filter": {"ids": [case]}, "notes": "done", "dry_run": True}
    told = await did(operator, "/dead-letters/bulk/resolve", dry)
    assert told["done"] == [] and "its replayed job is cancelled" in told["refused"][0]["detail"]
    await did(operator, f"/dead-letters/{case}/resolve", early)
    history = [entry["action"] for entry in (await got(operator, f"/dead-letters/{case}"))["audit"]]
    assert history == ["case.opened", "case.triaged", "case.remediated", "case.replayed", "case.resolved"]


@pytest.mark.spec("K8", "004.13")
async def test_an_input_is_corrected_with_a_look_at_the_difference_first(
    kernel: Kernel, operator: httpx.AsyncClient
) -> None:
    job = await wish(kernel, "NEVER")
    await run(kernel)
    case = (await got(operator, "/dead-letters?state=open"))["items"][0]["id"]
    at = f"/dead-letters/{case}"
    shown = await got(operator, at)
    assert shown["input"]["fails"] == "NEVER" and shown["corrections"] == [] and shown["original_input"] is None
    seen = await did(operator, f"{at}/correct", {"set": {"fails": ""}, "dry_run": True})
    assert seen["changes"] == [{"path": "fails", "before": "NEVER", "after": ""}] and seen["state"] == "open"
    assert (seen["dry_run"], seen["replay_from"], seen["effects_performed"]) == (True, "ask", [])
    assert (await got(operator, at))["input"]["fails"] == "NEVER", "a look changes nothing"
    for wrong in ({}, {"set": {"fails": 7}}, {"set": {"wish": "x"}}, {"set": {}}, {"sett": {"fails": ""}}):
        assert await refused(operator, f"{at}/correct", wrong) == (422, "INVALID_INPUT"), wrong
    done = await did(operator, f"{at}/correct", {"input": {**shown["input"], "fails": ""}, "reason": "INC-7"})
    assert (done["state"], done["dry_run"]) == ("remediated", False)
    after = await got(operator, at)
    assert after["original_input"]["fails"] == "NEVER" and after["corrections"][0]["actor"] == "olga"
    await did(operator, f"{at}/replay")
    assert await refused(operator, f"{at}/correct", {"set": {"fails": "x"}}) == (409, "NOT_ALLOWED")
    await run(kernel)
    assert (await got(operator, f"/jobs/{job}"))["state"] == "succeeded"
    await did(operator, f"{at}/resolve", {"notes": "granted"})


@pytest.mark.spec("K8", "004.14")
async def test_bulk_steps_say_first_what_they_would_do_and_spread_the_replays(
    kernel: Kernel, operator: httpx.AsyncClient, clock: HandClock
) -> None:
    doomed = [await wish(kernel, "NEVER") for _ in range(3)]
    other = await wish(kernel, "OTHER")
    await run(kernel)
    which = {"filter": {"error_class": "NEVER"}}
    dry = await did(operator, "/dead-letters/bulk/triage", which | {"cause": "data", "dry_run": True})
    assert (dry["matched"], len(dry["done"]), dry["dry_run"]) == (3, 3, True)
    assert len((await got(operator, "/dead-letters?state=open"))["items"]) == 4
    early = await did(operator, "/dead-letters/bulk/replay", which)
    assert early["done"] == [] and len(early["refused"]) == 3 and "Next: triage" in early["refused"][0]["detail"]
    assert len((await did(operator, "/dead-letters/bulk/triage", which | {"cause": "data"}))["done"]) == 3
    await did(operator, "/dead-letters/bulk/remediate", which | {"evidence": "mended"})
    done = await did(operator, "/dead-letters/bulk/replay", which | {"per_minute": 2, "limit": 2})
    assert {entry["job_id"] for entry in done["done"]} < set(doomed)
    assert (len(done["done"]), done["remaining"]) == (2, 1)
    runs = [(await got(operator, f"/jobs/{entry['job_id']}"))["why_facts"]["code"] for entry in done["done"]]
    assert runs == ["NO_WORKER", "SCHEDULED"]
    rest = await did(operator, "/dead-letters/bulk/replay", which | {"limit": 2})
    assert (len(rest["done"]), len(rest["refused"]), rest["remaining"]) == (1, 2, 0)
    assert (await got(operator, f"/jobs/{other}"))["dead_letter"]["state"] == "open"
    assert await refused(operator, "/dead-letters/bulk/resolve", {"filter": {}, "notes": "x"}) == (422, "INVALID_INPUT")


async def test_groups_count_what_a_person_would_treat_as_one(kernel: Kernel, operator: httpx.AsyncClient) -> None:
    for fails in ("NEVER", "NEVER", "OTHER"):
        await wish(kernel, fails)
    await run(kernel)
    groups = (await got(operator, "/dead-letters/groups"))["items"]
    assert [(group["error_class"], group["letters"]) for group in groups] == [("NEVER", 2), ("OTHER", 1)]
    found = await got(operator, f"/dead-letters?fingerprint={groups[0]['fingerprint']}")
    assert {item["error_class"] for item in found["items"]} == {"NEVER"}


@pytest.mark.spec("K9")
async def test_a_breaker_is_opened_and_closed_by_hand(kernel: Kernel, operator: httpx.AsyncClient) -> None:
    assert (await got(operator, "/breakers"))["items"][0]["gate"] == "closed"
    await did(operator, "/breakers/oracle/open", {"reason": "it babbles"})
    shown = (await got(operator, "/breakers"))["items"][0]
    assert (shown["gate"], shown["forced"], shown["reason"]) == ("open", True, "it babbles")
    job = await wish(kernel)
    await run(kernel)
    assert (await got(operator, f"/jobs/{job}"))["why_facts"]["code"] == "HELD"
    await did(operator, "/breakers/oracle/close")
    history = (await got(operator, "/breakers/oracle/history"))["items"]
    assert [entry["gate"] for entry in history] == ["closed", "open"]
    actions = [entry["action"] for entry in (await got(operator, "/audit?actor=olga"))["items"]]
    assert actions == ["breaker.closed", "breaker.opened"]
    assert await refused(operator, "/breakers/nobody/open") == (404, "NOT_FOUND")
    await did(operator, "/pauses/queue/wishes/pause", {"reason": "stocktaking"})
    paused = [each for each in (await got(operator, "/pauses"))["items"] if each.get("reason")]
    assert [(each["name"], each["actor"], each["reason"]) for each in paused] == [("wishes", "olga", "stocktaking")]
    await did(operator, "/pauses/queue/wishes/resume")


@pytest.mark.spec("K12")
async def test_an_effect_in_doubt_is_answered_by_a_person(kernel: Kernel, operator: httpx.AsyncClient) -> None:
    key = "review/7/ann@example.org/1"
    await plan_effect(kernel, key)
    body = {"key": key, "sent": True, "provider_id": "m-1"}
    assert await refused(operator, "/effects/answer", body) == (409, "NOT_ALLOWED")
    await in_doubt(kernel, key)
    assert (await got(operator, "/effects?status=review"))["items"][0]["key"] == key
    assert (await did(operator, "/effects/answer", body))["status"] == "sent"
    assert (await got(operator, "/effects?status=sent&provider=oracle"))["items"][0]["provider_id"] == "m-1"
    assert await refused(operator, "/effects/answer", {"key": "nothing", "sent": True}) == (404, "NOT_FOUND")


async def plan_effect(kernel: Kernel, key: str) -> None:
    async with kernel.store.transaction() as tx:
        plan = effects.Plan(key, "t", None, "Grant", "ask", "oracle", "neither", epoch=0, attempt=1)
        await effects.plan(tx, [plan], kernel.now())


async def in_doubt(kernel: Kernel, key: str) -> None:
    job = await wish(kernel)
    async with kernel.store.transaction() as tx:
        now = kernel.now()
        await jobs.claim_one(tx, job, jobs.Claim("w", (), kernel.registry.declared, 1, now + 60_000), now)
        assert await effects.begin(tx, [effects.Begin(key, job, attempt=1, epoch=0, sends=0)], kernel.now())
        assert await effects.ask(tx, key, "nobody can know", kernel.now())


async def test_a_message_that_was_set_aside_is_published_again(kernel: Kernel, operator: httpx.AsyncClient) -> None:
    message = kernel.new_uuid4()
    async with kernel.store.transaction() as tx:
        await outbox.put(tx, [(message, "a", "x/y", "told", "{}", "{}")], kernel.now())
        rows = await outbox.claim(tx, "token", kernel.now(), kernel.now() + 1_000, 10)
        await outbox.refused(tx, "token", rows[0].seq, "no such queue", kernel.now(), 1)
    assert (await got(operator, "/outbox?status=failed"))["items"][0]["error_message"] == "no such queue"
    assert (await did(operator, f"/outbox/{message}/requeue"))["status"] == "pending"
    assert await refused(operator, f"/outbox/{message}/requeue") == (404, "NOT_FOUND")


@pytest.mark.spec("K18")
async def test_costs_are_told_by_day_provider_and_kind(
    kernel: Kernel, operator: httpx.AsyncClient, clock: HandClock
) -> None:
    job = await wish(kernel)
    for micros, outcome in ((700, "ok"), (300, "failed")):
        async with kernel.store.transaction() as tx:
            new = calls.NewCall(
                kernel.new_id(), job, "ask", 1, "oracle", kernel.now(), 12, outcome, 200, None, micros, None
            )
            await calls.put(tx, [new])
        clock.advance(86_400)
    told = (await got(operator, "/costs?days=3"))["items"]
    names = ("system", "day", "provider", "kind", "calls", "failed", "cost_micros")
    assert [tuple(one[name] for name in names) for one in told] == [
        ("wishes", "2026-01-02", "oracle", "wishes.grant", 1, 1, 300),
        ("wishes", "2026-01-01", "oracle", "wishes.grant", 1, 0, 700),
    ]
    assert (await got(operator, "/costs?days=3"))["total_cost_micros"] == 1_000
    assert (await got(operator, "/costs?days=2"))["total_cost_micros"] == 300


async def test_the_overview_shows_each_system(kernel: Kernel, operator: httpx.AsyncClient, clock: HandClock) -> None:
    await wish(kernel)
    clock.advance(5)
    item = (await got(operator, "/overview"))["items"][0]
    assert (item["system"], item["oldest_age_s"], item["dead_letters_open"]) == ("wishes", 5.0, 0)
    assert item["runs_jobs"] is True
    assert item["lanes"] == [{"queue": "wishes", "state": "queued", "jobs": 1, "oldest_age_s": 5.0}]
    assert item["undeclared"] == []
    assert item["light"] == "red" and [notice["topic"] for notice in item["asks"]] == ["no_worker"]


@pytest.mark.spec("K22")
async def test_the_overview_names_the_stage_that_no_running_worker_declares(
    kernel: Kernel, operator: httpx.AsyncClient
) -> None:
    await wish(kernel)
    async with kernel.store.transaction() as tx:
        await workers.seen(tx, "of another release", "wishes", 0, kernel.now(), '{"wishes.other stage 1": []}')
    item = (await got(operator, "/overview"))["items"][0]
    kind = Grant.__holdfast__
    assert item["undeclared"] == [{"kind": kind.name, "stage": kind.stages[0].name, "jobs": 1}]
