"""The acceptance list of source 000, one test for each item, on real processes, databases and a real broker.

`engine` runs the grading service's jobs in its own process, or on a Celery worker over the same broker.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from itertools import pairwise

import pytest

from holdfast_systems.grading.contract import CALLBACK_QUEUE, DEAD_LETTER_QUEUE, REQUEST_QUEUE
from tests.acceptance.grading_site import GradingSite, MainApp, callback, graded, request
from tests.acceptance.model_endpoint import Answer
from tests.acceptance.process import until
from tests.services.rabbitmq import RabbitMQServer

pytestmark = pytest.mark.slow

BOTH_ENGINES = pytest.mark.parametrize("engine", ["asyncio", "celery"])
# The lease of a worker that is to be killed: the shorter, the sooner its job is taken back.
SOON_RECLAIMED = {"WORKER_LEASE_TTL_SEC": "3"}
ENDS = ("COMPLETED", "REVIEW_REQUIRED")
FAILURE = Answer(500)


async def asserted_once(site: GradingSite, main: MainApp, submission: dict[str, str]) -> None:
    """The submission was graded, and both sides know of one result."""
    await main.until_status(submission["id"], *ENDS)
    jobs = site.in_service(f"SELECT status FROM grading_jobs WHERE request_id = '{submission['requestId']}'")
    assert [job["status"] for job in jobs] == ["completed"]
    events = site.in_main(f"SELECT kind FROM submission_events WHERE submission_id = '{submission['id']}'")
    told = Counter(event["kind"] for event in events)
    assert told["grading.completed"] + told["grading.review_required"] == 1 and not told["grading.failed"]


@pytest.mark.spec("G17", "G4", "K3", "K20")
@BOTH_ENGINES
async def test_a_worker_killed_in_the_middle_of_a_job_gives_one_final_result(
    grading_site: GradingSite, engine: str
) -> None:
    site, model = grading_site, grading_site.model
    site.engine = engine
    main, first = await site.main(), site.service(**SOON_RECLAIMED)
    with model.held():
        submission = await main.submit("mid")
        await until(lambda: _true(model.asked("mid") >= 1), "the model to be called", 90, process=first)
        await site.kill(first)
    begun = model.asked("mid")
    site.service()
    await asserted_once(site, main, submission)
    assert model.asked("mid") > begun, "the call that died is made again"
    jobs = site.in_service("SELECT state, attempt, crashes FROM holdfast_jobs")
    assert [job["state"] for job in jobs] == ["succeeded"] and jobs[0]["crashes"] >= 1


@pytest.mark.spec("G17", "G4", "K11")
@pytest.mark.parametrize("place", ["intake.before_commit", "intake.after_commit"])
async def test_a_service_killed_beside_its_commits_gives_one_final_result(
    grading_site: GradingSite, place: str
) -> None:
    site = grading_site
    main, first = await site.main(), site.service(HOLDFAST_FAILPOINTS=f"{place}=kill")
    submission = await main.submit("beside")
    assert await first.until_ended(90) == -9
    site.service()
    await asserted_once(site, main, submission)
    assert site.model.asked("beside") == 1, "what was not begun is paid for once"


@pytest.mark.spec("G17", "G3", "K10", "K20")
async def test_a_broker_that_restarts_loses_no_request_and_no_callback(
    grading_site: GradingSite, rabbitmq_server: RabbitMQServer
) -> None:
    """On Celery, whose bells go through the broker too; for the rest both engines run the same code."""
    site = grading_site
    site.engine = "celery"
    main = await site.main()
    site.service()
    made = [await main.submit(f"before{number}") for number in range(5)]
    await main.until_status(made[0]["id"], *ENDS)
    rabbitmq_server.halt(kill=True)
    made += [await main.submit(f"away{number}") for number in range(5)]
    rabbitmq_server.resume()
    made += [await main.submit(f"back{number}") for number in range(2)]
    for one in made:
        await asserted_once(site, main, one)
    assert set(site.model.counts().values()) == {1}, "nothing is graded twice"
    left = site.in_main("SELECT status, retry_count FROM holdfast_outbox WHERE message_type = 'grading.request'")
    assert {(row["status"], row["retry_count"]) for row in left} == {("published", 0)}, "no row is blamed"


@pytest.mark.spec("G17", "G6", "K4", "K20")
async def test_a_429_is_waited_out_as_long_as_it_asks(grading_site: GradingSite) -> None:
    """On Celery; tests/interop shows the same without it."""
    site, model = grading_site, grading_site.model
    site.engine = "celery"
    main = await site.main()
    site.service()
    model.next.append(Answer(429, {"Retry-After": "2"}))
    await asserted_once(site, main, await main.submit("slow"))
    first, second = (call.at_s for call in model.calls)
    assert second - first >= 2.0


@pytest.mark.spec("G17", "G6", "K4")
async def test_a_retry_after_beyond_the_cap_is_cut_to_it(grading_site: GradingSite) -> None:
    site, model = grading_site, grading_site.model
    main = await site.main()
    site.service()
    model.next.append(Answer(429, {"Retry-After": "7200"}))
    await main.submit("capped")
    waiting = await site.until_in_service(
        "SELECT run_at, updated_at FROM holdfast_jobs WHERE state = 'queued' AND failures = 1",
        bool,
        "the job to wait for its retry",
    )
    wait_ms = waiting[0]["run_at"] - waiting[0]["updated_at"]
    assert 295_000 <= wait_ms <= 300_000, "five minutes at most, whatever the provider asks"


@pytest.mark.spec("G17", "G12", "K14")
async def test_a_timeout_is_final_and_a_late_result_is_stored_and_flips_nothing(grading_site: GradingSite) -> None:
    site = grading_site
    main = await site.main(GRADING_SLA_WRITING_SEC="0.2")
    submission = await main.submit("late")
    failed = await main.until_status(submission["id"], "FAILED")
    assert failed["failureReason"] == "TIMEOUT"
    async with site.stranger() as stranger:
        await stranger.publish(CALLBACK_QUEUE, callback(submission, "completed", graded(9.0, "C1")))
    stored = await site.until_in_main("SELECT * FROM submissions", lambda rows: rows[0]["is_late"] == 1, "late result")
    assert json.loads(stored[0]["ai_result"])["overallScore"] == 9.0 and stored[0]["final_result"] is None
    shown = await main.show(submission["id"])
    assert (shown["status"], shown["failureReason"], shown["isLate"]) == ("FAILED", "TIMEOUT", True)
    told = site.in_main("SELECT kind FROM submission_events ORDER BY seq")
    assert [event["kind"] for event in told] == ["grading.failed"], "the learner is told of one end"


POISON: list[bytes] = [
    b"\xff\xfe no text at all",
    b'{"requestId": ',
    b"[" * 200_000,
    json.dumps({"requestId": str(uuid.UUID(int=7, version=4)), "skill": "dancing"}).encode(),
    json.dumps({**request("huge"), "padding": "x" * 1_200_000}).encode(),
]


@pytest.mark.spec("G17", "G5")
async def test_poison_goes_to_the_dead_letter_queue_once_and_never_loops(grading_site: GradingSite) -> None:
    site = grading_site
    site.service()
    async with site.stranger() as stranger:
        for body in POISON:
            await stranger.publish(REQUEST_QUEUE, body)
        await stranger.publish(REQUEST_QUEUE, request("healthy"))
        answers = await stranger.take(
            CALLBACK_QUEUE, lambda found: any(one["kind"] == "completed" for one in found), "the healthy one's result"
        )
        letters = await stranger.take(DEAD_LETTER_QUEUE, lambda found: len(found) >= len(POISON), "dead letters")
        refused = [one for one in answers if one["kind"] == "error"]
        assert {one["data"]["error"]["type"] for one in refused} == {"INVALID_INPUT"}
        assert not any(one["data"]["error"]["retryable"] for one in refused)
        for letter in letters:
            assert letter["failureReason"] == "INVALID_INPUT" and letter["attemptsMade"] == 0
            assert {"requestId", "submissionId", "lastError", "timestamp", "originalMessage"} <= set(letter)
        assert len(letters) == len(POISON) and await stranger.depth(REQUEST_QUEUE) == 0
    assert site.in_service("SELECT COUNT(*) AS jobs FROM holdfast_jobs")[0]["jobs"] == 1


GATES = "SELECT gate, at FROM holdfast_breaker_events WHERE name = 'llm' ORDER BY seq"
STARTED = "SELECT started_at FROM holdfast_calls WHERE provider = 'llm' ORDER BY started_at"
LET_THROUGH_MS = 1_500  # a call may begin a moment after it was admitted
HELD = "SELECT COUNT(*) AS times FROM submission_events WHERE data LIKE '%CIRCUIT_OPEN%' GROUP BY submission_id"


@pytest.mark.spec("G17", "G7", "K9", "K20")
@BOTH_ENGINES
async def test_the_breaker_opens_above_half_of_twenty_and_closes_after_good_trials(
    grading_site: GradingSite, engine: str
) -> None:
    site, model = grading_site, grading_site.model
    site.engine = engine
    main = await site.main()
    site.service(GRADING_BREAKER_COOLDOWN_SEC="3", GRADING_RETRIES_MAX="50", GRADING_RETRY_CAP_SEC="1")
    model.always = FAILURE
    made = [await main.submit(f"b{number}") for number in range(12)]
    await site.until_in_service(GATES, bool, "the breaker to open")
    model.always = Answer()
    for one in made:
        await asserted_once(site, main, one)
    gates = await site.until_in_service(GATES, lambda rows: rows[-1]["gate"] == "closed", "the breaker to close")
    calls = [row["started_at"] for row in site.in_service(STARTED)]
    openings = [row["gate"] for row in gates].count("open")
    assert len([call for call in calls if call < gates[0]["at"]]) >= 20, "twenty calls are looked back on"
    for before, after in pairwise(gates):  # on a slow machine it may open again before the model is well
        began, ended = before["at"], after["at"]
        if before["gate"] == "open":
            assert not [one for one in calls if began + LET_THROUGH_MS < one < ended], "while it is open nobody calls"
        if after["gate"] == "closed":
            trials = [one for one in calls if began - LET_THROUGH_MS < one <= ended]
            assert before["gate"] == "half_open" and len(trials) >= 3, "three good trials close it"
    told = [row["times"] for row in site.in_main(HELD)]
    assert told and max(told) <= openings, "learners are told, once per job and opening"


async def _true(found: bool) -> bool:
    return found
