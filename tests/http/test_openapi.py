"""The OpenAPI document: every operation says what it takes and answers, and a client made from it works."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from fastapi import FastAPI
from tests.http.described import JSON, Described
from tests.http.test_ops import in_doubt, plan_effect
from tests.http.wishes import Grant, Wish, app

from holdfast import App, Context, Job, stage
from holdfast.engines.worker import Worker
from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.kernel.compose.signing import CallbackSigner
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.submit import submit
from holdfast.kernel.upkeep.schedule import announce_schedules
from holdfast.operator.incident_watch import watch_incidents
from holdfast.operator.rollup import roll_up_once
from holdfast.settings import Settings
from holdfast.stores.sqlite import SqliteStore
from holdfast.system import OpenSystem, System
from holdfast.tables import calls, outbox, workers
from holdfast.testing import HandClock

yard = App("yard")
FREE: tuple[dict[str, Any], ...] = ({}, {"type": "object", "additionalProperties": True})


@yard.job()
class Ask(Job[Wish]):
    @stage()
    async def wait(self, ctx: Context, wish: Wish) -> str:
        return str(await ctx.wait_for(wish.text, timeout_s=86_400))


yard.schedule("0 4 * * *", Ask, Wish(text="daily"), name="daily")


class GeneratedClient:
    """What a generator makes of a document: a method for each operation, named by its id."""

    def __init__(self, document: Mapping[str, Any], transport: httpx.AsyncClient) -> None:
        self._transport = transport
        self.operations = {
            operation["operationId"]: (method, path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        }

    async def call(self, operation_id: str, /, **arguments: Any) -> httpx.Response:
        method, path, operation = self.operations[operation_id]
        known = {each["name"]: each["in"] for each in operation.get("parameters", ())}
        body = arguments.pop("body", None)
        assert arguments.keys() <= known.keys(), (operation_id, arguments)
        place = path.format(**{name: arguments[name] for name, where in known.items() if where == "path"})
        query = {name: value for name, value in arguments.items() if known[name] == "query"}
        headers = {name: value for name, value in arguments.items() if known[name] == "header"}
        sent: dict[str, Any] = {} if body is None else {"json": body}
        if body is not None:
            assert JSON in operation["requestBody"]["content"], operation_id
        return await self._transport.request(method, place, params=query, headers=headers, **sent)


def open_kernel(folder: Path, clock: HandClock) -> Kernel:
    signer = CallbackSigner("http://here", "s" * 40)
    store = SqliteStore(folder / "yard.db", clock=clock)
    return Kernel(store=store, registry=Registry([app, yard]), callbacks=signer)


def open_web(settings: Settings, kernel: Kernel) -> FastAPI:
    system = System("yard", "Yard", "X", build=lambda env: app)
    return create_app(settings, [OpenSystem(system, kernel, {})])


def test_every_operation_says_what_it_takes_and_what_it_answers(
    settings: Settings, tmp_path: Path, clock: HandClock
) -> None:
    assert untyped_operations(open_web(settings, open_kernel(tmp_path, clock)).openapi()) == []


def untyped_operations(document: Mapping[str, Any]) -> list[str]:
    """Those that take or answer with anything at all."""
    untyped = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answers = {status: each for status, each in operation["responses"].items() if status.startswith("2")}
            schemas = [part.get("schema", {}) for each in answers.values() for part in each["content"].values()]
            schemas += [part["schema"] for part in operation.get("requestBody", {}).get("content", {}).values()]
            bare = [{name: value for name, value in schema.items() if name != "title"} for schema in schemas]
            untyped += [f"{method} {path}"] if not bare or any(each in FREE for each in bare) else []
    return untyped


class Yard:
    """A system in which everything that can be asked for is there to be asked for."""

    def __init__(self, kernel: Kernel, client: GeneratedClient) -> None:
        self.kernel, self.client = kernel, client

    async def do(self, name: str, /, **arguments: Any) -> Any:
        (operation_id,) = [each for each in self.client.operations if each.startswith(f"{name}_api_ops")]
        answer = await self.client.call(operation_id, **arguments)
        assert answer.status_code == 200, (name, answer.text)
        return answer.json() if answer.headers["content-type"] == JSON else answer.text

    async def job(self, fails: str = "", **options: Any) -> str:
        return await submit(self.kernel, Grant, Wish(text="rain", fails=fails), **options)

    async def letter(self, upto: Literal["open", "triaged", "remediated"] = "open") -> str:
        job_id = await self.job("NEVER")
        await Worker(self.kernel).run_until_idle()
        case_id: str = (await self.do("show_job", job_id=job_id))["dead_letter"]["id"]
        if upto != "open":
            await self.do("triage", case_id=case_id, body={"cause": "data"})
        if upto == "remediated":
            await self.do("remediate", case_id=case_id, body={"evidence": "seen"})
        return case_id


@pytest.mark.spec("K17")
async def test_a_client_made_from_the_document_calls_every_operation(
    settings: Settings, tmp_path: Path, clock: HandClock
) -> None:
    kernel = open_kernel(tmp_path, clock)
    await kernel.migrate()
    described = Described(open_web(settings, kernel))
    headers = {"Authorization": f"Bearer {token_for(settings, 'olga', ['operator'])}"}
    transport = httpx.ASGITransport(described)
    async with httpx.AsyncClient(transport=transport, base_url="http://holdfast", headers=headers) as asked:
        made = GeneratedClient((await asked.get("/openapi.json")).json(), asked)
        here = Yard(kernel, made)
        await _jobs(here, clock)
        await _letters(here)
        await _service(here, clock)
        for path in ("/healthz", "/readyz"):
            assert (await asked.get(path)).status_code == 200
        assert (await asked.post("/api/tickets")).status_code == 201
        await _answer_by_address(here)
    await kernel.store.close()
    assert described.problems == []
    streams = {"GET /api/ops/changes", "GET /metrics", "GET /api/ops/incidents/{incident_id}/post-mortem"}
    everything = {f"{method.upper()} {path}" for method, path, _ in made.operations.values()}
    assert everything - described.seen == streams


async def _jobs(here: Yard, clock: HandClock) -> None:
    kernel = here.kernel
    late, ended = await here.job(delay_s=60), await here.job(owner="ann", key="order-7")
    call = calls.NewCall(kernel.new_id(), ended, "ask", 1, "oracle", kernel.now(), 12, "ok", 200, None, 700, None)
    async with kernel.store.transaction() as tx:
        await calls.put(tx, [call])
        await outbox.put(tx, [(kernel.new_uuid4(), ended, "x/y", "told", "{}", "{}")], kernel.now())
    await Worker(kernel).run_until_idle()
    await here.do("set_priority", job_id=late, body={"priority": 0})
    await here.do("run_job_now", job_id=late)
    await here.do("cancel_job", job_id=await here.job(delay_s=60))
    waits = await submit(kernel, Ask, Wish(text="the answer"))
    await Worker(kernel).run_until_idle()
    assert (await here.do("answer_job", job_id=waits, body={"value": {"so": 7}}))["delivered"]
    acted = await here.do("act_on_jobs", body={"action": "delete", "ids": [ended, late], "dry_run": True})
    assert len(acted["done"]) == 2
    page = await here.do("list_jobs", q="owner:ann", limit=10)
    assert [row["job_key"] for row in page["items"]] == ["order-7"]
    assert (await here.do("count_jobs", q="state:succeeded"))["is_all"]
    assert (await here.do("show_job", job_id=ended))["cost_micros"] == 700
    clock.advance(70)
    await roll_up_once(kernel)
    assert (await here.do("read_charts", minutes=5, kind="wishes.grant"))["items"][0]["points"]
    await here.do("delete_job", job_id=ended)


async def _letters(here: Yard) -> None:
    which = {"filter": {"error_class": "NEVER"}}
    await here.do("resolve", case_id=await here.letter("triaged"), body={"without_replay": "of no use"})
    await here.do("correct_input", case_id=await here.letter(), body={"set": {"fails": ""}, "dry_run": True})
    await here.do("mend", case_id=(await here.letter()), body={"dry_run": True, "set": {"fails": ""}})
    await here.do("mend", case_id=(await here.letter()), body={"set": {"fails": ""}})
    await here.do("replay", case_id=await here.letter("remediated"), body={"delay_s": 1})
    await here.do("bulk_triage", body={**which, "cause": "data", "limit": 1})
    await here.do("bulk_remediate", body={**which, "evidence": "seen"})
    await here.do("bulk_replay", body={**which, "per_minute": 60})
    refused = await here.do("bulk_resolve", body={**which, "notes": "done"})
    assert refused["refused"], "they have not run"
    await _group(here)
    assert (await here.do("list_groups"))["items"] and (await here.do("list_cases"))["items"]
    await here.do("show_case", case_id=(await here.do("list_cases"))["items"][0]["id"])


async def _group(here: Yard) -> None:
    group = (await here.do("show_case", case_id=await here.letter()))["fingerprint"]
    preview = {"dry_run": True, "set": {"fails": ""}, "per_minute": 60}
    assert (await here.do("mend_group", fingerprint=group, body=preview))["letters"] == 3
    begun = await here.do("mend_group", fingerprint=group, body={"evidence": "seen", "per_minute": 60})
    assert (await here.do("list_replays"))["items"]
    for verb in ("pause_replay", "resume_replay", "stop_replay"):
        await here.do(verb, replay_id=begun["id"])
    assert (await here.do("show_replay", replay_id=begun["id"][:13]))["state"] == "stopped"


async def _service(here: Yard, clock: HandClock) -> None:
    kernel = here.kernel
    async with kernel.store.transaction() as tx:
        await workers.seen(tx, "host:1", "wishes", 0, kernel.now(), "{}", release="0.2.0")
        message = kernel.new_uuid4()
        await outbox.put(tx, [(message, "a", "x/y", "told", "{}", "{}")], kernel.now())
        for row in await outbox.claim(tx, "token", kernel.now(), kernel.now() + 1_000, 10):
            await outbox.refused(tx, "token", row.seq, "no such queue", kernel.now(), 1)
    await here.do("requeue_message", message_id=message)
    await here.do("drain", name="host:1")
    await here.do("undrain", name="host:1")
    await here.do("pause", sort="kind", name="wishes.grant", body={"reason": "a fair"})
    assert {row["is_paused"] for row in (await here.do("list_pauses"))["items"]} == {True, False}
    await here.do("resume", sort="kind", name="wishes.grant")
    await here.do("open_breaker", name="oracle", body={"reason": "it lies"})
    await here.job()
    await Worker(kernel).run_until_idle()
    await watch_incidents(kernel)
    incidents = (await here.do("list_incidents"))["items"]
    incident = next(row["id"] for row in incidents if row["topic"] == "provider_down")
    await here.do("acknowledge", incident_id=incident)
    await here.do("assign", incident_id=incident, body={"assignee": "ben"})
    await here.do("comment", incident_id=incident, body={"text": "asked"})
    await here.do("close_breaker", name="oracle")
    clock.advance(15)
    await watch_incidents(kernel)
    await here.do("close", incident_id=incident, body={"summary": "it lied"})
    assert "it lied" in await here.do("post_mortem", incident_id=incident)
    await here.do("show_incident", incident_id=incident)
    await plan_effect(kernel, "review/7")
    await in_doubt(kernel, "review/7")
    assert (await here.do("list_effects"))["items"]
    await here.do("answer_effect", body={"key": "review/7", "sent": True})
    for name in ("show_overview", "list_breakers", "list_outbox", "list_audit", "costs", "list_workers"):
        assert (await here.do(name))["items"], name
    assert (await here.do("breaker_history", name="oracle"))["items"]
    await _schedules(here)


async def _schedules(here: Yard) -> None:
    await announce_schedules(here.kernel)
    assert (await here.do("list_schedules"))["items"][0]["paused"] is False
    await here.do("pause_schedule", name="daily")
    await here.do("resume_schedule", name="daily")
    await here.do("run_schedule", name="daily")
    assert (await here.do("list_runs", name="daily"))["items"][0]["state"] == "queued"


async def _answer_by_address(here: Yard) -> None:
    kernel = here.kernel
    waits = await submit(kernel, Ask, Wish(text="by letter"))
    await Worker(kernel).run_until_idle()
    assert waits
    expires = kernel.now() + 60_000
    address = httpx.URL(kernel.callbacks.url("yard", "by letter", expires))
    signature = address.params["signature"]
    (name,) = [each for each in here.client.operations if each.startswith("take_callback")]
    answer = await here.client.call(name, queue="yard", key="by letter", expires=expires, signature=signature)
    assert (answer.status_code, json.loads(answer.text)) == (202, {"delivered": True})
