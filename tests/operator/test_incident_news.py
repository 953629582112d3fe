"""What is told of an incident, to whom, and the page that is kept of it; what outlives a release is written out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kernel.places import Deploy, rows

from holdfast.engines.run import Duties, run
from holdfast.operator.incident_news import APP, IncidentSettings, News, _body, _mail, declare_incidents, tell
from holdfast.operator.incidents import unit_of
from holdfast.operator.postmortem import render
from holdfast.settings import problems

pytestmark = pytest.mark.spec("K17")
AT = 1_767_225_600_000
NEWS = News(event_id="i-1/opened/5", incident_id="i-1", event="opened", severity="page", sentence="It is down.", at=AT)


def link(id: str) -> str:
    return f"https://jobs.example/console#incident/{id}"


@pytest.mark.parametrize(
    ("event", "headline"),
    [
        ("opened", "Incident: It is down."),
        ("reopened", "Incident, back again: It is down."),
        ("worse", "Incident, now a page: It is down."),
        ("over", "Over: It is down."),
    ],
)
def test_a_webhook_tells_all_there_is_to_know(event: str, headline: str) -> None:
    assert _body(NEWS.model_copy(update={"event": event}), link) == {
        "type": f"incident.{event}",
        "id": "i-1",
        "severity": "page",
        "at": "2026-01-01T00:00:00.000Z",
        "sentence": "It is down.",
        "url": "https://jobs.example/console#incident/i-1",
        "text": f"{headline} https://jobs.example/console#incident/i-1",
    }


def test_without_an_address_of_our_own_there_is_no_link() -> None:
    body = _body(NEWS, lambda id: None)
    assert body["url"] is None and body["text"] == "Incident: It is down."


def test_a_mail_names_the_incident_and_is_known_by_its_token() -> None:
    settings = IncidentSettings(mail_to="ann@example.com, ,bob@example.com", mail_from="jobs@example.com")
    mail = _mail(NEWS.model_copy(update={"sentence": "x" * 400}), settings, link, "t-1")
    assert (mail["From"], mail["To"]) == ("jobs@example.com", "ann@example.com, bob@example.com")
    assert mail["Message-ID"] == "<t-1@holdfast>" and mail["Date"].datetime.timestamp() == NEWS.at // 1_000
    assert len(mail["Subject"]) == 150 and mail["Subject"].endswith("x…")
    assert mail.get_content() == f"Incident: {'x' * 400}\n\n2026-01-01T00:00:00.000Z\n\n{link('i-1')}\n"


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"HOLDFAST_INCIDENT_WEBHOOK_URL": "ftp://x"}, "HOLDFAST_INCIDENT_WEBHOOK_URL must start with http://"),
        (
            {"HOLDFAST_INCIDENT_MAIL_TO": "a@b", "HOLDFAST_INCIDENT_SMTP_URL": "http://x"},
            "HOLDFAST_INCIDENT_SMTP_URL must start with smtp://",
        ),
    ],
)
def test_an_address_that_cannot_be_reached_is_refused(env: dict[str, str], words: str) -> None:
    (sentence,) = problems(IncidentSettings, env)
    assert sentence.startswith(words)
    assert problems(IncidentSettings, {"HOLDFAST_INCIDENT_SMTP_URL": "http://x"}) == [], "nobody is mailed"


async def _told(deploy: Deploy, settings: IncidentSettings, severity: str) -> list[dict[str, Any]]:
    world = await deploy(declare_incidents(settings, link, None))
    for _ in range(2):
        async with world.kernel.store.transaction() as tx:
            await tell(world.kernel, tx, "i-1", "opened", severity, "It is down.", AT)
    found: list[dict[str, Any]] = await rows(
        world.kernel.store, "SELECT kind, queue, job_key, payload FROM holdfast_jobs ORDER BY kind"
    )
    return found


def _hook(**more: str) -> IncidentSettings:
    return IncidentSettings(webhook_url="http://127.0.0.1:9/", **more)


async def test_each_way_is_told_once_for_an_event(deploy: Deploy) -> None:
    told = await _told(deploy, _hook(mail_to="ann@example.com"), "page")
    assert [(row["kind"], row["queue"]) for row in told] == [("incidents.mail", APP), ("incidents.webhook", APP)]
    assert {row["job_key"] for row in told} == {f"i-1/opened/{AT}"}
    assert all(News.model_validate_json(row["payload"]).sentence == "It is down." for row in told)


@pytest.mark.parametrize(
    ("wanted", "severity", "jobs"), [("page", "ticket", 0), ("ticket", "ticket", 1), ("page", "page", 1)]
)
async def test_nobody_is_woken_by_less_than_they_asked_for(
    deploy: Deploy, wanted: str, severity: str, jobs: int
) -> None:
    assert len(await _told(deploy, _hook(severity=wanted), severity)) == jobs


@pytest.mark.parametrize("works", [True, False])
async def test_the_news_are_run_by_one_worker_whether_or_not_the_process_works(deploy: Deploy, works: bool) -> None:
    """By the process's own where it works, and beside the keeper where it does not: never by both."""
    world = await deploy(declare_incidents(_hook(), link, None))
    stop = asyncio.Event()
    running = asyncio.create_task(run(world.kernel, Duties(work=works, relay=False, consume=False, grace_s=0), stop))
    await asyncio.sleep(0)
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    stop.set()
    await running
    assert names.count("Worker.run") == 1


