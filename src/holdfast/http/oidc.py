"""Sign-in with an organisation's own accounts: OpenID Connect, authorization code with PKCE.

    /login/oidc -> the provider's page -> /login/callback -> a token of ours, with the roles that a claim gives

What one sign-in began with (state, nonce, verifier) travels in a cookie that we signed, so that any process can end it.
The provider's word is taken only for its own signature, this client, this nonce and now.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import time
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

import httpx
import jwt
from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse

from holdfast.http.auth import ODD, PUBLIC, SHARED, secret_of, token_for
from holdfast.http.key_set import KeySet
from holdfast.http.principal import is_name
from holdfast.http.problem import Problem
from holdfast.providers.bounded import exchange_within
from holdfast.settings import Settings

COOKIE = "holdfast_oidc"
BEGUN_S = 600
TOKEN_S = 8 * 3_600.0
FETCH_S = 5.0
LEEWAY_S = 30
CONFIGURATION = "/.well-known/openid-configuration"

router = APIRouter(include_in_schema=False)


class OidcProvider:
    """The provider behind the issuer of the settings. What it says about itself is read at the first sign-in."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._described: Mapping[str, Any] | None = None
        self._keys: KeySet | None = None

    async def describe(self) -> Mapping[str, Any]:
        if self._described is None:
            issuer = str(self._settings.oidc_issuer)
            found = await _fetch("GET", issuer.rstrip("/") + CONFIGURATION)
            missing = {"authorization_endpoint", "token_endpoint", "jwks_uri"} - found.keys()
            if found.get("issuer") != issuer or missing:
                raise _unavailable("It describes itself as somebody else, or not at all.")
            self._keys = KeySet(str(found["jwks_uri"]))
            self._described = found
        return self._described

    async def page_for(self, begun: Mapping[str, str], callback: str) -> str:
        """Where the person signs in."""
        described = await self.describe()
        query = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": callback,
            "scope": self._settings.oidc_scope,
            "state": begun["state"],
            "nonce": begun["nonce"],
            "code_challenge": _challenge(begun["verifier"]),
            "code_challenge_method": "S256",
        }
        return f"{described['authorization_endpoint']}?{urlencode(query)}"

    async def claims_for(self, code: str, begun: Mapping[str, str], callback: str) -> Mapping[str, Any]:
        """What the provider says of the person, after its signature, its audience and the nonce were checked."""
        described = await self.describe()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "client_id": str(self._settings.oidc_client_id),
            "code_verifier": begun["verifier"],
        }
        if self._settings.oidc_client_secret:
            form["client_secret"] = self._settings.oidc_client_secret
        answered = await _fetch("POST", str(described["token_endpoint"]), form)
        claims = await asyncio.to_thread(self._verify, str(answered.get("id_token", "")))
        if not secrets.compare_digest(str(claims.get("nonce", "")), begun["nonce"]):
            raise _refused("The provider's answer belongs to another sign-in.")
        return claims

    def _verify(self, token: str) -> dict[str, Any]:
        assert self._keys is not None, "it has described itself"
        try:
            key = self._keys.get_signing_key_from_jwt(token)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=PUBLIC,
                audience=self._settings.oidc_client_id,
                issuer=self._settings.oidc_issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iat", "sub", "aud", "iss"]},
            )
        except jwt.PyJWKClientConnectionError:
            raise _unavailable("Its keys cannot be fetched at present.") from None
        except (jwt.PyJWTError, *ODD):
            raise _refused("The provider's answer is not valid.") from None
        return claims


def roles_of(settings: Settings, claims: Mapping[str, Any]) -> list[str]:
    """The roles that the claim gives, by the settings' table of groups; without one, as they are named."""
    value: Any = claims
    for part in settings.oidc_roles_claim.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    named = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    groups = {name for name in named if isinstance(name, str)}
    table = settings.oidc_groups
    if not table:
        return sorted(groups)
    return sorted({role for group, role in table if group in groups or group == "*"})


