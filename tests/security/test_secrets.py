"""Secrets are planted in every input of the three systems and in every provider's errors, real work is run, and then
everything that is left or shown is searched for them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.security import sweep, vault
from tests.security.deployment import SECRET, Deployment, deployed
from tests.security.planted import (
    ADDRESS,
    CONTENT,
    EMAIL,
    GATEWAY_PASSWORD,
    HOOK_SECRET,
    LLM_KEY,
    MAIL_KEY,
    NOWHERE,
    LeakyServer,
    leaky_server,
    words,
)
from tests.services.spans import keeping_spans

from holdfast.kernel.submit import submit
from holdfast.operator.incident_watch import watch_incidents
from holdfast.transports.seam import Message
from holdfast_systems.grading.contract import REQUEST_QUEUE
from holdfast_systems.grading.topology import destination

pytestmark = pytest.mark.slow
# A user's own words, in the row of their own work and in the message that carries it; nobody else is shown these.
OWN_WORK = {
    "submissions.payload",
    "holdfast_jobs.payload",
    "holdfast_outbox.payload",
    "holdfast_idempotency.body",
    "conversion_documents.filename",
    "conversion_documents.webhook_url",
    "reviews.title",
    "holdfast_results.value",
    "grading_letters.body",
    "grading_originals.body",
}
# An address to which mail must go, and the name by which a user is known.
ADDRESSES = {
    "review_recipients.recipient",
    "review_recipients.effect_key",
    "holdfast_effects.key",
    "submissions.user_id",
    "grading_jobs.user_id",
    "conversion_documents.owner",
    "holdfast_jobs.owner",
    "holdfast_idempotency.scope",
    "holdfast_rollups.name",
}


@dataclass
class Aftermath:
    """What there is to search when the work is done."""

    places: list[sweep.Place]
    shown: list[sweep.Place]
    folder: Path
    server: LeakyServer
    owned: list[sweep.Place]


@pytest.fixture(scope="module")
def spans() -> Iterator[InMemorySpanExporter]:
    with keeping_spans() as kept:
        yield kept


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory, spans: InMemorySpanExporter) -> Aftermath:
    folder = tmp_path_factory.mktemp("planted")
    lines = sweep.Lines()
    root = logging.getLogger()
    level = root.level
    root.addHandler(lines)
    root.setLevel(logging.DEBUG)
    try:
        found = asyncio.run(_lived(folder))
    finally:
        root.removeHandler(lines)
        root.setLevel(level)
    found.places += [*lines.texts(), *sweep.spans(spans.get_finished_spans()), *sweep.rows(folder)]
    assert any(where == "span call llm" for where, _ in found.places), "there is nothing to search"
    return found


async def _lived(folder: Path) -> Aftermath:
    async with leaky_server() as server, _leaky(folder, server) as place:
        for how in ("call", "effect", "bug"):
            await submit(place.system("vault").kernel, vault.Blunder, how)
        owned = [("answer", sweep.as_text(answer)) for answer in await _refused_requests(place)]
        async with place.at_work():
            await _accepted_requests(place, server)
            await _until_all_ended(place, letters=11)
            shown = await _worked_by_an_operator(place)
        shown += list(await sweep.answers(place))
        owned += await _owners_view(place)
    return Aftermath([], shown, folder, server, owned)


@asynccontextmanager
async def _leaky(folder: Path, server: LeakyServer) -> AsyncIterator[Deployment]:
    env = {
        "HOLDFAST_SECRETS_KEYS": "a key of the tests that seals addresses",
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_API_KEY": LLM_KEY,
        "MAIL_HTTP_URL": f"{server.url}/mail",
        "MAIL_HTTP_KEY": MAIL_KEY,
        "GATEWAY_URL": f"http://gate:{GATEWAY_PASSWORD}@127.0.0.1:{server.port}/gateway",
        "WEBHOOK_SECRET": HOOK_SECRET,
        "WEBHOOK_PRIVATE_HOSTS": "127.0.0.1",
        "WEBHOOK_MAX_ATTEMPTS": "2",
        "REVIEW_PRIVATE_HOSTS": "127.0.0.1",
        "GRADING_AUDIO_PRIVATE_HOSTS": "127.0.0.1",
        "GRADING_RETRIES_MAX": "1",
        "GRADING_RETRY_BASE_SEC": "0",
        "GRADING_RETRY_JITTER_SEC": "0",
        "GRADING_BREAKER_WINDOW": "1000",
        "RETRY_MAX_ATTEMPTS": "2",
        "RETRY_BASE_DELAY_MS": "0",
        "RETRY_JITTER_MAX_MS": "0",
        "CIRCUIT_WINDOW": "1000",
        "REVIEW_ATTEMPTS": "2",
        "REVIEW_RETRY_BASE_SEC": "0",
        "REVIEW_BREAKER_WINDOW": "1000",
    }
    async with deployed(folder, apps=[vault.app], **env) as place:
        yield place


async def _accepted_requests(place: Deployment, server: LeakyServer) -> None:
    """Two gradings, a conversion and two reviews, with secrets wherever a text may be written."""
    said, here = words(CONTENT), f"127.0.0.1:{server.port}"
    await place.submission(EMAIL, text=f"{said} refuse me", questionId=CONTENT["api key"])
    await place.submission(EMAIL, text=said)
    await place.speech(EMAIL, f"http://{here}/audio.ogg?X-Signature={ADDRESS['audio query']}")
    hook = f"http://{here}/hook?key={ADDRESS['webhook query']}"
    await place.conversion(EMAIL, name=f"{CONTENT['api key']}.pdf", webhookUrl=hook)
    source = {"type": "url", "url": f"http://{here}/changes/1.diff?sig='{ADDRESS['diff query']}'"}
    await place.review(
        "cl-1", title=f"Use {CONTENT['api key']} and password={CONTENT['password']}", recipients=[EMAIL], source=source
    )
    denied = {"type": "url", "url": f"http://ann:{ADDRESS['diff user']}@{here}/nothing/1.diff"}
    await place.review("cl-2", recipients=[EMAIL], source=denied)
    away = f"127.0.0.2:{server.port}"  # no setting allows it
    repos = [f"https://ann:{ADDRESS['git password']}@{away}/r.git", f"https://{ADDRESS['git token']}@{away}/r.git"]
    for number, repo in enumerate([*repos, f"ssh://{ADDRESS['ssh user']}@{away}/r.git"], 3):
        git = {"type": "git", "repo": repo, "range": "HEAD"}
        await place.review(f"cl-{number}", recipients=[EMAIL], source=git)
    await _publish_unreadable(place)


async def _publish_unreadable(place: Deployment) -> None:
    """A request without an id, with a signed address: it is kept for an operator, and sealed."""
    transport = place.system("grading-main").kernel.transport
    assert transport is not None
    url = f"https://bucket.example/a.mp3?sig={ADDRESS['refused message']}"
    body = json.dumps({"skill": "speaking", "payload": {"audioUrl": url}}).replace("/", "\\/")
    await transport.publish(Message(str(uuid4()), destination(REQUEST_QUEUE), body.encode(), REQUEST_QUEUE))


async def _refused_requests(place: Deployment) -> list[Any]:
    """Requests that are turned away; an error must not repeat what it refuses."""
    secret = CONTENT["password in a URL"]
    learner, service = place.client(EMAIL, "learner"), place.client("ci", "service")
    key = {"Idempotency-Key": CONTENT["api key"]}
    wrong = {"skill": words(CONTENT), "payload": {"text": words(CONTENT)}}
    form = {"webhookUrl": f"http://ann:{secret}@example.test/"}
    return [
        await learner.post("/api/submissions", json={"skill": "writing", "payload": {}}, headers=key),
        await learner.post("/api/submissions", json=wrong, headers={"Idempotency-Key": str(uuid4())}),
        await learner.post("/api/jobs", files={"file": ("a.pdf", b"%PDF-1.7\n" + b"x" * 999)}, data=form),
        await learner.get("/api/submissions", params={"cursor": words(CONTENT)}),
        await service.post("/api/changelists/1/reviews", json={"source": words(CONTENT)}),
        await place.bearing(CONTENT["bearer token"]).get("/api/ops/jobs"),
        await place.client().get("/api/jobs/events", params={"ticket": CONTENT["bearer token"]}),
    ]


async def _until_all_ended(place: Deployment, letters: int) -> None:
    operator = place.client("olga", "operator")

    async def ended() -> bool:
        listed = (await operator.get("/api/ops/jobs?limit=200")).json()["items"]
        buried = (await operator.get("/api/ops/dead-letters?limit=200")).json()["items"]
        still = [one for one in listed if one["state"] in ("queued", "processing", "waiting") and not one["hold"]]
        return not still and sum(one["system"] != "vault" for one in buried) == letters

    await place.until("review", ended)


async def _worked_by_an_operator(place: Deployment) -> list[sweep.Place]:
    """An operator is careless too: keys stand in notes, evidence and reasons."""
    olga, said = place.client("olga", "operator"), words(CONTENT)
    letters = (await olga.get("/api/ops/dead-letters")).json()["items"]
    letter = next(each for each in letters if each["system"] != "review")
    at = f"/api/ops/dead-letters/{letter['id']}"
    for step, body in (
        ("triage", {"cause": "data", "notes": said}),
        ("remediate", {"evidence": said}),
        ("replay", {"delay_s": 3600}),
    ):
        assert (await olga.post(f"{at}/{step}", json=body)).status_code == 200, step
    assert (await olga.post(f"/api/ops/jobs/{letter['job_id']}/cancel")).status_code == 200
    closed = {"notes": said, "without_replay": said}
    assert (await olga.post(f"{at}/resolve", json=closed)).status_code == 200
    breaker = {"reason": said}
    assert (await olga.post("/api/ops/breakers/stt/open", json=breaker)).status_code == 200
    return await _worked_by_hand(place, olga, said)


async def _worked_by_hand(place: Deployment, olga: Any, said: str) -> list[sweep.Place]:
    """Pauses, an incident from its comment to its end, a mended input, work that is ordered about."""
    for system in place.systems:
        await watch_incidents(system.kernel)
    (first, *_) = (await olga.get("/api/ops/incidents")).json()["items"]
    letters = (await olga.get("/api/ops/dead-letters?limit=200")).json()["items"]
    letter = next(each for each in letters if each["system"] == "review")
    steps = {
        "pauses/kind/vault.blunder/pause": {"reason": said},
        f"incidents/{first['id']}/comment": {"text": said},
        f"incidents/{first['id']}/assign": {"assignee": said[:200]},
        f"dead-letters/{letter['id']}/triage": {"cause": "data", "notes": said},
        f"dead-letters/{letter['id']}/correct": {"set": {"title": said}, "reason": said, "dry_run": True},
        f"dead-letters/{letter['id']}/mend": {"set": {"title": said}, "evidence": said, "dry_run": True},
    }
    found = []
    for path, body in steps.items():
        answer = await olga.post(f"/api/ops/{path}", json=body)
        assert answer.status_code < 300, f"{path}: {answer.text}"
        found.append((f"POST {path}", sweep.as_text(answer)))
    return found


async def _owners_view(place: Deployment) -> list[sweep.Place]:
    ann, service = place.client(EMAIL, "learner"), place.client("ci", "service")
    asked = [await ann.get("/api/submissions"), await ann.get("/api/jobs")]
    asked += [await service.get(f"/api/changelists/{one}/reviews") for one in ("cl-1", "cl-2", "cl-3", "cl-5")]
    return [(f"GET {answer.url}", sweep.as_text(answer)) for answer in asked]


@pytest.mark.spec("K7", "K17")
def test_what_a_provider_or_the_deployment_holds_is_nowhere(aftermath: Aftermath) -> None:
    """Keys that are ours, and what a provider said in an error: in no row, no line, no span, no answer, no file."""
    asked = " ".join(aftermath.server.asked)
    assert [path for path in ("/v1/", "/changes/", "/mail/", "/gateway", "/hook", "/audio") if path not in asked] == []
    everywhere = [*aftermath.places, *aftermath.shown, *aftermath.owned, *sweep.raw(aftermath.folder)]
    found = sweep.hits([*NOWHERE, SECRET], everywhere)
    assert not found, sweep.listed(found)


@pytest.mark.spec("K30", "K17")
def test_credentials_of_addresses_are_given_to_who_fetches_and_are_nowhere_else(aftermath: Aftermath) -> None:
    """No row, page of a database, file, line, span, view or answer has one; whoever fetched was given it whole."""
    asked = " ".join(aftermath.server.asked)
    assert [name for name in ("audio query", "webhook query", "diff query") if ADDRESS[name] not in asked] == []
    everywhere = [*aftermath.places, *aftermath.shown, *aftermath.owned, *sweep.raw(aftermath.folder)]
    found = sweep.hits(ADDRESS.values(), everywhere)
    assert not found, sweep.listed(found)
    assert any(where == "holdfast_secrets.sealed" for where, _ in aftermath.places), "the dead keep theirs, sealed"


@pytest.mark.spec("K7", "K17")
def test_what_a_user_wrote_stays_in_their_own_work(aftermath: Aftermath) -> None:
    found = sweep.hits(CONTENT.values(), [*aftermath.places, *aftermath.shown])
    leaked = {(word, where) for word, where in found if where not in OWN_WORK}
    assert not leaked, sweep.listed(leaked)
    assert {where for _, where in found} & OWN_WORK, "it was planted, so it must be there"


@pytest.mark.spec("K7", "K17")
def test_an_address_stands_only_where_it_is_needed(aftermath: Aftermath) -> None:
    found = {where for _, where in sweep.hits([EMAIL], aftermath.places)}
    assert found - ADDRESSES - OWN_WORK == set()


def test_a_refused_request_is_not_repeated_to_anybody(aftermath: Aftermath) -> None:
    refused = [place for place in aftermath.owned if place[0] == "answer"]
    assert len(refused) == 7 and sweep.hits(CONTENT.values(), refused) == set()


def test_the_sweep_sees(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"..sk-found-me..")
    assert sweep.hits(["sk-found-me"], sweep.raw(tmp_path)) == {("sk-found-me", "file x.bin")}