async def test_where_nobody_is_to_be_told_nothing_is_written(deploy: Deploy) -> None:
    assert await _told(deploy, IncidentSettings(), "page") == []


def test_what_an_incident_counts_is_named() -> None:
    units = {topic: unit_of(topic) for topic in ("outbox_lag", "no_worker", "of_a_later_release")}
    assert units == {"outbox_lag": "message", "no_worker": "job", "of_a_later_release": "job"}


INCIDENT: dict[str, Any] = {
    "system": "shop",
    "topic": "provider_down",
    "subject": "llm",
    "sentence": "Provider 'llm' has been left alone.",
    "began_at": "2026-01-01T00:00:00.000Z",
    "ended_at": None,
    "severity": "page",
    "acknowledged_at": None,
    "acknowledged_by": None,
    "assignee": None,
    "jobs_max": 1_200,
    "unit": "job",
    "owners_max": 7,
    "summary": None,
    "hit": [
        {"role": "held", "jobs": 1_200, "owners": 7},
        {"role": "dead", "jobs": 2, "owners": 1},
        {"role": "late", "jobs": 3, "owners": 2},
    ],
    "timeline": [
        {"at": "00:00", "who": None, "what": "breaker open", "text": "13 of\n20 failed"},
        {"at": "00:05", "who": "ann", "what": "has it", "text": ""},
    ],
}


def test_the_page_that_is_kept_is_this() -> None:
    assert render(INCIDENT) == (
        "# Provider down: llm\n\nProvider 'llm' has been left alone.\n\n- System: shop\n"
        "- Began: 2026-01-01T00:00:00.000Z\n- Over: it goes on\n- Severity: page\n- Acknowledged: by nobody\n"
        "- In whose hands: nobody\n\n## Who was hit\n\n- At most 1,200 jobs of 7 owners at once\n"
        "- 1,200 jobs of 7 owners waited\n- 2 jobs of 1 owner died\n- 3 jobs of 2 owners missed their deadline\n\n"
        "## Timeline\n\n- 00:00 breaker open: 13 of 20 failed\n- 00:05 ann has it\n\n## Summary\n\n"
        "_What was it, what helped, what is to change?_\n"
    )
    ended = {"ended_at": "00:30", "acknowledged_at": "00:05", "acknowledged_by": "ann", "assignee": "bob"}
    page = render(INCIDENT | ended | {"subject": "", "summary": "The key was old."})
    assert page.startswith("# Provider down\n") and page.endswith("## Summary\n\nThe key was old.\n")
    assert "- Over: 00:30\n" in page and "- Acknowledged: 00:05 ann\n- In whose hands: bob\n" in page
