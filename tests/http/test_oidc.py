"""Signing in with an organisation's accounts, against a real provider on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from tests.http.oidc_provider import OTHER_KEY, Provider, running_provider
from tests.http.wishes import SECRET, app

from holdfast.http.app import create_app
from holdfast.kernel.kernel import Kernel
from holdfast.settings import Settings, read
from holdfast.system import OpenSystem, System

SETTINGS = {"HOLDFAST_OIDC_CLIENT_ID": "holdfast", "HOLDFAST_JWT_SECRET": SECRET, "HOLDFAST_OIDC_ROLES_CLAIM": "groups"}


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with running_provider() as running:
        yield running


def browser(kernel: Kernel, provider: Provider, **more: str) -> httpx.AsyncClient:
    settings = read(Settings, {**SETTINGS, "HOLDFAST_OIDC_ISSUER": provider.issuer, **more})
    web = create_app(settings, [OpenSystem(System("shop", "Shop", "U", build=lambda env: app), kernel, {})])
    return httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://holdfast.test")


async def sign_in(client: httpx.AsyncClient, *, change: dict[str, str] | None = None) -> httpx.Response:
    """From the sign-in's link to the answer of the callback, by way of the provider."""
    begun = await client.get("/login/oidc?next=console")
    assert begun.status_code == 303, begun.text
    async with httpx.AsyncClient() as outside:
        back = (await outside.get(begun.headers["location"])).headers["location"]
    given = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()} | (change or {})
    return await client.get("/login/callback", params=given)


def claims(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 303, answer.text
    where, _, token = answer.headers["location"].partition("#")
    assert where == "../login?next=console"
    return dict(jwt.decode(token, SECRET, algorithms=["HS256"]))


async def test_a_person_of_the_organisation_gets_the_roles_of_its_groups(kernel: Kernel, provider: Provider) -> None:
    more = {"HOLDFAST_OIDC_ROLES": "admins=operator, staff=viewer, *=learner", "HOLDFAST_OIDC_CLIENT_SECRET": "s3cret"}
    async with browser(kernel, provider, **more) as client:
        assert "Sign in with your organisation" in (await client.get("/login")).text
        found = claims(await sign_in(client))
    assert (found["sub"], found["roles"]) == ("carla", ["learner", "operator"])
    assert provider.asked == [{"client_secret": "s3cret"}]


async def test_without_a_table_the_claim_names_the_roles_and_may_lie_deeper(kernel: Kernel, provider: Provider) -> None:
    provider.claims = {"realm": {"roles": ["viewer"]}, "email": "carla@example.test"}
    more = {"HOLDFAST_OIDC_ROLES_CLAIM": "realm.roles", "HOLDFAST_OIDC_NAME_CLAIM": "email"}
    async with browser(kernel, provider, **more) as client:
        found = claims(await sign_in(client))
    assert (found["sub"], found["roles"]) == ("carla@example.test", ["viewer"])


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ({"nonce": "another"}, "belongs to another sign-in"),
        ({"aud": "somebody-else"}, "is not valid"),
        ({"iss": "https://elsewhere.test"}, "is not valid"),
        ({"exp": 1}, "is not valid"),
        ({"sub": "two\nlines"}, "gave no 'sub'"),
    ],
)
async def test_a_word_that_is_not_for_this_sign_in_is_refused(
    kernel: Kernel, provider: Provider, says: dict[str, Any], why: str
) -> None:
    provider.claims = says
    async with browser(kernel, provider) as client:
        refused = await sign_in(client)
    assert refused.status_code == 401 and why in refused.json()["detail"], refused.text
    assert "#" not in refused.headers.get("location", "")


async def test_only_the_providers_own_key_counts(kernel: Kernel, provider: Provider) -> None:
    provider.key = OTHER_KEY
    async with browser(kernel, provider) as client:
        assert (await sign_in(client)).status_code == 401


async def test_state_browser_and_code_must_be_those_of_the_sign_in(kernel: Kernel, provider: Provider) -> None:
    async with browser(kernel, provider) as client:
        assert "another sign-in" in (await sign_in(client, change={"state": "made-up"})).json()["detail"]
        assert "refused this sign-in" in (await sign_in(client, change={"code": "made-up"})).json()["detail"]
        assert "did not sign you in" in (await sign_in(client, change={"error": "access_denied"})).json()["detail"]
        claims(await sign_in(client))
        assert (await client.get("/login/callback?state=&code=x")).status_code == 401, "its cookie is gone"
    async with browser(kernel, provider) as victim:
        begun = await victim.get("/login/oidc")
        state = parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]
    async with browser(kernel, provider) as other:  # an attacker's link, opened in a browser that began nothing
        assert (
            "not begun in this browser" in (await other.get(f"/login/callback?state={state}&code=x")).json()["detail"]
        )


async def test_a_provider_that_is_away_is_said_to_be(kernel: Kernel, provider: Provider) -> None:
    describes_another = replace(provider, issuer=f"{provider.issuer}/")
    for odd in (replace(provider, issuer="http://127.0.0.1:9"), describes_another):
        async with browser(kernel, odd) as client:
            answer = await client.get("/login/oidc")
        assert (answer.status_code, answer.json()["code"]) == (503, "AUTH_UNAVAILABLE")
        assert answer.headers["retry-after"] == "5"


async def test_without_a_provider_there_is_no_such_sign_in(kernel: Kernel, tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path), jwt_secret=SECRET)
    web = create_app(settings, [OpenSystem(System("shop", "Shop", "U", build=lambda env: app), kernel, {})])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://holdfast.test") as client:
        assert "organisation" not in (await client.get("/login")).text
        assert (await client.get("/login/oidc")).status_code == 404


def test_settings_that_cannot_work_are_named() -> None:
    wrong = Settings(oidc_issuer="http://id.example.test", jwks_url="https://x", oidc_roles="admins")
    found = " ".join(wrong.problems())
    for words in ("must start with https", "needs HOLDFAST_OIDC_CLIENT_ID", "HOLDFAST_JWKS_URL", "group=role"):
        assert words in found
