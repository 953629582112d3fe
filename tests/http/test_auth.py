"""Who may come in: tokens, roles, tickets."""

from __future__ import annotations

import base64
import json
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI
from tests.http.conftest import Client, OpenStore
from tests.http.wishes import SECRET, app, web_for

from holdfast.http.auth import Auth, Principal, issue_token, secret_of
from holdfast.http.key_set import KeySet
from holdfast.http.problem import Problem
from holdfast.http.tickets import TTL_S
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.settings import Settings
from holdfast.testing import HandClock

WISH = {"text": "rain"}


def signed(claims: dict[str, Any], secret: str = SECRET, algorithm: str = "HS256") -> str:
    return jwt.encode(claims, secret, algorithm=algorithm)


def soon() -> int:
    return int(time.time()) + 60


def unsigned() -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part({'sub': 'ann', 'roles': ['learner'], 'exp': soon()})}."


EXPIRIES: tuple[Any, ...] = (10**400, 10**17, float("inf"), float("nan"), True, {}, [1], "soon", "9999999999", "inf")

BAD_TOKENS: dict[str, Callable[[], str]] = {
    "unsigned": unsigned,
    "rubbish": lambda: "rubbish",
    "huge": lambda: "x" * 9_000,
    "another secret": lambda: signed({"sub": "ann", "roles": ["learner"], "exp": soon()}, "b" * 40),
    "another algorithm": lambda: signed({"sub": "ann", "roles": ["learner"], "exp": soon()}, algorithm="HS384"),
    "no expiry": lambda: signed({"sub": "ann", "roles": ["learner"]}),
    "expired": lambda: signed({"sub": "ann", "roles": ["learner"], "exp": soon() - 120}),
    "no subject": lambda: signed({"roles": ["learner"], "exp": soon()}),
    "empty subject": lambda: signed({"sub": "", "roles": ["learner"], "exp": soon()}),
    **{
        f"a subject like {sub!a}": lambda sub=sub: signed({"sub": sub, "roles": ["learner"], "exp": soon()})  # type: ignore[misc]
        for sub in ("\ud800", "a\0b", "a\nb", "a\x1b[2J", "ann\u202e", "   ", "x" * 256)
    },
    **{
        f"an expiry like {str(exp)[:12]}": lambda exp=exp: signed({"sub": "ann", "roles": ["learner"], "exp": exp})  # type: ignore[misc]
        for exp in EXPIRIES
    },
    "not before forever": lambda: signed({"sub": "ann", "roles": ["learner"], "exp": soon(), "nbf": 10**400}),
    "claims that are a list": lambda: jwt.api_jws.encode(b"[]", SECRET, algorithm="HS256"),
    "roles as a text": lambda: signed({"sub": "ann", "roles": "learner", "exp": soon()}),
}


@pytest.mark.parametrize("name", BAD_TOKENS)
async def test_anything_but_a_valid_token_is_401(name: str, client: Client) -> None:
    answer = await client().post("/api/tickets", headers={"Authorization": f"Bearer {BAD_TOKENS[name]()}"})
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["code"] == "UNAUTHENTICATED"


async def test_a_caller_without_the_role_is_403(client: Client) -> None:
    answer = await client("ann", "instructor").post("/api/wishes", json=WISH)
    assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
    assert (await client().post("/api/wishes", json=WISH)).status_code == 401


async def test_an_unknown_role_opens_nothing(settings: Settings) -> None:
    token = signed({"sub": "ann", "roles": ["learner", "root"], "exp": soon()})
    assert await Auth(settings, ["operator", "learner"]).principal(token) == Principal("ann", frozenset({"learner"}))


