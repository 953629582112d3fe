"""Who is asking. Bearer tokens are JWTs; an event stream may come with a ticket instead.

    CLERK = require("clerk")
    async def orders(who: Annotated[Principal, CLERK]) -> ...:

The algorithms are pinned by how the keys are given: HS256 by a shared secret, RS256 or ES256 by a JWKS URL. A token's
own header never chooses between them.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, cast

import jwt
from fastapi import Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from holdfast.http import tickets
from holdfast.http.buckets import Callers
from holdfast.http.key_set import KeySet
from holdfast.http.principal import SUB_LENGTH_MAX, is_name
from holdfast.http.principal import Principal as Principal
from holdfast.http.problem import Problem
from holdfast.settings import Settings
from holdfast.system import System

ROLES = ("operator", "viewer")
"""The library's own; a system brings those that its routes ask for (`System.roles`). A viewer sees what an operator
sees and changes nothing."""
SAFE = frozenset({"GET", "HEAD"})
SECRET_FILE = "jwt-secret"
SHARED, PUBLIC = ["HS256"], ["RS256", "ES256"]
TOKEN_LENGTH_MAX = 8_192
KNOWN_MAX = 500
EXPIRY_MAX = 2**53
# What a library makes of claims and headers that are of no sensible type or size.
ODD = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)


class Authenticates(Protocol):
    """How an application knows who asks. Both raise Problem 401 for whoever they do not know."""

    async def caller(self, request: Request) -> Principal: ...

    async def stream_caller(self, request: Request) -> Principal: ...


class Auth:
    """Verifies tokens. Holds the keys of one deployment; roles that nobody knows count for nothing."""

    def __init__(self, settings: Settings, roles: Iterable[str] = ROLES) -> None:
        self._roles = frozenset(roles)
        self._audience = settings.jwt_audience
        self._keys = KeySet(settings.jwks_url) if settings.jwks_url else None
        self._secret = None if self._keys else secret_of(settings)
        self._known: dict[str, tuple[Principal, float]] = {}

    async def caller(self, request: Request) -> Principal:
        """The caller by the bearer token of the request."""
        return await self.principal(bearer_token(request))

    async def stream_caller(self, request: Request) -> Principal:
        """The caller by a ticket in the address, where there is one and no header."""
        ticket = request.query_params.get("ticket")
        if ticket is None or "authorization" in request.headers:
            return await self.caller(request)
        return await _by_ticket(request, ticket)

    async def principal(self, token: str) -> Principal:
        """The caller behind a token; raises Problem 401 for anything but a valid one."""
        if len(token) > TOKEN_LENGTH_MAX:
            raise unauthenticated("The bearer token is too long.")
        known = self._known.get(token)
        if known is not None and time.time() < known[1]:
            return known[0]
        try:
            claims = await self._claims(token)
        except jwt.ExpiredSignatureError:
            raise unauthenticated("The bearer token has expired.") from None
        except jwt.PyJWKClientConnectionError:
            detail = "The keys of tokens cannot be fetched at present."
            raise Problem(503, "AUTH_UNAVAILABLE", detail, headers={"Retry-After": "5"}) from None
        except (jwt.PyJWTError, *ODD):
            raise unauthenticated("The bearer token is not valid.") from None
        return self._remember(token, _principal(claims, self._roles), _expiry(claims))

    def _remember(self, token: str, who: Principal, expires_at: float) -> Principal:
        """A token that was verified stays so until it expires (a tenth of a POST's CPU saved). With keys by URL it is
        asked for again each time: a key may be withdrawn."""
        if self._keys is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[token] = (who, expires_at)
        return who

    async def _claims(self, token: str) -> dict[str, Any]:
        if self._keys is None:
            return self._decode(token, self._secret, SHARED)
        key = await asyncio.to_thread(self._keys.get_signing_key_from_jwt, token)
        return self._decode(token, key, PUBLIC)

    def _decode(self, token: str, key: Any, algorithms: list[str]) -> dict[str, Any]:
        return jwt.decode(
            token,
            key,
            algorithms=algorithms,
            audience=self._audience,
            options={"require": ["exp", "sub"], "verify_aud": self._audience is not None},
        )


class NobodyKnown:
    """Of a server that has no sign-in: everybody is a stranger."""

    async def caller(self, request: Request) -> Principal:
        raise unauthenticated("Nobody signs in here.")

    async def stream_caller(self, request: Request) -> Principal:
        return await self.caller(request)


def known_roles(systems: Iterable[System]) -> tuple[str, ...]:
    """The library's roles and those that these systems bring."""
    return (*ROLES, *dict.fromkeys(role for system in systems for role in system.roles))


def issue_token(
    secret: str,
    sub: str,
    roles: Iterable[str],
    ttl_s: float,
    now: float | None = None,
    *,
    audience: str | None = None,
) -> str:
    """A signed token. `now` is in seconds since the epoch; unsaid, it is the present."""
    now = time.time() if now is None else now
    claims: dict[str, Any] = {"sub": sub, "roles": sorted(set(roles)), "iat": int(now), "exp": int(now + ttl_s)}
    if audience is not None:
        claims["aud"] = audience
    return jwt.encode(claims, secret, algorithm="HS256")


def token_for(settings: Settings, sub: str, roles: Iterable[str], ttl_s: float = 43_200.0) -> str:
    """A token that this deployment accepts, where the secret is ours."""
    return issue_token(secret_of(settings), sub, roles, ttl_s, audience=settings.jwt_audience)


def secret_of(settings: Settings) -> str:
    """The HS256 secret: as set, or made once and kept in the data folder, so that tokens survive a restart."""
    if settings.jwt_secret is not None:
        return settings.jwt_secret
    path = Path(settings.data_dir) / SECRET_FILE
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _create(path, secrets.token_urlsafe(48))
    return path.read_text().strip()


class CallerCheck(SecurityBase):
    """A dependency that gives the `Principal`. OpenAPI describes it as a bearer token; the header is read, and refused,
    in our own words. One for both, because FastAPI pays for every dependency of a route with each request."""

    model = HTTPBearer(bearerFormat="JWT")
    scheme_name = "HTTPBearer"

    def __init__(self, roles: tuple[str, ...], *, takes_ticket: bool = False) -> None:
        self.roles = roles
        self._takes_ticket = takes_ticket

    async def __call__(self, request: Request) -> Principal:
        auth = auth_of(request)
        caller = auth.stream_caller(request) if self._takes_ticket else auth.caller(request)
        return _allowed(await _admitted(request, caller), self.roles, request.method)


def require(*roles: str) -> Any:
    """A dependency that gives the `Principal`: 401 without a valid token, 403 without one of the roles.

    With no roles named, any authenticated caller may pass."""
    return Security(CallerCheck(roles), scopes=roles)


def require_stream(*roles: str) -> Any:
    """As `require`, but a single-use `?ticket=` will do: an `EventSource` can send no header."""
    return Security(CallerCheck(roles, takes_ticket=True), scopes=roles)


def asked_roles(dependant: Dependant) -> Iterator[tuple[str, ...]]:
    """The roles that a route asks for: one of each group."""
    if isinstance(dependant.call, CallerCheck):
        yield dependant.call.roles
    for each in dependant.dependencies:
        yield from asked_roles(each)


def auth_of(request: Request) -> Authenticates:
    """The app's own."""
    return cast(Authenticates, request.app.state.auth)


def unauthenticated(detail: str) -> Problem:
    return Problem(401, "UNAUTHENTICATED", detail, headers={"WWW-Authenticate": "Bearer"})


async def _admitted(request: Request, authenticated: Awaitable[Principal]) -> Principal:
    """The caller, counted by name; who cannot be authenticated is held to what the address may ask."""
    callers: Callers = request.app.state.callers
    try:
        who = await authenticated
    except Problem:
        callers.check_address(request.scope)
        raise
    callers.admit_user(request.scope, who.sub)
    return who


def bearer_token(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise unauthenticated("This needs an Authorization header with a bearer token.")
    return token.strip()


async def _by_ticket(request: Request, ticket: str) -> Principal:
    found = await tickets.redeem(request.app.state.systems[0].kernel, ticket)
    if found is None:
        raise unauthenticated("The ticket is unknown, used or expired; get a new one from POST /api/tickets.")
    sub, roles = found
    return Principal(sub, roles)


def _allowed(who: Principal, roles: tuple[str, ...], method: str) -> Principal:
    if "operator" in roles and method in SAFE:
        roles = (*roles, "viewer")
    if not who.may(*roles):
        raise Problem(403, "FORBIDDEN", f"This needs the role {' or '.join(roles)}.")
    return who


def _principal(claims: dict[str, Any], known: frozenset[str]) -> Principal:
    sub, roles = claims["sub"], claims.get("roles", [])
    if not is_name(sub):
        raise unauthenticated(f"The token's `sub` must be a text of 1 to {SUB_LENGTH_MAX} printable characters.")
    if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
        raise unauthenticated("The token's `roles` must be a list of names.")
    return Principal(sub, frozenset(roles) & known)


def _expiry(claims: dict[str, Any]) -> float:
    expiry = claims["exp"]
    if isinstance(expiry, bool) or not isinstance(expiry, int | float) or not 0 < expiry < EXPIRY_MAX:
        raise unauthenticated("The token's `exp` must be a time in seconds since 1970.")
    return float(expiry)


def _create(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all; one that is there already stands."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was quicker: its secret stands
            os.link(name, path)
    finally:
        os.unlink(name)
