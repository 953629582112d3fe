"""The grading service from the main app's console: asked over its own HTTP, with the operator's own token."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.systems.grading.pair import SPEAKING, Pair
from tests.systems.grading.test_grading_service import request, send
from tests.systems.grading.two_servers import two_servers

from holdfast.settings import problems
from holdfast.tables import audit
from holdfast_systems.grading.settings import MainSettings

AWAY = "The grading service does not answer at present; look at its process and at GRADING_SERVICE_URL."
READS = ("overview", "jobs", "breakers", "dead-letters")


async def one_dead(pair: Pair) -> str:
    """A grading that died: its request."""
    asked = request(pair, skill="speaking", payload=SPEAKING)  # nobody fetches audio here: a defect
    await send(pair, asked)
    await pair.settle()
    return str(asked["requestId"])


@pytest.mark.spec("000.41")
async def test_the_console_shows_the_jobs_breakers_and_letters_of_the_service(pair: Pair, tmp_path: Path) -> None:
    await one_dead(pair)
    async with two_servers(pair, tmp_path) as (main, service):
        for noun in READS:
            here = (await main.ask("GET", f"/api/ops/service/{noun}")).json()
            there = (await service.ask("GET", f"/api/ops/{noun}")).json()
            assert here["items"] and here == there
            assert {item["system"] for item in here["items"]} == {"grading-service"}
        (job,) = (await main.ask("GET", "/api/ops/service/jobs", params={"state": "dead"})).json()["items"]
        assert (await main.ask("GET", "/api/ops/service/jobs?state=queued")).json()["items"] == []
        story = (await main.ask("GET", f"/api/ops/service/jobs/{job['id']}")).json()
        assert story["state"] == "dead" and story["why"]
        assert (await main.ask("GET", "/api/ops/jobs")).json()["items"] == [], "the main app's own are its own"


@pytest.mark.spec("000.41", "K8")
async def test_what_is_done_there_is_done_in_the_operators_name(pair: Pair, tmp_path: Path) -> None:
    await one_dead(pair)
    async with two_servers(pair, tmp_path) as (main, _):
        (letter,) = (await main.ask("GET", "/api/ops/service/dead-letters")).json()["items"]
        path = f"/api/ops/service/dead-letters/{letter['id']}"
        early = await main.ask("POST", f"{path}/replay", json={})
        assert (early.status_code, early.json()["code"]) == (409, "NOT_ALLOWED"), "the service's own problem"
        mended = {"set": {"payload.duration_seconds": 17}, "reason": "it was cut"}
        seen = (await main.ask("POST", f"{path}/correct", json=mended | {"dry_run": True})).json()
        assert [change["path"] for change in seen["changes"]] == ["payload.duration_seconds"]
        for step, body in (("triage", {"cause": "code"}), ("correct", mended), ("replay", {})):
            assert (await main.ask("POST", f"{path}/{step}", json=body)).status_code == 200
        shut = await main.ask("POST", "/api/ops/service/breakers/llm/open", json={"reason": "maintenance"})
        assert shut.json()["gate"] == "open"
        assert (await main.ask("GET", path)).json()["state"] == "replayed"
    async with pair.service.kernel.store.reading() as tx:
        steps = await audit.of_subject(tx, f"case:{letter['id']}")
        assert [(row.actor, row.action) for row in steps][-3:] == [
            ("olga", "case.triaged"),
            ("olga", "case.corrected"),
            ("olga", "case.replayed"),
        ]
        (opened,) = await audit.of_subject(tx, "breaker:llm")
        assert opened.actor == "olga"


@pytest.mark.spec("000.41")
@pytest.mark.parametrize("noun", READS)
async def test_a_service_that_is_away_is_one_sentence(sure: Pair, tmp_path: Path, noun: str) -> None:
    async with two_servers(sure, tmp_path) as (main, service):
        await service.stack.aclose()
        answer = await main.ask("GET", f"/api/ops/service/{noun}")
        assert (answer.status_code, answer.json()["code"]) == (503, "GRADING_SERVICE_AWAY")
        assert answer.json()["detail"] == AWAY
        assert (await main.ask("GET", "/api/ops/overview")).status_code == 200


@pytest.mark.spec("000.41")
async def test_a_service_that_never_answers_is_not_waited_for(sure: Pair, tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    settings = {"GRADING_SERVICE_URL": address, "GRADING_SERVICE_TIMEOUT_SEC": "0.05"}
    async with two_servers(sure, tmp_path, **settings) as (main, _):
        answer = await asyncio.wait_for(main.ask("GET", "/api/ops/service/jobs"), 10)
    assert answer.json()["detail"] == AWAY
    listener.close()


@pytest.mark.spec("000.41")
async def test_both_check_the_role(sure: Pair, tmp_path: Path) -> None:
    async with two_servers(sure, tmp_path) as (main, _):
        for noun in READS:
            assert (await main.ask("GET", f"/api/ops/service/{noun}", roles=["instructor"])).status_code == 403
        answer = await main.ask("POST", "/api/ops/service/breakers/llm/open", roles=["learner"], json={"reason": "x"})
        assert answer.status_code == 403
    async with two_servers(sure, tmp_path, service_secret="another-secret-" * 5) as (main, _):
        answer = await main.ask("GET", "/api/ops/service/jobs")
        assert (answer.status_code, answer.json()["code"]) == (502, "GRADING_SERVICE_REFUSED")
        assert "refuses your token" in answer.json()["detail"]


@pytest.mark.spec("000.41")
@pytest.mark.parametrize("content", [b"<html>", b"[]", b"{}"])
async def test_what_is_no_grading_service_is_named(sure: Pair, tmp_path: Path, content: bytes) -> None:
    async def answer_with(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(content) + content
        )
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(answer_with, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with two_servers(sure, tmp_path, GRADING_SERVICE_URL=address) as (main, _):
        answer = await main.ask("GET", "/api/ops/service/jobs")
    assert (answer.status_code, answer.json()["code"]) == (502, "GRADING_SERVICE_UNREADABLE")
    listener.close()


@pytest.mark.spec("000.41")
async def test_without_an_address_it_is_not_shown_and_a_bad_one_is_a_setting_to_mend(
    sure: Pair, tmp_path: Path
) -> None:
    async with two_servers(sure, tmp_path, GRADING_SERVICE_URL="") as (main, _):
        answer = await main.ask("GET", "/api/ops/service/jobs")
    assert answer.status_code == 404 and "GRADING_SERVICE_URL is not set" in answer.json()["detail"]
    assert problems(MainSettings, {"GRADING_SERVICE_URL": "grading:8000"}) == [
        "GRADING_SERVICE_URL must start with http:// or https://."
    ]
    assert problems(MainSettings, {"GRADING_SERVICE_URL": "http://grading:8000"}) == []
