"""Sentences of the sources as somebody outside sees them: by HTTP, commands, messages and tables, and none of our code.

Each of these broke a sentence once. They ask for nothing by a name that older releases do not have, except for the
command or the path that was missing, so that they can be laid beside an older release and be seen to fail there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.acceptance.grading_site import ENDS, PATIENCE_S, GradingSite, MainApp, callback, graded, request
from tests.acceptance.model_endpoint import Answer as ModelAnswer
from tests.acceptance.outside import Answer, Deployed, deployed
from tests.acceptance.process import Nursery, until

pytestmark = pytest.mark.slow
PUBLIC = {"NOT_PDF", "TOO_LARGE", "GW_4XX", "GW_5XX", "GW_TIMEOUT", "IO_ERROR", "NOT_READY", "EXPIRED", "FORBIDDEN"}
PUBLIC |= {"UNKNOWN"}


@pytest.fixture(scope="module")
def place(grading_nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """One deployment for the whole module: every test has documents and changelists of its own."""
    with deployed(grading_nursery, tmp_path_factory.mktemp("outside")) as made:
        yield made


@pytest.fixture(autouse=True)
def well(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test made of the providers ends with it."""
    yield
    if "place" in request.fixturenames:
        outside = request.getfixturevalue("place").outside
        outside.gateway.clear()
        outside.mail.clear()
        outside.gateway_always = outside.mail_always = None
        outside.is_held = False


@pytest.mark.spec("001.1")
async def test_a_user_sees_only_the_public_codes(place: Deployed) -> None:
    unknown = "00000000-0000-7000-8000-000000000000"
    async with place.client() as client:
        answers = [
            await client.get(f"/api/jobs/{unknown}"),
            await client.get("/api/jobs/no-id"),
            await client.post("/api/jobs", content=b"no form"),
            await client.post(f"/api/jobs/{unknown}/retry"),
            await client.get("/api/jobs", headers={"Authorization": "Bearer nonsense"}),
        ]
    assert {answer.json()["code"] for answer in answers} <= PUBLIC
    assert all(400 <= answer.status_code < 500 for answer in answers)


@pytest.mark.spec("001.12")
async def test_a_retry_is_converted_before_what_was_uploaded_after_it(place: Deployed) -> None:
    outside = place.outside
    outside.gateway.append(Answer(502))
    outside.converted.clear()
    outside.is_held = True
    jobs = [await place.upload(name) for name in ("first", "second", "third", "fourth")]

    async def begun(count: int) -> bool:
        return len(outside.converted) >= count

    async def due() -> bool:
        return (await place.job(jobs[0]))["retryAfter"] is None

    await until(partial(begun, 1), "the first document to reach the gateway")
    outside.answer_one()  # it fails, and is due again after 0.3 s
    await until(partial(begun, 2), "the second document to reach the gateway")
    await until(due, "the first document to be due again")
    for count in (3, 4, 5):
        outside.answer_one()
        await until(partial(begun, count), "the next document to reach the gateway")
    outside.answer_one()
    for job_id in jobs:
        await place.until_job(job_id, "complete")
    assert outside.converted == ["first", "second", "first", "third", "fourth"]


async def convert_and_refuse(place: Deployed) -> None:
    await place.until_job(await place.upload("good"), "complete")
    place.outside.gateway.append(Answer(400, b"/srv/secret/path Traceback"))
    refused = await place.until_job(await place.upload("bad"), "failed")
    assert refused["error"]["code"] == "GW_4XX"


@pytest.mark.spec("001.33")
async def test_the_readable_view_speaks_the_sources_words(place: Deployed) -> None:
    await convert_and_refuse(place)
    view = "SELECT status, retry_after FROM holdfast_jobs_readable WHERE kind LIKE 'conversion%' AND status <> 'queued'"
    rows = place.query("DATABASE_URL", view)
    assert {status for status, _ in rows} == {"complete", "failed"} and {after for _, after in rows} == {None}


