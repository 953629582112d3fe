"""A real key server that rotates, breaks, hangs and goes away, and tokens that confuse its keys."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from holdfast.http.auth import Auth
from holdfast.http.key_set import FETCH_S_MAX
from holdfast.http.problem import Problem
from holdfast.settings import Settings

pytestmark = pytest.mark.spec("K30")
KEYS = {kid: rsa.generate_private_key(public_exponent=65537, key_size=2048) for kid in ("old", "new", "theirs")}


class KeyServer:
    """Answers with the public keys of `kids`, or as `mood` says."""

    def __init__(self) -> None:
        self.kids, self.mood, self.asked = ["old"], "well", 0
        self.hanging, self.hung = threading.Event(), threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.asked += 1
                owner.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        body = json.dumps({"keys": [public(kid) for kid in self.kids]}).encode()
        if self.mood == "hangs":
            self.hanging.set()
            self.hung.wait(FETCH_S_MAX + 5)
            return
        if self.mood == "moved":
            to.send_response(302)
            to.send_header("Location", self.url + "/elsewhere")
            to.end_headers()
            return
        to.send_response(500 if self.mood == "fails" else 200)
        to.send_header("Content-Length", str(len(body)))
        to.end_headers()
        texts = {"rubbish": b"<html>", "cut": body[:20], "deep": b"[" * len(body), "list": b"[]"}
        with suppress(OSError):
            to.wfile.write(texts.get(self.mood, body))


def public(kid: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEYS[kid].public_key()))
    return found | {"kid": kid, "use": "sig"}


def token(kid: str, key: Any = None, algorithm: str = "RS256") -> str:
    claims = {"sub": "ann", "roles": ["learner"], "exp": int(time.time()) + 600}
    return jwt.encode(claims, key or KEYS[kid], algorithm=algorithm, headers={"kid": kid})


@pytest.fixture
def server() -> Iterator[KeyServer]:
    made = KeyServer()
    yield made
    made.hung.set()
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def auth(server: KeyServer, tmp_path: Path) -> Auth:
    return Auth(Settings(data_dir=str(tmp_path), jwks_url=server.url))


async def refusal(auth: Auth, given: str) -> int:
    with pytest.raises(Problem) as caught:
        await auth.principal(given)
    return caught.value.status


async def test_keys_rotate_without_a_restart(server: KeyServer, auth: Auth) -> None:
    assert (await auth.principal(token("old"))).sub == "ann"
    server.kids = ["old", "new"]
    assert auth._keys is not None
    auth._keys.cooldown_duration = 0
    assert (await auth.principal(token("new"))).sub == "ann"
    server.kids = ["new"]
    assert await refusal(auth, token("theirs")) == 401, "and the look for it fetched the set anew"
    assert await refusal(auth, token("old")) == 401 and server.asked >= 3


async def test_a_public_key_is_no_shared_secret(auth: Auth) -> None:
    """The classical confusion, with the very bytes that everybody can fetch."""
    public_key = KEYS["old"].public_key()
    forms = [
        public_key.public_bytes(Encoding.PEM, kind) for kind in (PublicFormat.PKCS1, PublicFormat.SubjectPublicKeyInfo)
    ]
    forms += [json.dumps(public("old")).encode(), public("old")["n"].encode()]
    hmac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    for form in forms:
        head, claims, _ = token("old").split(".")
        head = jwt.utils.base64url_encode(json.dumps({"alg": "HS256", "typ": "JWT", "kid": "old"}).encode()).decode()
        signature = jwt.utils.base64url_encode(hmac.sign(f"{head}.{claims}".encode(), form)).decode()
        assert await refusal(auth, f"{head}.{claims}.{signature}") == 401
    for given in (token("old", KEYS["theirs"]), token("old", "x" * 40, "HS256"), token("old", KEYS["old"], "RS512")):
        assert await refusal(auth, given) == 401


@pytest.mark.parametrize("mood", ["fails", "rubbish", "cut", "deep", "list", "moved"])
async def test_a_broken_key_server_is_our_trouble_and_is_not_asked_by_every_caller(
    server: KeyServer, auth: Auth, mood: str
) -> None:
    server.mood = mood
    assert [await refusal(auth, token("old")) for _ in range(10)] == [503] * 10
    assert server.asked == 1


async def test_who_makes_up_key_ids_while_the_server_is_away_holds_up_nobody(server: KeyServer, auth: Auth) -> None:
    assert (await auth.principal(token("old"))).sub == "ann"
    assert auth._keys is not None
    auth._keys.cooldown_duration = 0
    server.mood = "hangs"
    strangers = [asyncio.create_task(refusal(auth, token("theirs"))) for _ in range(3)]
    assert await asyncio.to_thread(server.hanging.wait, 20)
    assert (await auth.principal(token("old"))).sub == "ann"
    assert not any(each.done() for each in strangers), "they still wait, and the known key did not"
    server.hung.set()
    assert set(await asyncio.gather(*strangers)) <= {401, 503}
