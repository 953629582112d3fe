"""The same key gives the same answer, once."""

from __future__ import annotations

import asyncio
import uuid

import httpx
import pytest
from tests.http.conftest import Client, OpenStore
from tests.http.wishes import app, count_jobs, web_for

from holdfast.http.idempotency import fingerprint, idempotent
from holdfast.http.principal import Principal
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.settings import Settings
from holdfast.stores.seam import Tx

pytestmark = pytest.mark.spec("K13")


async def post(client: httpx.AsyncClient, key: str | None, text: str = "rain", fails: str = "") -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return await client.post("/api/wishes", json={"text": text, "fails": fails}, headers=headers)


def new_key() -> str:
    return str(uuid.uuid4())


async def test_the_same_key_and_payload_return_the_stored_answer(client: Client, kernel: Kernel) -> None:
    ann, key = client("ann", "learner"), new_key()
    first, second = await post(ann, key), await post(ann, f'"{key.upper()}"')
    assert (first.status_code, second.status_code) == (201, 201)
    assert second.content == first.content
    assert "idempotency-replayed" not in first.headers and second.headers["idempotency-replayed"] == "true"
    assert await count_jobs(kernel) == 1


async def test_the_same_key_with_another_payload_is_409(client: Client, kernel: Kernel) -> None:
    ann, key = client("ann", "learner"), new_key()
    await post(ann, key)
    answer = await post(ann, key, "sun")
    assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert await count_jobs(kernel) == 1


@pytest.mark.spec("003.2")
async def test_a_key_is_the_users_own(client: Client, kernel: Kernel) -> None:
    key = new_key()
    await post(client("ann", "learner"), key)
    assert (await post(client("ben", "learner"), key, "sun")).status_code == 201
    assert await count_jobs(kernel) == 2


async def test_a_key_is_of_one_route(kernel: Kernel) -> None:
    async def make(tx: Tx) -> tuple[int, dict[str, str]]:
        made.append("made")
        return 201, {"number": str(len(made))}

    made: list[str] = []
    ann, key = Principal("ann", frozenset()), new_key()
    for route in ("POST /a", "POST /b", "POST /a"):
        answer = await idempotent(kernel, ann, route, key, b"{}", make, required=True)
        assert answer.body == (b'{"number":"2"}' if route == "POST /b" else b'{"number":"1"}')
    assert len(made) == 2


@pytest.mark.spec("003.1")
@pytest.mark.parametrize(
    ("key", "code"),
    [
        (None, "IDEMPOTENCY_KEY_REQUIRED"),
        ("", "IDEMPOTENCY_KEY_REQUIRED"),
        ("1", "IDEMPOTENCY_KEY_INVALID"),
        ("f47ac10b-58cc-11f1-a567-0e02b2c3d479", "IDEMPOTENCY_KEY_INVALID"),
        ("f47ac10b-58cc-4372-a567-0e02b2c3d479x", "IDEMPOTENCY_KEY_INVALID"),
    ],
)
async def test_a_missing_or_malformed_key_is_400(client: Client, kernel: Kernel, key: str | None, code: str) -> None:
    answer = await post(client("ann", "learner"), key)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert await count_jobs(kernel) == 0


async def test_work_that_fails_leaves_the_key_free(client: Client, kernel: Kernel) -> None:
    ann, key = client("ann", "learner"), new_key()
    assert (await post(ann, key, fails="AT_ONCE")).status_code == 500
    assert (await post(ann, key)).status_code == 201
    assert await count_jobs(kernel) == 1


async def test_of_many_first_requests_at_once_one_wins(
    client: Client, kernel: Kernel, settings: Settings, open_store: OpenStore
) -> None:
    """Two processes, twenty requests: one job, one answer that is not a replay, and all answers alike."""
    other = Kernel(store=open_store(None), registry=Registry([app]))
    here, there = client("ann", "learner"), client("ann", "learner", to=web_for(settings, other))
    key = new_key()
    answers = await asyncio.gather(*(post(here if n % 2 else there, key) for n in range(20)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert await count_jobs(kernel) == 1
    await other.store.close()


def test_a_fingerprint_sees_the_meaning_and_not_the_spelling() -> None:
    assert fingerprint(b'{"a": 1, "b": [2]}') == fingerprint(b'{ "b":[2],"a":1 }') == fingerprint({"a": 1, "b": [2]})
    assert fingerprint(b'{"a": 1}') != fingerprint(b'{"a": 2}')
    assert fingerprint(b"\xff%PDF") != fingerprint(b"\xff%PDE")
    assert fingerprint(b"[" * 100_000) != fingerprint(b"[" * 100_001)