@pytest.mark.spec("001.28")
async def test_metrics_speak_the_sources_words(place: Deployed) -> None:
    await convert_and_refuse(place)
    async with place.client("operator") as client:
        lines = (await client.get("/metrics")).text.splitlines()
    failed = [line for line in lines if line.startswith("holdfast_jobs_failed_total{") and "conversion" in line]
    assert failed and all('code="GW_4XX"' in line for line in failed), failed
    assert any(line.startswith("holdfast_jobs_created_total{") and 'kind="conversion' in line for line in lines)


@pytest.mark.spec("001.3", "001.5")
async def test_a_gateway_that_is_busy_for_ever_is_asked_a_few_times_and_then_no_more(place: Deployed) -> None:
    place.outside.gateway_always = Answer(429, headers={"Retry-After": "1"})
    place.outside.converted.clear()
    job_id = await place.upload("busy")

    async def waits() -> bool:
        async with place.client() as client:
            return (await client.get("/api/jobs")).json()["banner"] is not None

    await until(waits, "the page to say what it waits for")
    assert (await place.until_job(job_id, "failed", 20))["error"]["code"] == "GW_5XX"
    assert 2 <= place.outside.converted.count("busy") <= 5


@pytest.mark.spec("004.1")
@pytest.mark.parametrize(("status", "name"), [(403, "rate_limit_exceeded"), (412, "precondition")])
async def test_what_passes_by_itself_is_tried_again_whatever_its_status(
    place: Deployed, status: int, name: str
) -> None:
    place.outside.mail.append(Answer(status, json.dumps({"name": name}).encode()))
    place.outside.sent.clear()
    await place.review(f"again-{status}", "ada@example.test")
    await place.until_review(f"again-{status}", "succeeded", "failed")
    assert place.outside.sent == ["ada@example.test"] * 2


@pytest.mark.spec("004.7")
async def test_five_sends_are_five(place: Deployed) -> None:
    place.outside.mail_always = Answer(503)
    place.outside.sent.clear()
    await place.review("five", "bob@example.test")
    await place.until_review("five", "failed")
    async with place.client("operator") as client:
        letters = (await client.get("/api/ops/dead-letters")).json()["items"]
    assert place.outside.sent == ["bob@example.test"] * 5
    assert [letter["attempts_made"] for letter in letters if letter["kind"].startswith("review")] == [5]


@pytest.mark.spec("004.24")
async def test_an_id_without_a_time_is_asked_about_before_a_mail(place: Deployed) -> None:
    outside = place.outside
    outside.mail_always = Answer(503)
    outside.sent.clear()
    await place.review("half", "cy@example.test")
    await place.until_review("half", "failed")
    outside.mail_always = None
    outside.sent.clear()
    place.query(
        "REVIEW_DATABASE_URL",
        "UPDATE holdfast_effects SET status = 'planned', provider_id = 'known-1', marked_at = NULL WHERE key IN"
        " (SELECT effect_key FROM review_recipients WHERE recipient = ?)",
        "cy@example.test",
    )
    async with place.client("operator") as client:
        letters = (await client.get("/api/ops/dead-letters")).json()["items"]
        case = next(letter for letter in letters if letter["state"] == "open" and letter["kind"].startswith("review"))
        for act, body in (("triage", {"cause": "transient"}), ("remediate", {"evidence": "it is up"}), ("replay", {})):
            answer = await client.post(f"/api/ops/dead-letters/{case['id']}/{act}", json=body)
            assert answer.status_code == 200, answer.text
    shown = await place.until_review("half", "succeeded")
    assert shown["deliveries"][0]["notification_id"] == "known-1"
    assert outside.sent == [] and outside.asked_ids == ["known-1"]


