"""Asking for reviews over HTTP: keys, versions, reruns, roles; the same on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.settings import Settings
from holdfast.system import OpenSystem
from holdfast.testing import World
from holdfast_systems.review.system import review
from tests.http.described import Described
from tests.systems.review.conftest import Deploy
from tests.systems.review.post_office import ADA, BOB, CY, Desk, PostOffice

REVIEWS = "/api/changelists/cl-1/reviews"


@pytest.fixture
def post() -> PostOffice:
    return PostOffice()


@pytest.fixture
async def world(deploy: Deploy, post: PostOffice) -> World:
    return await deploy(post)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=str(tmp_path), jwt_secret="a secret of at least thirty-two bytes")


@pytest.fixture
async def api(world: World, settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(settings, [OpenSystem(review(), world.kernel, {"SMTP_URL": "smtp://localhost"})])
    headers = {"Authorization": f"Bearer {token_for(settings, 'ci', ['service'])}"}
    described = Described(app)
    transport = httpx.ASGITransport(described)
    async with httpx.AsyncClient(transport=transport, base_url="http://h", headers=headers) as client:
        yield client
    assert described.problems == []


def body(version: int = 1, key: str = "k1", **more: Any) -> dict[str, Any]:
    source = {"type": "url", "url": "https://example.test/1.diff"}
    return {"idempotency_key": key, "review_version": version, "recipients": [ADA, BOB], "source": source} | more


async def succeed(api: httpx.AsyncClient, world: World, **more: Any) -> dict[str, Any]:
    made = await api.post(REVIEWS, json=body(**more))
    assert made.status_code == 201, made.text
    await world.run_until_idle()
    done: dict[str, Any] = (await api.get(f"{REVIEWS}/{made.json()['review_version']}")).json()
    assert done["status"] == "succeeded"
    return done


@pytest.mark.spec("R1", "R2")
async def test_a_review_is_made_and_read_with_its_deliveries(
    api: httpx.AsyncClient, world: World, post: PostOffice
) -> None:
    made = await api.post(REVIEWS, json=body())
    assert made.status_code == 201
    assert made.json()["status"] == "in_progress" and made.json()["result"] is None
    assert [one["status"] for one in made.json()["deliveries"]] == ["pending", "pending"]
    await world.run_until_idle()
    done = (await api.get(f"{REVIEWS}/1")).json()
    assert (done["status"], done["title"]) == ("succeeded", "Remove files by name")
    assert done["result"]["findings"][0]["path"] == "app.py" and done["finished_at"]
    assert all(one["notification_id"] and one["notified_at"] for one in done["deliveries"])
    assert (await api.get(REVIEWS)).json() == {"items": [done], "next_before": None}
    assert "neither token nor lookup" in done["notes"][0], "the residual risk is named"
    assert (await api.get(f"{REVIEWS}/2")).status_code == 404


@pytest.mark.spec("R1", "004.18")
async def test_a_duplicate_key_gives_the_existing_job_and_never_a_second(
    api: httpx.AsyncClient, world: World, post: PostOffice
) -> None:
    first = await api.post(REVIEWS, json=body())
    again = await api.post(REVIEWS, json=body())
    assert (first.status_code, again.status_code) == (201, 200) and first.json() == again.json()
    await world.run_until_idle()
    done = await api.post(REVIEWS, json=body())
    assert (done.status_code, done.json()["status"], done.json()["id"]) == (200, "succeeded", first.json()["id"])
    assert post.mails == {ADA: 1, BOB: 1}
    assert first.json()["body_differs"] is done.json()["body_differs"] is False


OTHERWISE: dict[str, tuple[str, dict[str, Any]]] = {
    "recipients": (REVIEWS, {"recipients": [CY]}),
    "title": (REVIEWS, {"title": "x"}),
    "source": (REVIEWS, {"source": {"type": "url", "url": "https://example.test/2.diff"}}),
    "a higher version, as a rerun": (REVIEWS, {"version": 2, "rerun": True}),
    "a higher version": (REVIEWS, {"version": 2}),
    "a lower version": (REVIEWS, {"version": 1, "recipients": [BOB]}),
    "another changelist": ("/api/changelists/cl-2/reviews", {}),
}


@pytest.mark.spec("R1", "004.18")
@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("what", OTHERWISE)
async def test_a_known_key_is_answered_with_its_job_whatever_the_body(
    api: httpx.AsyncClient, world: World, post: PostOffice, what: str, finished: bool
) -> None:
    path, more = OTHERWISE[what]
    first = await api.post(REVIEWS, json=body(version=2 if what == "a lower version" else 1))
    if finished:
        await world.run_until_idle()
    for _ in range(2):
        again = await api.post(path, json=body(**more))
        assert (again.status_code, again.json()["body_differs"]) == (200, True)
        same = ("job_id", "id", "changelist_id", "review_version")
        assert [again.json()[name] for name in same] == [first.json()[name] for name in same]
    as_it_was = await api.post(REVIEWS, json=body(version=first.json()["review_version"]))
    assert (as_it_was.status_code, as_it_was.json()["body_differs"]) == (200, False)
    await world.run_until_idle()
    assert post.mails == {ADA: 1, BOB: 1}, "nobody else is told, and nobody twice"
    assert (await api.get("/api/changelists/cl-2/reviews")).json()["items"] == []
    assert len((await api.get(REVIEWS)).json()["items"]) == 1


@pytest.mark.spec("R1", "004.18")
@pytest.mark.parametrize("more", [{"review_version": 0}, {"recipients": []}, {"source": {"type": "x"}}, {"new": 1}])
async def test_a_known_key_is_answered_although_the_body_does_not_fit(
    api: httpx.AsyncClient, more: dict[str, Any]
) -> None:
    unfit = body() | more
    assert (await api.post(REVIEWS, json=unfit)).status_code == 422, "the key is not known yet"
    first = await api.post(REVIEWS, json=body())
    again = await api.post(REVIEWS, json=unfit)
    assert (again.status_code, again.json()["job_id"], again.json()["body_differs"]) == (
        200,
        first.json()["job_id"],
        True,
    )
    nobody = await api.post(REVIEWS, json=unfit, headers={"Authorization": "Bearer nonsense"})
    assert nobody.status_code == 401


@pytest.mark.spec("R1", "004.18")
async def test_of_different_requests_at_once_under_one_key_one_is_made_and_all_get_it(
    api: httpx.AsyncClient, world: World, post: PostOffice
) -> None:
    kinds = [body(), body(title="x"), body(version=2), body(version=3, rerun=True), body(recipients=[CY])]
    answers = await asyncio.gather(*(api.post(REVIEWS, json=kinds[number % 5]) for number in range(15)))
    assert sorted(one.status_code for one in answers) == [200] * 14 + [201]
    assert len({one.json()["job_id"] for one in answers}) == 1
    assert sum(one.json()["body_differs"] for one in answers) == 12
    await world.run_until_idle()
    assert max(post.mails.values()) == 1


@pytest.mark.spec("R1")
async def test_of_two_first_requests_at_once_one_wins(api: httpx.AsyncClient, world: World, post: PostOffice) -> None:
    answers = await asyncio.gather(*(api.post(REVIEWS, json=body()) for _ in range(8)))
    assert sorted(one.status_code for one in answers) == [200] * 7 + [201]
    assert len({one.json()["job_id"] for one in answers}) == 1
    races = await asyncio.gather(
        *(api.post(f"/api/changelists/race-{n % 2}/reviews", json=body(key="one-key")) for n in range(8))
    )
    assert sorted({one.status_code for one in races}) == [200, 201], "one key, one review, of one changelist"
    assert len({one.json()["job_id"] for one in races}) == 1
    assert sum(one.json()["body_differs"] for one in races) == 4
    assert sum(one.status_code == 201 for one in races) == 1
    await world.run_until_idle()
    assert post.mails == {ADA: 2, BOB: 2}


@pytest.mark.spec("R2", "004.20")
async def test_the_same_version_after_success_is_a_no_op_with_the_prior_result(
    api: httpx.AsyncClient, world: World, post: PostOffice, desk: Desk
) -> None:
    done = await succeed(api, world)
    for number, more in enumerate(({}, {"rerun": True}, {"recipients": [CY]})):
        again = await api.post(REVIEWS, json=body(key=f"another-{number}", **more))
        assert (again.status_code, again.json()["id"]) == (200, done["id"])
        assert again.json()["result"] == done["result"]
    await world.run_until_idle()
    assert post.mails == {ADA: 1, BOB: 1} and desk.criticised == 1


@pytest.mark.spec("R1", "R2", "004.18")
async def test_a_key_stands_for_the_review_that_it_was_answered_with(
    api: httpx.AsyncClient, world: World, post: PostOffice
) -> None:
    """Also where that review had been asked for under another key before."""
    done = await succeed(api, world)
    assert (await api.post(REVIEWS, json=body(key="k2"))).status_code == 200
    higher = await api.post(REVIEWS, json=body(version=2, key="k2", rerun=True))
    assert (higher.status_code, higher.json()["job_id"]) == (200, done["job_id"]) and higher.json()["body_differs"]
    again = await api.post(REVIEWS, json=body(key="k2"))
    assert (again.status_code, again.json()["job_id"]) == (200, done["job_id"])
    elsewhere = await api.post("/api/changelists/cl-2/reviews", json=body(key="k2"))
    assert (elsewhere.status_code, elsewhere.json()["job_id"]) == (200, done["job_id"])
    assert [one["review_version"] for one in (await api.get(REVIEWS)).json()["items"]] == [1]


@pytest.mark.spec("K18")
async def test_a_caller_may_ask_for_so_many_a_minute_and_have_so_many_unfinished(
    world: World, settings: Settings
) -> None:
    env = {"REVIEW_REQUESTS_PER_MINUTE": "2", "REVIEW_UNFINISHED_MAX": "3"}
    app = create_app(settings, [OpenSystem(review(), world.kernel, env)])

    async def ask(number: int, caller: str = "ci") -> httpx.Response:
        headers = {"Authorization": f"Bearer {token_for(settings, caller, ['service'])}"}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://h") as client:
            path = f"/api/changelists/{caller}-{number}/reviews"
            return await client.post(path, json=body(key=f"{caller}-{number}"), headers=headers)

    for number in range(2):
        assert (await ask(number)).status_code == 201
        world.clock.advance(10)
    refused = await ask(2)
    assert refused.headers["content-type"] == "application/problem+json"
    assert (refused.status_code, refused.json()["code"], refused.headers["Retry-After"]) == (429, "RATE_LIMITED", "40")
    assert (await ask(1)).status_code == 200, "a key that is known is answered"
    assert (await ask(0, "other")).status_code == 201, "one caller's limit is nobody else's"
    world.clock.advance(60)
    assert (await ask(2)).status_code == 201, "a key that was refused is free"
    assert "3 unfinished reviews" in (await ask(3)).json()["detail"]
    await world.run_until_idle()
    assert (await ask(3)).status_code == 201


@pytest.mark.spec("R2", "004.21")
async def test_a_higher_version_needs_a_rerun_and_a_lower_one_is_refused(
    api: httpx.AsyncClient, world: World, post: PostOffice
) -> None:
    await succeed(api, world, version=3)
    plain = await api.post(REVIEWS, json=body(4, key="k2"))
    assert (plain.status_code, plain.json()["code"]) == (409, "RERUN_NOT_ASKED") and "rerun" in plain.json()["detail"]
    lower = await api.post(REVIEWS, json=body(2, key="k3", rerun=True))
    assert (lower.status_code, lower.json()["code"]) == (409, "REVIEW_VERSION_LOWER")
    rerun = await api.post(REVIEWS, json=body(4, key="k4", rerun=True))
    assert rerun.status_code == 201
    await world.run_until_idle()
    assert post.mails == {ADA: 2, BOB: 2}, "a new version is a new intent for every recipient"
    assert [one["review_version"] for one in (await api.get(REVIEWS)).json()["items"]] == [4, 3]
    page = (await api.get(REVIEWS, params={"limit": 1})).json()
    assert page["next_before"] == 4
    assert (await api.get(REVIEWS, params={"before": 4})).json()["items"][0]["review_version"] == 3


@pytest.mark.spec("R2")
async def test_a_version_that_is_under_way_is_joined_or_refused_by_its_content(api: httpx.AsyncClient) -> None:
    first = await api.post(REVIEWS, json=body())
    joined = await api.post(REVIEWS, json=body(key="k2"))
    assert (joined.status_code, joined.json()["id"]) == (200, first.json()["id"])
    other = await api.post(REVIEWS, json=body(key="k3", recipients=[CY]))
    assert (other.status_code, other.json()["code"]) == (409, "REVIEW_VERSION_TAKEN")


@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    "wrong",
    [
        {"recipients": []},
        {"recipients": ["a\u0000b@example.test"]},
        {"review_version": 0},
        {"idempotency_key": ""},
        {"source": {"type": "svn", "url": "x"}},
        {"source": {"type": "p4", "changelist": "1; rm -rf /"}},
        {"source": {"type": "git", "repo": "x", "range": "a..b", "trusted": True}},
        {"trusted": True},
        {"title": "a\u0000b"},
        {"title": "\ud800"},
    ],
)
async def test_what_cannot_be_is_refused_with_a_sentence(api: httpx.AsyncClient, wrong: dict[str, Any]) -> None:
    import json

    answer = await api.post(
        REVIEWS, content=json.dumps(body(**wrong)).encode(), headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_INPUT"), answer.text


@pytest.mark.spec("R1")
async def test_a_source_without_its_type_is_told_which_field_is_missing(api: httpx.AsyncClient) -> None:
    answer = await api.post(REVIEWS, json=body(source={"repo": "x", "range": "a..b"}))
    assert (answer.status_code, answer.json()["detail"]) == (422, "source.type: Field required.")
    assert answer.json()["field"] == "source.type"


@pytest.mark.spec("R1")
async def test_only_services_may_ask(api: httpx.AsyncClient, settings: Settings) -> None:
    for roles, status in (([], 403), (["learner"], 403), (["operator"], 403), (["service"], 201)):
        headers = {"Authorization": f"Bearer {token_for(settings, 'x', roles)}"}
        assert (await api.post(REVIEWS, json=body(), headers=headers)).status_code == status
    del api.headers["Authorization"]
    assert (await api.get(REVIEWS)).status_code == 401


@pytest.mark.spec("R4")
async def test_one_mailbox_is_told_once_however_it_is_spelled(
    api: httpx.AsyncClient, world: World, post: PostOffice
) -> None:
    told = [ADA, {"address": "Ada@Example.Test", "required": False}, {"address": BOB}]
    done = await succeed(api, world, recipients=told)
    assert [(one["recipient"], one["required"]) for one in done["deliveries"]] == [(ADA, True), (BOB, True)]
    assert post.mails == {ADA: 1, BOB: 1}


@pytest.mark.spec("R8", "K7", "K30")
async def test_credentials_in_a_source_need_a_key_and_are_never_shown(api: httpx.AsyncClient, world: World) -> None:
    source = {"type": "git", "repo": "https://bot:hunter2secret@git.example.test/r.git", "range": "a..b"}
    refused = await api.post(REVIEWS, json=body(source=source))
    assert refused.status_code == 422 and "HOLDFAST_SECRETS_KEYS" in refused.text
    assert "hunter2secret" not in refused.text
    sealer = world.kernel.registry.apps[0].sealer
    sealer.keys = ("a key of the tests that is long enough",)
    try:
        made = await api.post(REVIEWS, json=body(source=source))
    finally:
        sealer.keys = ()
    assert made.status_code == 201 and made.json()["source"]["repo"] == "https://git.example.test/r.git?sealed=1"
    assert "hunter2secret" not in made.text + (await api.get(REVIEWS)).text