@router.get("/login/oidc")
async def begin(request: Request, next: Annotated[str, Query(max_length=100)] = "") -> RedirectResponse:
    """Send the person to the provider's page."""
    settings, provider = _configured(request)
    begun = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")} | {"next": next}
    answer = RedirectResponse(await provider.page_for(begun, _callback(request)), status_code=303)
    sealed = jwt.encode({**begun, "exp": int(time.time()) + BEGUN_S}, secret_of(settings), algorithm=SHARED[0])
    answer.set_cookie(COOKIE, sealed, max_age=BEGUN_S, **_cookie(request))
    return answer


@router.get("/login/callback")
async def end(
    request: Request,
    state: Annotated[str, Query(max_length=200)] = "",
    code: Annotated[str, Query(max_length=4_000)] = "",
    error: Annotated[str, Query(max_length=200)] = "",
) -> RedirectResponse:
    """Take what the provider sent the person back with, and sign in with it."""
    settings, provider = _configured(request)
    begun = _begun(request, settings)
    if not secrets.compare_digest(state.encode(), begun["state"].encode()):
        raise _refused("This answer belongs to another sign-in.")
    if error or not code:
        raise _refused("The provider did not sign you in.")
    claims = await provider.claims_for(code, begun, _callback(request))
    name = claims.get(settings.oidc_name_claim)
    if not is_name(name):
        raise _refused(f"The provider gave no '{settings.oidc_name_claim}' that can be a name here.")
    token = token_for(settings, str(name), roles_of(settings, claims), TOKEN_S)
    answer = RedirectResponse(f"../login?{urlencode({'next': begun['next']})}#{token}", status_code=303)
    answer.delete_cookie(COOKIE, **_cookie(request))
    return answer


def _configured(request: Request) -> tuple[Settings, OidcProvider]:
    settings: Settings = request.app.state.settings
    if settings.oidc_issuer is None:
        raise Problem(404, "NOT_FOUND", "No sign-in of an organisation is set up here.")
    return settings, request.app.state.oidc


def _begun(request: Request, settings: Settings) -> dict[str, str]:
    try:
        begun = jwt.decode(request.cookies.get(COOKIE, ""), secret_of(settings), algorithms=SHARED)
    except (jwt.PyJWTError, *ODD):
        raise _refused("This sign-in was not begun in this browser, or too long ago.") from None
    return {name: str(begun.get(name, "")) for name in ("state", "nonce", "verifier", "next")}


def _callback(request: Request) -> str:
    settings: Settings = request.app.state.settings
    return f"{(settings.public_url or str(request.base_url)).rstrip('/')}/login/callback"


def _cookie(request: Request) -> Any:
    path = f"{request.scope.get('root_path', '')}/login"
    # Lax: the provider's page, which is another site, sends the person back.
    return {"path": path, "httponly": True, "samesite": "lax", "secure": request.url.scheme == "https"}


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


async def _fetch(method: str, url: str, form: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    try:
        answered = await exchange_within(FETCH_S, method, url, form=form)
    except httpx.HTTPError:
        raise _unavailable("It cannot be reached at present.") from None
    if 400 <= answered.status_code < 500 and form is not None:
        raise _refused("The provider refused this sign-in.")
    try:
        body = answered.json()
    except (ValueError, RecursionError):
        body = None
    if answered.status_code != 200 or not isinstance(body, dict):
        raise _unavailable(f"It answered {answered.status_code}.")
    return body


def _refused(detail: str) -> Problem:
    return Problem(401, "UNAUTHENTICATED", f"{detail} Begin again at /login.", headers={"WWW-Authenticate": "Bearer"})


def _unavailable(why: str) -> Problem:
    detail = f"The organisation's sign-in does not work. {why}"
    return Problem(503, "AUTH_UNAVAILABLE", detail, headers={"Retry-After": "5"})
