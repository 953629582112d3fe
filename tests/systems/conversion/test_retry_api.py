"""Retry by hand, who may do what, and how a result ends: ready, expired, or somebody else's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.systems.conversion.place import AnyStore, Place, environment, opened, read_events

from holdfast.errors import CallError
from holdfast.kernel.operate import remediate as mend
from holdfast.kernel.operate import replay, triage
from holdfast.operator.audit import audit as audit_database
from holdfast.stores.clock import Clock
from holdfast.tables import audit, cases, jobs
from holdfast_systems.conversion import documents, expiry
from holdfast_systems.conversion.expiry import expire_once

DAY_S = 86_400


def refused() -> CallError:
    return CallError.from_status(422, "not this one", {}, now_ms=0)


async def failed_job(place: Place, sub: str = "ann") -> str:
    place.gateway.errors = [refused()]
    job = await place.upload(sub)
    await place.work()
    assert (await place.job(job["id"], sub))["status"] == "failed"
    return str(job["id"])


async def post(place: Place, job_id: str, verb: str, sub: str = "ann") -> tuple[int, dict[str, Any]]:
    answer = await place.client(sub).post(f"/api/jobs/{job_id}/{verb}")
    return answer.status_code, answer.json()


@pytest.mark.spec("C7", "001.25", "001.30")
async def test_its_owner_retries_a_failed_job_with_fresh_attempts(place: Place) -> None:
    job_id = await failed_job(place)
    before = await place.job(job_id)
    place.world.clock.advance(100)
    status, after = await post(place, job_id, "retry")
    assert (status, after["status"], after["attemptCount"], after["error"]) == (202, "queued", 0, None)
    assert after["queuedAt"] > before["queuedAt"] and after["updatedAt"] > before["updatedAt"]
    assert after == await place.job(job_id)
    place.gateway.errors = [CallError.from_status(500, "once", {}, now_ms=0)]
    await place.world.run_until_idle()
    done = await place.job(job_id)
    assert (done["status"], done["attemptCount"], done["error"]) == ("complete", 2, None)
    told = read_events((await place.client().get(f"/api/jobs/{job_id}/events")).text)
    names = [name for name, _ in told]
    assert names == ["queued", "processing", "failed", "queued", "processing", "retry", "processing", "complete"]


@pytest.mark.spec("C7", "K8", "001.31")
async def test_a_retry_is_a_replay_of_its_case_and_audited(place: Place) -> None:
    job_id = await failed_job(place)
    await post(place, job_id, "retry")
    async with place.kernel.store.reading() as tx:
        letter = (await cases.page(tx))[0]
        shown = await cases.show(tx, letter.id)
        said = await audit.of_subject(tx, f"case:{letter.id}")
    assert shown is not None
    assert (shown.state, shown.replays, shown.evidence) == ("replayed", 1, "Its owner asked for another try.")
    assert ("ann", "case.replayed") in [(row.actor, row.action) for row in said]


@pytest.mark.spec("C7", "001.24")
async def test_only_a_failed_job_is_retried(place: Place) -> None:
    job = await place.upload()
    _, refusal = await post(place, job["id"], "retry")
    assert refusal["code"] == "NOT_READY"
    assert refusal["detail"] == "The job is queued; only a failed job can be retried."
    await place.work()
    assert (await post(place, job["id"], "retry"))[0] == 409
    job_id = await failed_job(place)
    assert [(await post(place, job_id, "retry"))[0] for _ in range(2)] == [202, 409]


@pytest.mark.spec("C7", "001.24")
async def test_no_retry_without_the_source(place: Place) -> None:
    job_id = await failed_job(place)
    (place.settings.uploads / f"{job_id}.pdf").unlink()
    assert (await post(place, job_id, "retry"))[1]["code"] == "EXPIRED"
    assert (await place.job(job_id))["status"] == "failed"
    second = await failed_job(place)
    assert (await place.job(second))["canRetry"]
    place.world.clock.advance(DAY_S + 1)
    await expire_once(place.kernel, place.settings)
    shown = await place.job(second)
    assert (shown["status"], shown["sourceAvailable"], shown["canRetry"]) == ("failed", False, False)
    assert place.files() == ([], [])
    assert (await post(place, second, "retry"))[0] == 410


@pytest.mark.spec("C7", "C8", "001.24")
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("GET", "/result"), ("GET", "/events"), ("POST", "/retry"), ("POST", "/cancel")],
)
async def test_a_job_is_its_owners_alone(place: Place, method: str, path: str) -> None:
    job_id = await failed_job(place)
    other = await place.client("bob").request(method, f"/api/jobs/{job_id}{path}")
    assert (other.status_code, other.json()["code"]) == (403, "FORBIDDEN")
    unknown = await place.client("bob").request(method, f"/api/jobs/{place.kernel.new_id()}{path}")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "FORBIDDEN")
    odd = await place.client("bob").request(method, f"/api/jobs/..%2f..%2fetc{path}")
    assert odd.status_code == 404
    assert (await place.client("bob").get("/api/jobs")).json()["jobs"] == []
    assert (await place.job(job_id))["status"] == "failed"


@pytest.mark.spec("C8")
async def test_the_list_has_pages(place: Place) -> None:
    ids = []
    for _ in range(5):
        ids.append((await place.upload())["id"])
        place.world.clock.advance(1)
    await place.upload("bob")
    seen, cursor = [], ""
    while cursor is not None:
        answer = (
            await place.client().get("/api/jobs", params={"limit": "2", "cursor": cursor} if cursor else {"limit": "2"})
        ).json()
        seen += [job["id"] for job in answer["jobs"]]
        cursor = answer["nextCursor"]
    assert seen == ids[::-1]
    wrong = await place.client().get("/api/jobs", params={"cursor": "x"})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "GW_4XX")


@pytest.mark.spec("C8", "001.30")
async def test_a_result_is_not_ready_then_there_then_expired(place: Place) -> None:
    job = await place.upload()
    url = f"/api/jobs/{job['id']}/result"
    early = await place.client().get(url)
    assert (early.status_code, early.json()["code"]) == (409, "NOT_READY")
    await place.work()
    assert (await place.client().get(url)).status_code == 200
    place.world.clock.advance(7 * DAY_S)
    late = await place.client().get(url)
    assert (late.status_code, late.json()["code"]) == (410, "EXPIRED"), "the time decides, swept or not"
    assert (await place.job(job["id"]))["status"] == "expired"
    assert await expire_once(place.kernel, place.settings) == 2, "the result, and the source before it"
    assert await expire_once(place.kernel, place.settings) == 0
    assert place.files() == ([], [])
    told = read_events((await place.client().get(f"/api/jobs/{job['id']}/events")).text)
    assert [name for name, _ in told][-2:] == ["complete", "expired"]
    assert (await place.client().get(url)).json()["code"] == "EXPIRED"
    assert await audit_database(place.kernel) == [], "an expired result is no job that ended twice"


@pytest.mark.spec("C8")
async def test_a_failed_job_has_no_result(place: Place) -> None:
    job_id = await failed_job(place)
    answer = await place.client().get(f"/api/jobs/{job_id}/result")
    assert (answer.status_code, answer.json()["code"]) == (409, "NOT_READY")


@pytest.mark.spec("C8")
async def test_a_result_outlives_its_job(place: Place) -> None:
    job = await place.upload()
    await place.work()
    async with place.kernel.store.transaction() as tx:
        now = place.kernel.now() + 1
        last = "ffffffff-ffff-ffff-ffff-ffffffffffff"
        assert await jobs.prune(tx, jobs.NIL, last, now, 10) == [job["id"]]
    shown = await place.job(job["id"])
    assert (shown["status"], shown["attemptCount"]) == ("complete", 1)
    place.world.clock.advance(7 * DAY_S)
    await expire_once(place.kernel, place.settings)
    assert (await place.job(job["id"]))["status"] == "expired"
    place.world.clock.advance(31 * DAY_S)
    await expire_once(place.kernel, place.settings)
    assert (await place.client().get("/api/jobs")).json()["jobs"] == [], "and in the end it is forgotten"


@pytest.mark.spec("C7", "K8")
async def test_an_operators_replay_shows_and_keeps_the_source(place: Place) -> None:
    job_id = await failed_job(place)
    async with place.kernel.store.reading() as tx:
        case_id = (await cases.page(tx))[0].id
    await triage(place.kernel, case_id, cause="data", actor="ops")
    await mend(place.kernel, case_id, evidence="mended", actor="ops")
    place.world.clock.advance(DAY_S + 1)
    await replay(place.kernel, case_id, actor="ops")
    assert (await place.job(job_id))["status"] == "queued"
    await expire_once(place.kernel, place.settings)
    assert place.files()[0] == [f"{job_id}.pdf"], "the source of a live job was removed"
    await place.work()
    assert (await place.job(job_id))["status"] == "complete"


@pytest.mark.spec("C5")
async def test_files_of_nobody_are_removed_however_many_there_are(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "BATCH", 2)
    job_id = (await place.upload())["id"]
    for _ in range(5):
        (place.settings.uploads / f"{place.kernel.new_id()}.pdf").write_bytes(b"")
        (place.settings.results / f"{place.kernel.new_id()}.{'0' * 64}.xml").write_bytes(b"")
    long_after = time.time() + place.settings.orphan_grace_s + DAY_S
    assert await expire_once(place.kernel, place.settings, lambda: long_after) == 0
    assert place.files() == ([f"{job_id}.pdf"], [])


@pytest.mark.spec("C5", "C1")
async def test_files_of_nobody_are_removed_and_others_are_not(
    open_store: Callable[[Clock], AnyStore], tmp_path: Path
) -> None:
    async with opened(open_store, environment(tmp_path, ORPHAN_GRACE_SEC="60")) as place:
        waiting, done = await place.upload(), await place.upload(priority="high")
        orphans = [
            place.settings.uploads / f"{place.kernel.new_id()}.pdf",
            place.settings.results / f"{waiting['id']}.{'0' * 64}.xml",
        ]
        await place.client().post(f"/api/jobs/{waiting['id']}/cancel")
        await place.work()
        orphans.append(place.settings.results / f"{done['id']}.{'1' * 64}.xml")  # a late worker's, not the one marked
        live = await place.upload()
        for path in orphans:
            path.write_bytes(b"left by a process that died")
        foreign = place.settings.uploads / "notes.txt"
        foreign.write_text("not ours")
        young = place.settings.uploads / f"{place.kernel.new_id()}.pdf"
        for path in [*place.settings.uploads.iterdir(), *place.settings.results.iterdir()]:
            os.utime(path, (0, 0))
        young.write_bytes(b"an upload that is being committed")
        while await expire_once(place.kernel, place.settings):
            pass
        uploads, results = place.files()
        assert uploads == sorted([f"{live['id']}.pdf", foreign.name, young.name])
        assert results == [f"{done['id']}.xml"]


@pytest.mark.spec("C8")
def test_a_status_comes_from_the_job_while_there_is_one() -> None:
    states = {"queued": "queued", "processing": "processing", "dead": "failed", "cancelled": "cancelled"}
    for state, status in states.items():
        row: Any = {"state": state, "outcome": "failed", "expires_at": None}
        assert documents.status_of(row, 0) == status