async def test_a_token_that_was_verified_still_expires(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    auth, token = Auth(settings), issue_token(SECRET, "ann", ["learner"], 60)
    assert (await auth.principal(token)).sub == (await auth.principal(token)).sub == "ann"
    with pytest.raises(Problem):
        await auth.principal(token[:-2] + ("AA" if token[-2:] != "AA" else "BB"))
    later = time.time() + 61
    monkeypatch.setattr("holdfast.http.auth.time.time", lambda: later)
    monkeypatch.setattr("holdfast.http.auth.jwt.decode", _expired)
    with pytest.raises(Problem, match="expired"):
        await auth.principal(token)


def _expired(*_: object, **__: object) -> None:
    raise jwt.ExpiredSignatureError


async def test_the_audience_is_checked_where_one_is_set(tmp_path: Path) -> None:
    auth = Auth(Settings(data_dir=str(tmp_path), jwt_secret=SECRET, jwt_audience="holdfast"))
    assert (await auth.principal(issue_token(SECRET, "ann", ["learner"], 60, audience="holdfast"))).sub == "ann"
    for other in (None, "somebody-else"):
        with pytest.raises(Problem, match="not valid"):
            await auth.principal(issue_token(SECRET, "ann", ["learner"], 60, audience=other))


async def test_a_key_set_takes_asymmetric_tokens_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The classical confusion, an HS256 token signed with the public key, is refused because HS256 is not allowed."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())) | {"kid": "k1", "use": "sig"}
    monkeypatch.setattr(KeySet, "fetch_data", lambda self: {"keys": [public]})
    auth = Auth(Settings(data_dir=str(tmp_path), jwks_url="http://127.0.0.1:9/keys"))
    claims = {"sub": "ann", "roles": ["learner"], "exp": soon()}
    good = jwt.encode(claims, key, algorithm="RS256", headers={"kid": "k1"})
    assert (await auth.principal(good)).sub == "ann"
    for bad in (
        jwt.encode(claims, "a shared secret that is long enough", algorithm="HS256", headers={"kid": "k1"}),
        jwt.encode(claims, key, algorithm="RS512", headers={"kid": "k1"}),
        jwt.encode(claims, key, algorithm="RS256", headers={"kid": "k2"}),
    ):
        with pytest.raises(Problem, match="not valid"):
            await auth.principal(bad)
    assert not (tmp_path / "jwt-secret").exists()


async def test_keys_that_cannot_be_fetched_are_our_trouble_not_the_callers(tmp_path: Path) -> None:
    auth = Auth(Settings(data_dir=str(tmp_path), jwks_url="http://127.0.0.1:9/keys"))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    token = jwt.encode({"sub": "ann", "exp": soon()}, key, algorithm="RS256", headers={"kid": "k1"})
    with pytest.raises(Problem) as caught:
        await auth.principal(token)
    assert (caught.value.status, caught.value.code) == (503, "AUTH_UNAVAILABLE")
    assert caught.value.headers == {"Retry-After": "5"}


def test_a_secret_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path / "data"))
    first = secret_of(settings)
    path = tmp_path / "data" / "jwt-secret"
    assert len(first) >= 32 and secret_of(settings) == first == path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["jwt-secret"]


@pytest.mark.spec("G13")
async def test_a_ticket_opens_one_stream_at_any_process(
    client: Client, kernel: Kernel, settings: Settings, open_store: OpenStore, clock: HandClock
) -> None:
    answer = await client("ann", "learner").post("/api/tickets")
    ticket = answer.json()["ticket"]
    assert answer.status_code == 201 and answer.json()["expiresAt"].endswith("Z")
    other = Kernel(store=open_store(clock), registry=Registry([app]))
    url = f"/api/wishes/{kernel.new_id()}/events?ticket={ticket}"
    elsewhere = web_for(settings, other)
    elsewhere.state.stopping.set()
    assert (await client(to=elsewhere).get(url)).status_code == 200
    assert (await client(to=elsewhere).get(url)).status_code == 401
    await other.store.close()


async def test_a_ticket_expires_and_opens_nothing_but_streams(
    web: FastAPI, client: Client, clock: HandClock, kernel: Kernel
) -> None:
    web.state.stopping.set()  # a stream that opens by mistake ends at once
    ann = client("ann", "learner")
    late = (await ann.post("/api/tickets")).json()["ticket"]
    clock.advance(TTL_S + 1)
    url = f"/api/wishes/{kernel.new_id()}/events"
    assert (await client().get(f"{url}?ticket={late}")).status_code == 401
    fresh = (await ann.post("/api/tickets")).json()["ticket"]
    assert (await client().post(f"/api/tickets?ticket={fresh}")).status_code == 401