@pytest.mark.spec("002.3", "000.17")
async def test_a_letter_of_the_queue_is_listed_and_sent_again_by_command(grading_site: GradingSite) -> None:
    grading_site.model.always = ModelAnswer(401)
    grading_site.service()
    main = await grading_site.main()
    submission = await main.submit("letter")
    await main.until_status(submission["id"], "FAILED")

    async def listed() -> list[dict[str, Any]]:
        code, text = await grading_site.run("dlq", "list", "--json")
        assert code == 0, text
        return list(json.loads(text)["items"])

    (letter,) = await until(listed, "the letter to be in the queue", PATIENCE_S)
    assert (letter["requestId"], letter["submissionId"]) == (submission["requestId"], submission["id"])
    grading_site.model.always = ModelAnswer()
    code, text = await grading_site.run("dlq", "resend", letter["id"], "--reason", "the key is valid again")
    assert code == 0, text
    shown = await main.until_status(submission["id"], *ENDS)
    assert not shown["isLate"] and await listed() == []


@pytest.mark.spec("002.10", "000.16")
async def test_a_request_without_a_valid_id_is_answered(grading_site: GradingSite) -> None:
    grading_site.service()
    sent = {**request("unreadable"), "requestId": "not-a-uuid"}
    async with grading_site.stranger() as stranger:
        await stranger.publish("grading.request", sent)
        (letter,) = await stranger.take("grading.dlq", lambda found: len(found) == 1, "a letter")
        (answer,) = await stranger.take("grading.callback", lambda found: len(found) == 1, "an answer")
    assert (answer["kind"], answer["submissionId"]) == ("error", sent["submissionId"])
    assert not answer["data"]["error"]["retryable"]
    assert (letter["requestId"], letter["submissionId"]) == ("not-a-uuid", sent["submissionId"]), "as they came"


@pytest.mark.spec("002.21")
async def test_the_original_of_a_late_request_is_kept(grading_site: GradingSite) -> None:
    grading_site.service()
    async with grading_site.stranger() as stranger:
        await stranger.publish("grading.request", request("late", minutes=-1))
        (letter,) = await stranger.take("grading.dlq", lambda found: len(found) == 1, "a letter")
    table, _, request_id = letter["originalMessage"]["reference"].partition("/")
    kept = grading_site.in_service(f"SELECT * FROM {table} WHERE request_id = '{request_id}'")
    assert len(kept) == 1 and "#late" in json.dumps(kept, default=str), "the reference leads to what the learner wrote"


@pytest.mark.spec("002.15")
async def test_an_operator_finds_what_is_flagged_for_audit(grading_site: GradingSite) -> None:
    main = await grading_site.main()
    flagged, _ = [await main.submit(text) for text in ("flagged", "other")]
    unsure = graded()
    unsure["result"] |= {"confidenceScore": 87}
    async with grading_site.stranger() as stranger:
        await stranger.publish("grading.callback", callback(flagged, "completed", unsure))
        shown = await main.until_status(flagged["id"], "COMPLETED")
    assert [item["id"] for item in await listed_for(main, "flagged")] == [flagged["id"]]
    assert shown["result"]["auditFlag"]


@pytest.mark.spec("000.22")
async def test_an_operator_reads_a_late_result(grading_site: GradingSite) -> None:
    main = await grading_site.main(GRADING_SLA_WRITING_SEC="1", TIMEOUT_CHECK_INTERVAL_MS="200")
    late = await main.submit("late")
    await main.until_status(late["id"], "FAILED")

    async def is_late() -> bool:
        return bool((await main.show(late["id"]))["isLate"])

    async with grading_site.stranger() as stranger:
        await stranger.publish("grading.callback", callback(late, "completed", graded(8.5, "C1")))
        await until(is_late, "the late result to be kept", PATIENCE_S, process=main.process)
    (shown,) = await listed_for(main, "late")
    assert (shown["id"], shown["status"], shown["failureReason"]) == (late["id"], "FAILED", "TIMEOUT")
    assert '"overallScore": 8.5' in json.dumps(shown)


async def listed_for(main: MainApp, wish: str) -> list[dict[str, Any]]:
    """The submissions that an operator is shown, by a filter."""
    async with main.client("olga", "operator") as client:
        answer = await client.get("/api/ops/submissions", params={wish: True})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])
