"""The acceptance list of source 000 where somebody is killed or away, on real processes, databases and a real broker.

`engine` runs the grading service's jobs in its own process, or on a Celery worker over the same broker. What needs
nobody killed is in test_grading_engines.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.acceptance.grading_site import ENDS, GradingSite, asserted_once, deployed
from tests.acceptance.model_endpoint import Answer, Model, serving
from tests.acceptance.process import until
from tests.services.postgres import PostgresServer
from tests.services.rabbitmq import RabbitMQServer

pytestmark = pytest.mark.slow

BOTH_ENGINES = pytest.mark.parametrize("engine", ["asyncio", "celery"])
# The lease of a worker that is to be killed: the shorter, the sooner its job is taken back.
SOON_RECLAIMED = {"WORKER_LEASE_TTL_SEC": "3"}
FAILURE = Answer(500)


@pytest.mark.spec("G17", "G4", "K3", "K20", "000.37")
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


@pytest.mark.spec("G17", "G4", "K11", "K20")
@pytest.mark.parametrize(
    "place, engine",
    [("intake.before_commit", "asyncio"), ("intake.after_commit", "asyncio"), ("intake.after_commit", "celery")],
)
async def test_a_service_killed_beside_its_commits_gives_one_final_result(
    grading_site: GradingSite, place: str, engine: str
) -> None:
    site = grading_site
    site.engine = engine
    main, first = await site.main(), site.service(HOLDFAST_FAILPOINTS=f"{place}=kill")
    submission = await main.submit("beside")
    assert await first.until_ended(90) == -9
    await site.kill(first)  # its Celery worker, if it has one, would go on without it
    site.service()
    await asserted_once(site, main, submission)
    assert site.model.asked("beside") == 1, "what was not begun is paid for once"


@pytest.fixture
def site_of_each_engine(
    grading_site: GradingSite,
    postgres_server: PostgresServer,
    grading_templates: tuple[str, str],
    rabbitmq_server: RabbitMQServer,
    tmp_path: Path,
) -> Iterator[list[GradingSite]]:
    """Two deployments on one broker, so that it need not be restarted for each."""
    other, nursery = rabbitmq_server.create_vhost(), grading_site.nursery
    with (
        serving(Model()) as model,
        deployed(postgres_server, grading_templates, other, nursery, tmp_path / "celery", model) as site,
    ):
        site.engine = "celery"
        yield [grading_site, site]
    rabbitmq_server.delete_vhost(other)


@pytest.mark.spec("G17", "G3", "K10", "K20", "000.38")
async def test_a_broker_that_restarts_loses_no_request_and_no_callback(
    site_of_each_engine: list[GradingSite], rabbitmq_server: RabbitMQServer
) -> None:
    """On both engines at once. Celery's bells go through the broker too."""
    apps = [await site.main() for site in site_of_each_engine]
    made: list[list[dict[str, str]]] = [[], []]

    async def submit(name: str, count: int) -> None:
        for app, mine in zip(apps, made, strict=True):
            mine += [await app.submit(f"{name}{number}") for number in range(count)]

    for site in site_of_each_engine:
        site.service()
    await submit("before", 4)
    for app, mine in zip(apps, made, strict=True):
        await app.until_status(mine[0]["id"], *ENDS)
    rabbitmq_server.halt(kill=True)
    await submit("away", 4)
    rabbitmq_server.resume()
    await submit("back", 2)
    for site, app, mine in zip(site_of_each_engine, apps, made, strict=True):
        for one in mine:
            await asserted_once(site, app, one)
        assert set(site.model.counts().values()) == {1}, "nothing is graded twice"
        left = site.in_main("SELECT status, retry_count FROM holdfast_outbox WHERE message_type = 'grading.request'")
        assert {(row["status"], row["retry_count"]) for row in left} == {("published", 0)}, "no row is blamed"


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
    pace = {"GRADING_BREAKER_COOLDOWN_SEC": "3", "GRADING_RETRIES_MAX": "50", "GRADING_RETRY_CAP_SEC": "1"}
    site.service(**pace, GRADING_BREAKER_FAILURES_IN_A_ROW="0")  # the share of the last twenty alone decides
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
