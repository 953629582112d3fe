"""The main app over HTTP: who may see and do what, and what each answer says."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from pydantic import TypeAdapter
from tests.http.described import Described
from tests.systems.grading.callbacks_made import completed, error, event_id, progress, result
from tests.systems.grading.pair import SPEAKING, WRITING, Pair

from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.settings import Settings
from holdfast.system import OpenSystem
from holdfast_systems.grading.contract import SLA_MS, UtcTime
from holdfast_systems.grading.system import grading_main

Client = Callable[..., httpx.AsyncClient]


@pytest.fixture
async def client(pair: Pair, tmp_path: Path) -> AsyncIterator[Client]:
    """client("ann", "learner") signs in."""
    settings = Settings(data_dir=str(tmp_path))
    web = create_app(settings, [OpenSystem(grading_main(), pair.main.kernel, {})])
    opened: list[httpx.AsyncClient] = []
    described = Described(web)

    def make(sub: str = "ann", *roles: str) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {token_for(settings, sub, roles or ('learner',))}"}
        opened.append(httpx.AsyncClient(transport=httpx.ASGITransport(described), base_url="http://h", headers=headers))
        return opened[-1]

    yield make
    for one in opened:
        await one.aclose()
    assert described.problems == []


async def post(
    client: httpx.AsyncClient, skill: str = "writing", payload: object = WRITING, key: str | None = None
) -> httpx.Response:
    headers = {"Idempotency-Key": key or str(uuid.uuid4())}
    return await client.post("/api/submissions", json={"skill": skill, "payload": payload}, headers=headers)


@pytest.mark.spec("G1", "G2", "000.2", "000.18")
@pytest.mark.parametrize(("skill", "payload"), [("writing", WRITING), ("speaking", SPEAKING)])
async def test_a_submission_is_answered_with_what_a_client_needs(client: Client, skill: str, payload: object) -> None:
    answer = await post(client(), skill, payload)
    body = answer.json()
    assert (answer.status_code, body["status"], body["skill"]) == (201, "PENDING", skill)
    assert uuid.UUID(body["requestId"]).version == 4 and uuid.UUID(body["id"])
    assert _ms(body["deadlineAt"]) - _ms(body["createdAt"]) == SLA_MS[skill]
    assert "result" not in body and "failureReason" not in body
    shown = (await client().get(f"/api/submissions/{body['id']}")).json()
    assert shown == body


def _ms(text: str) -> int:
    return round(TypeAdapter(UtcTime).validate_python(text).timestamp() * 1_000)


@pytest.mark.spec("G1", "K13", "003.2", "003.3")
async def test_a_key_replays_its_answer_and_refuses_another_payload(client: Client, pair: Pair) -> None:
    key = str(uuid.uuid4())
    answers = await asyncio.gather(*[post(client(), key=key) for _ in range(4)])
    assert len({one.json()["id"] for one in answers}) == 1 and {one.status_code for one in answers} == {201}
    assert sorted(one.headers.get("idempotency-replayed", "") for one in answers) == ["", "true", "true", "true"]
    other = await post(client(), payload=WRITING | {"text": "Something else."}, key=key)
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert (await post(client("bob"), key=key)).json()["id"] != answers[0].json()["id"], "keys are the user's own"
    missing = await client().post("/api/submissions", json={"skill": "writing", "payload": WRITING})
    assert missing.status_code == 400
    assert len(await pair.query(pair.main, "SELECT id FROM submissions")) == 2


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    ("skill", "payload"),
    [
        ("reading", WRITING),
        ("writing", {}),
        ("writing", WRITING | {"taskType": "poem"}),
        ("writing", WRITING | {"text": None}),
        ("speaking", WRITING),
        ("speaking", SPEAKING | {"audioUrl": "file:///etc/passwd"}),
        ("speaking", SPEAKING | {"durationSeconds": 0}),
        ("speaking", SPEAKING | {"part": 4}),
        ("writing", "text"),
    ],
)
async def test_a_wrong_submission_is_refused_in_words(client: Client, skill: str, payload: object) -> None:
    answer = await post(client(), skill, payload)
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_INPUT")
    assert answer.headers["content-type"].startswith("application/problem+json")


@pytest.mark.spec("G1", "G13")
async def test_what_is_not_yours_is_not_there(client: Client) -> None:
    mine = (await post(client())).json()["id"]
    for path in (f"/api/submissions/{mine}", f"/api/submissions/{mine}/events"):
        assert (await client("bob").get(path)).status_code == 404
        assert (await client("ida", "instructor").get(path)).status_code == 403
    for wrong in ("nope", str(uuid.uuid4()), mine + "0"):
        assert (await client().get(f"/api/submissions/{wrong}")).status_code == 404
    assert (await client("bob").get("/api/submissions")).json() == {"items": [], "nextCursor": None}
    assert (await client().get("/api/instructor/queue")).status_code == 403
    for step in ("claim", "release"):
        assert (await client().post(f"/api/submissions/{mine}/review/{step}")).status_code == 403


@pytest.mark.spec("G1")
async def test_a_learner_pages_through_the_newest_first(client: Client, pair: Pair) -> None:
    made = []
    for _ in range(5):
        made.append((await post(client())).json()["id"])
        pair.clock.advance(1)
    first = (await client().get("/api/submissions", params={"limit": 3})).json()
    second = (await client().get("/api/submissions", params={"limit": 3, "cursor": first["nextCursor"]})).json()
    assert [one["id"] for one in first["items"] + second["items"]] == made[::-1]
    assert second["nextCursor"] is None
    assert (await client().get("/api/submissions", params={"status": "FAILED"})).json()["items"] == []
    assert (await client().get("/api/submissions", params={"cursor": "x"})).status_code == 422


@pytest.mark.spec("G9", "G10")
async def test_the_result_is_shown_once_it_is_final(client: Client, pair: Pair) -> None:
    one, two = (await post(client())).json(), (await post(client())).json()
    await pair.call_back(completed(one["requestId"], one["id"], result(6.5, 60)))
    shown = (await client().get(f"/api/submissions/{one['id']}")).json()
    assert shown["status"] == "REVIEW_REQUIRED" and "result" not in shown
    await pair.call_back(error(two["requestId"], two["id"], "STT_FAIL"))
    shown = (await client().get(f"/api/submissions/{two['id']}")).json()
    assert (shown["status"], shown["failureReason"]) == ("FAILED", "STT_FAIL")


@pytest.mark.spec("G11", "002.14")
async def test_an_instructor_claims_reviews_and_the_learner_gets_the_final_grade(client: Client, pair: Pair) -> None:
    mine = (await post(client())).json()
    await pair.call_back(completed(mine["requestId"], mine["id"], result(7.0, 60)))
    path = f"/api/submissions/{mine['id']}/review"
    ida, ben = client("ida", "instructor"), client("ben", "instructor")
    assert (await ida.post(path, json={"overallScore": 7.5})).json()["code"] == "NOT_CLAIMED"
    assert (await ida.post(f"{path}/claim")).json()["claimedBy"] == "ida"
    for refused in (await ben.post(f"{path}/claim"), await ben.post(f"{path}/release")):
        assert (refused.status_code, refused.json()["code"]) == (409, "ALREADY_CLAIMED")
    assert (await ben.post(path, json={"overallScore": 7.5})).status_code == 409
    assert (await ida.post(path, json={"overallScore": 11})).status_code == 422
    key = {"Idempotency-Key": str(uuid.uuid4())}
    reviewed = await ida.post(path, json={"overallScore": 7.5, "feedback": "Clear."}, headers=key)
    body = reviewed.json()
    assert reviewed.status_code == 200 and (body["status"], body["mode"]) == ("COMPLETED", "hybrid")
    assert (body["aiResult"]["overallScore"], body["humanResult"]["overallScore"]) == (7.0, 7.5)
    assert body["finalResult"]["overallScore"] == 7.3
    again = await ida.post(path, json={"overallScore": 7.5, "feedback": "Clear."}, headers=key)
    assert again.json() == body and again.headers["idempotency-replayed"] == "true"
    assert (await ida.post(path, json={"overallScore": 7.5})).json()["code"] == "NOT_IN_REVIEW"
    shown = (await client().get(f"/api/submissions/{mine['id']}")).json()
    assert (shown["status"], shown["result"]["overallScore"]) == ("COMPLETED", 7.3)
    assert "aiResult" not in shown


@pytest.mark.spec("G10", "G11")
async def test_the_queue_goes_by_priority_then_age(client: Client, pair: Pair) -> None:
    confidences, made = [80, 40, 60, 45, 75], []
    for confidence in confidences:
        one = (await post(client())).json()
        made.append(one["id"])
        await pair.call_back(completed(one["requestId"], one["id"], result(6.0, confidence)))
        pair.clock.advance(1)
    ida = client("ida", "instructor")
    listed = []
    cursor: str | None = None
    while True:
        page = (
            await ida.get("/api/instructor/queue", params={"limit": 2} | ({"cursor": cursor} if cursor else {}))
        ).json()
        listed += page["items"]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert [one["id"] for one in listed] == [made[index] for index in (1, 3, 2, 0, 4)]
    assert [one["reviewPriority"] for one in listed] == ["Critical", "Critical", "High", "Medium", "Medium"]
    assert listed[0]["aiResult"]["confidenceScore"] == 40 and listed[0]["payload"] == WRITING


@pytest.mark.spec("G11")
async def test_an_operator_frees_what_an_instructor_left_behind(client: Client, pair: Pair) -> None:
    one = (await post(client())).json()
    await pair.call_back(completed(one["requestId"], one["id"], result(6.0, 60)))
    path = f"/api/submissions/{one['id']}/review"
    await client("ida", "instructor").post(f"{path}/claim")
    assert (await client("olga", "operator").post(f"{path}/release")).json()["claimedBy"] is None
    assert (await client("ben", "instructor").post(f"{path}/claim")).status_code == 200


@pytest.mark.spec("G11")
async def test_of_two_claims_at_once_one_wins(client: Client, pair: Pair) -> None:
    one = (await post(client())).json()
    await pair.call_back(completed(one["requestId"], one["id"], result(6.0, 60)))
    path = f"/api/submissions/{one['id']}/review/claim"
    answers = await asyncio.gather(*[client(f"i-{n}", "instructor").post(path) for n in range(5)])
    assert sorted(each.status_code for each in answers) == [200, 409, 409, 409, 409]


def told(text: str) -> list[tuple[str, str, dict[str, Any]]]:
    """The events of a finished stream: id, name, data."""
    found = []
    for block in text.replace("\r\n", "\n").strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in fields:
            found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return found


@pytest.mark.spec("G13")
async def test_a_stream_tells_all_in_order_and_ends_with_the_end(client: Client, pair: Pair) -> None:
    one = (await post(client())).json()
    sent = [
        progress(one["requestId"], one["id"], "PROCESSING", 0.1),
        progress(one["requestId"], one["id"], "GRADING", 0.7),
        completed(one["requestId"], one["id"], result(7.0, 95)),
    ]
    for callback in sent:
        await pair.call_back(callback)
    path = f"/api/submissions/{one['id']}/events"
    answer = await client().get(path)
    events = told(answer.text)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [event[0] for event in events] == [callback.event_id for callback in sent], "ids are the eventIds"
    assert [event[1] for event in events] == ["grading.progress", "grading.progress", "grading.completed"]
    assert events[-1][2]["result"]["overallScore"] == 7.0
    replayed = await client().get(path, headers={"Last-Event-ID": sent[0].event_id})
    assert told(replayed.text) == events[1:]
    unknown = await client().get(path, headers={"Last-Event-ID": event_id()})
    assert told(unknown.text) == events, "an unknown id starts from the beginning"
    over = await client().get(path, headers={"Last-Event-ID": sent[-1].event_id})
    assert over.status_code == 204, "who has seen the end need not come back"


@pytest.mark.spec("G13")
async def test_an_open_stream_hears_of_what_happens_next(client: Client, pair: Pair) -> None:
    one = (await post(client())).json()
    path = f"/api/submissions/{one['id']}/events"
    listening = asyncio.ensure_future(client().get(path))
    await pair.call_back(progress(one["requestId"], one["id"], "ANALYZING", 0.4))
    await pair.call_back(completed(one["requestId"], one["id"], result(6.0, 60)))
    ida = client("ida", "instructor")
    await ida.post(f"/api/submissions/{one['id']}/review/claim")
    await ida.post(f"/api/submissions/{one['id']}/review", json={"overallScore": 2.0, "band": "A1"})
    async with asyncio.timeout(10):
        events = told((await listening).text)
    names = [name for _, name, _ in events if name != "ping"]
    assert names == ["grading.progress", "grading.review_required", "grading.completed"]
    assert "result" not in events[1][2], "the AI's grade is not the learner's before the review"


@pytest.mark.spec("G13")
async def test_a_ticket_opens_the_stream_of_its_owner(client: Client, pair: Pair) -> None:
    one = (await post(client())).json()
    await pair.call_back(error(one["requestId"], one["id"]))
    path = f"/api/submissions/{one['id']}/events"
    for user, status in (("ann", 200), ("bob", 404)):
        ticket = (await client(user).post("/api/tickets")).json()["ticket"]
        bare = client(user)
        del bare.headers["Authorization"]
        assert (await bare.get(path, params={"ticket": ticket})).status_code == status


@pytest.mark.spec("G18")
async def test_the_contract_is_served_as_it_is_published(client: Client) -> None:
    answer = await client().get("/asyncapi.yaml")
    assert answer.status_code == 200 and yaml.safe_load(answer.text)["asyncapi"] == "3.0.0"
    assert answer.text == (Path(__file__).parents[3] / "docs/contract/asyncapi.yaml").read_text()
