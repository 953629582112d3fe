"""A signed address answers the one wait that it was made for, whatever its key is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.http.conftest import Client
from tests.http.wishes import web_for

from holdfast.kernel.compose.signing import CallbackSigner
from holdfast.kernel.kernel import Kernel
from holdfast.settings import Settings
from holdfast.tables import callbacks
from holdfast.testing import HandClock

pytestmark = pytest.mark.spec("K24")
KEYS = ["gateway", "approve/7", "a//b/../c", "why?&expires=1", "50 % ü", "/"]


@pytest.fixture
def signed(kernel: Kernel) -> Kernel:
    return replace(kernel, callbacks=CallbackSigner("http://holdfast", "a secret of the tests"))


@pytest.mark.parametrize("key", KEYS)
async def test_an_address_answers_the_wait_of_its_key(
    signed: Kernel, settings: Settings, client: Client, key: str
) -> None:
    url = signed.callbacks.url("wishes", key, signed.now() + 1_000)
    answer = await client(to=web_for(settings, signed)).post(url, json={"by": "ann"})
    assert (answer.status_code, answer.json()) == (202, {"delivered": False}), answer.text
    async with signed.store.transaction() as tx:
        assert await callbacks.take(tx, key) == '{"by":"ann"}'


async def test_an_address_that_is_only_called_answers_null_until_the_moment_it_expires(
    signed: Kernel, settings: Settings, client: Client
) -> None:
    """Many senders of webhooks send no body."""
    url = signed.callbacks.url("wishes", "gateway", signed.now())
    assert (await client(to=web_for(settings, signed)).post(url)).status_code == 202
    async with signed.store.transaction() as tx:
        assert await callbacks.take(tx, "gateway") == "null"


async def test_an_address_is_good_for_its_own_key_and_time(
    signed: Kernel, settings: Settings, client: Client, clock: HandClock
) -> None:
    web = client(to=web_for(settings, signed))
    url = signed.callbacks.url("wishes", "approve/7", signed.now() + 1_000)
    assert (await web.post(url.replace("approve%2F7", "approve%2F8"), json=1)).status_code == 403
    assert (await web.get(url)).status_code == 405, "whoever only looks at it answers nothing"
    clock.advance(2)
    expired = await web.post(url, json=1)
    assert (expired.status_code, expired.json()["code"]) == (410, "CALLBACK_EXPIRED")
    async with signed.store.reading() as tx:
        assert not await callbacks.is_kept(tx, "approve/7")


async def test_an_answer_may_be_as_long_as_any_body_and_is_json_whatever_its_type_says(
    signed: Kernel, settings: Settings, client: Client
) -> None:
    web = client(None, to=web_for(settings, signed))
    url = signed.callbacks.url("wishes", "gateway", signed.now() + 1_000)
    odd = ("[" * 100_000, '{"a": 1e999}', '"\\u0000"', '"\\ud800"', "[NaN]", "no JSON")
    for kind in ("application/json", "text/plain", "application/octet-stream"):
        for body in odd:
            answer = await web.post(url, content=body, headers={"Content-Type": kind})
            assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_INPUT"), (kind, body[:20], answer.text)
    assert (await web.post(url, json="x" * 100_000)).status_code == 202
