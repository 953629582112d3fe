"""How many submissions a user may make: over the limit it is 429, with the time to wait."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from tests.systems.grading.callbacks_made import error
from tests.systems.grading.pair import WRITING, Pair

from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.settings import Settings
from holdfast.system import OpenSystem
from holdfast_systems.grading.system import grading_main


@pytest.fixture
async def limited(pair: Pair, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Signed in as nobody yet; three submissions a minute each, and four in grading at once."""
    env = {"GRADING_SUBMISSIONS_PER_MINUTE": "3", "GRADING_UNFINISHED_MAX": "4"}
    web = create_app(Settings(data_dir=str(tmp_path)), [OpenSystem(grading_main(), pair.main.kernel, env)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://h") as client:
        yield client


async def post(client: httpx.AsyncClient, folder: Path, user: str = "ann", key: str | None = None) -> httpx.Response:
    body = {"skill": "writing", "payload": WRITING}
    return await client.post("/api/submissions", json=body, headers=signed(folder, user, key))


def signed(folder: Path, user: str = "ann", key: str | None = None) -> dict[str, str]:
    bearer = token_for(Settings(data_dir=str(folder)), user, ("learner",))
    return {"Authorization": f"Bearer {bearer}", "Idempotency-Key": key or str(uuid.uuid4())}


@pytest.mark.spec("K18", "G1")
async def test_over_the_limit_is_429_with_the_time_to_wait(
    limited: httpx.AsyncClient, pair: Pair, tmp_path: Path
) -> None:
    for _ in range(3):
        assert (await post(limited, tmp_path)).status_code == 201
        pair.clock.advance(10)
    refused = await post(limited, tmp_path)
    assert refused.headers["content-type"] == "application/problem+json"
    assert (refused.status_code, refused.json()["code"], refused.headers["Retry-After"]) == (429, "RATE_LIMITED", "30")
    assert (await post(limited, tmp_path, "bob")).status_code == 201, "one user's limit is nobody else's"
    pair.clock.advance(31)
    assert (await post(limited, tmp_path)).status_code == 201, "the first of them is over a minute old"
    assert (await post(limited, tmp_path)).status_code == 429


@pytest.mark.spec("K18", "G1")
async def test_submissions_at_once_are_held_to_the_limit_exactly(limited: httpx.AsyncClient, tmp_path: Path) -> None:
    answers = await asyncio.gather(*[post(limited, tmp_path) for _ in range(10)])
    assert sorted(one.status_code for one in answers) == [201] * 3 + [429] * 7


@pytest.mark.spec("K18", "002.6")
async def test_a_second_attempt_counts_as_one_more(limited: httpx.AsyncClient, pair: Pair, tmp_path: Path) -> None:
    first = (await post(limited, tmp_path)).json()
    await pair.call_back(error(first["requestId"], first["id"], "LLM_FAIL"))
    again = await limited.post(f"/api/submissions/{first['id']}/resubmit", headers=signed(tmp_path))
    assert again.status_code == 201
    assert (await post(limited, tmp_path)).status_code == 201
    assert (await post(limited, tmp_path)).status_code == 429


@pytest.mark.spec("K18", "K13")
async def test_a_repeated_key_is_answered_beyond_the_limit_and_a_refused_one_stays_free(
    limited: httpx.AsyncClient, pair: Pair, tmp_path: Path
) -> None:
    key, later = str(uuid.uuid4()), str(uuid.uuid4())
    first = await post(limited, tmp_path, key=key)
    for _ in range(2):
        await post(limited, tmp_path)
    again = await post(limited, tmp_path, key=key)
    assert (again.status_code, again.json()) == (201, first.json())
    assert (await post(limited, tmp_path, key=later)).status_code == 429
    pair.clock.advance(61)
    assert (await post(limited, tmp_path, key=later)).status_code == 201


@pytest.mark.spec("K18")
async def test_so_many_in_grading_are_enough_until_one_is_done(
    limited: httpx.AsyncClient, pair: Pair, tmp_path: Path
) -> None:
    for _ in range(4):
        assert (await post(limited, tmp_path)).status_code == 201
        pair.clock.advance(30)
    refused = await post(limited, tmp_path)
    assert (refused.status_code, refused.json()["code"], refused.headers["Retry-After"]) == (429, "RATE_LIMITED", "30")
    await pair.settle()
    assert (await post(limited, tmp_path)).status_code == 201
