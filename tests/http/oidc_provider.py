"""A small OpenID Connect provider on this machine: it signs people in unasked, and checks what a real one does."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI, Form, Response
from fastapi.responses import RedirectResponse
from tests.systems.conversion.live import Server

KEY, OTHER_KEY = (rsa.generate_private_key(65_537, 2_048) for _ in range(2))


@dataclass
class Provider:
    """What it says of the person, and how it may cheat: `claims` go over its own, `key` signs."""

    issuer: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    key: Any = KEY
    grants: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)

    def id_token(self, grant: dict[str, str]) -> str:
        now = int(time.time())
        own = {"iss": self.issuer, "aud": grant["client_id"], "sub": "carla", "iat": now, "exp": now + 60}
        claims = {**own, "nonce": grant["nonce"], "groups": ["admins"], **self.claims}
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": "one"})


def provider_app(provider: Provider) -> FastAPI:
    app = FastAPI()

    @app.get("/.well-known/openid-configuration")
    async def describe() -> dict[str, str]:
        ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        return {"issuer": provider.issuer} | {name: f"{provider.issuer}/{path}" for name, path in ends.items()}

    @app.get("/keys")
    async def keys() -> dict[str, Any]:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
        return {"keys": [public | {"kid": "one", "use": "sig", "alg": "RS256"}]}

    @app.get("/authorize")
    async def authorize(
        client_id: str, redirect_uri: str, state: str, nonce: str, code_challenge: str, code_challenge_method: str
    ) -> RedirectResponse:
        assert code_challenge_method == "S256"
        code = secrets.token_urlsafe(16)
        provider.grants[code] = {
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "nonce": nonce,
            "challenge": code_challenge,
        }
        return RedirectResponse(f"{redirect_uri}?code={code}&state={state}", status_code=302)

    @app.post("/token")
    async def token(
        code: str = Form(),
        client_id: str = Form(),
        redirect_uri: str = Form(),
        code_verifier: str = Form(),
        client_secret: str = Form(""),
    ) -> Response:
        provider.asked.append({"client_secret": client_secret})
        grant = provider.grants.pop(code, None)  # good once
        challenge = base64.urlsafe_b64encode(hashlib.sha256(code_verifier.encode()).digest()).rstrip(b"=").decode()
        wanted = {"client_id": client_id, "redirect_uri": redirect_uri, "challenge": challenge}
        if grant is None or any(grant[name] != value for name, value in wanted.items()):
            return Response('{"error": "invalid_grant"}', 400, media_type="application/json")
        return Response(json.dumps({"id_token": provider.id_token(grant)}), media_type="application/json")

    return app


@asynccontextmanager
async def running_provider() -> AsyncIterator[Provider]:
    import asyncio

    provider = Provider()
    server = Server(uvicorn.Config(provider_app(provider), port=0, log_config=None))
    serving = asyncio.ensure_future(server.serve())
    await server.listening.wait()
    provider.issuer = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        server.should_exit = True
        await serving