async def test_a_ticket_carries_the_roles_of_its_caller_and_no_more(client: Client, kernel: Kernel) -> None:
    ticket = (await client("ian", "instructor").post("/api/tickets")).json()["ticket"]
    answer = await client().get(f"/api/wishes/{kernel.new_id()}/events?ticket={ticket}")
    assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")


async def test_a_token_in_the_header_decides_and_leaves_a_ticket_unused(
    web: FastAPI, client: Client, kernel: Kernel
) -> None:
    web.state.stopping.set()
    ticket = (await client("ann", "learner").post("/api/tickets")).json()["ticket"]
    url = f"/api/wishes/{kernel.new_id()}/events?ticket={ticket}"
    assert (await client("ian", "instructor").get(url)).status_code == 403, "who it is says the header"
    assert (await client().get(url)).status_code == 200


@pytest.mark.spec("K7")
async def test_the_database_holds_no_ticket_that_could_be_used(client: Client, kernel: Kernel, tmp_path: Path) -> None:
    ticket = (await client("ann", "learner").post("/api/tickets")).json()["ticket"]
    assert ticket.encode() not in on_disk(tmp_path)


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("wishes.db*"))


async def test_a_key_set_rotates_and_a_withdrawn_key_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    served = [_public(old, "k1")]
    fetches: list[int] = []

    def fetch(client: jwt.PyJWKClient) -> dict[str, Any]:
        fetches.append(1)
        client.jwk_set_cache.put({"keys": list(served)})  # type: ignore[union-attr]
        client._last_successful_fetch = time.monotonic()
        return {"keys": list(served)}

    monkeypatch.setattr(KeySet, "fetch_data", fetch)
    auth = Auth(Settings(data_dir=str(tmp_path), jwks_url="http://127.0.0.1:9/keys"))
    claims = {"sub": "ann", "roles": ["learner"], "exp": soon()}
    first = jwt.encode(claims, old, algorithm="RS256", headers={"kid": "k1"})
    second = jwt.encode(claims, new, algorithm="RS256", headers={"kid": "k2"})
    assert (await auth.principal(first)).sub == "ann"
    served[:] = [_public(new, "k2")]
    assert auth._keys is not None
    auth._keys.cooldown_duration = 0
    assert (await auth.principal(second)).sub == "ann", "a new key is fetched when it is first met"
    with pytest.raises(Problem, match="not valid"):
        await auth.principal(first)
    auth._keys.cooldown_duration = 30
    fetches.clear()
    for number in range(20):
        stranger = jwt.encode(claims, new, algorithm="RS256", headers={"kid": f"made-up-{number}"})
        with pytest.raises(Problem, match="not valid"):
            await auth.principal(stranger)
    assert fetches == [], "whoever makes up keys does not make us ask for them each time"


async def test_a_key_that_the_token_itself_brings_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    shared = {"kty": "oct", "kid": "k2", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "alg": "HS256"}
    monkeypatch.setattr(KeySet, "fetch_data", lambda self: {"keys": [_public(ours, "k1"), shared]})
    auth = Auth(Settings(data_dir=str(tmp_path), jwks_url="http://127.0.0.1:9/keys"))
    claims = {"sub": "ann", "roles": ["operator"], "exp": soon()}
    brought: list[dict[str, Any]] = [
        {"kid": "k1", "jwk": _public(theirs, "k1")},
        {"kid": "k1", "jku": "http://127.0.0.1:9/theirs"},
        {"kid": "k1", "x5u": "http://127.0.0.1:9/theirs"},
        {"kid": "../k1"},
    ]
    tokens = [jwt.encode(claims, theirs, algorithm="RS256", headers=headers) for headers in brought]
    tokens.append(jwt.encode(claims, b"secret" * 6, algorithm="HS256", headers={"kid": "k2"}))
    tokens.append(jwt.encode(claims, None, algorithm="none", headers={"kid": "k1"}))
    for token in tokens:
        with pytest.raises(Problem, match="not valid"):
            await auth.principal(token)


def _public(key: rsa.RSAPrivateKey, kid: str) -> dict[str, Any]:
    public: dict[str, Any] = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    return public | {"kid": kid, "use": "sig"}
