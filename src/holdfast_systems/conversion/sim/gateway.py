"""What stands in for sockets and disks' accidents in the simulated conversion system.

The gateways are the production ones; only the far end of their connections is a stub, which fails in every way and
answers each call with another XML, so that it shows which attempt a result came from. Webhooks arrive at a receiver
that knows tokens and checks signatures. Files are real, in memory, with the simulation's time on them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from holdfast import App
from holdfast.providers.outbound import OutboundPolicy
from holdfast.providers.webhook import signed
from holdfast.settings import read
from holdfast_proof import wire
from holdfast_proof.provider_stub import Dedup
from holdfast_proof.world import WORLD, here
from holdfast_systems.conversion.gateway import Gateway, GrobidGateway, HttpGateway
from holdfast_systems.conversion.jobs import GATEWAY, build_app
from holdfast_systems.conversion.settings import ConversionSettings

if TYPE_CHECKING:
    from holdfast_systems.conversion.sim.world import ConversionWorld

SECRET = "a secret of twenty-four characters"
STUBS = {GATEWAY: Dedup.NEITHER, "webhook": Dedup.TOKEN}
ENV = {
    "GATEWAY_TIMEOUT_MS": "10000",
    "CIRCUIT_WINDOW": "6",
    "CIRCUIT_COOLDOWN_MS": "2000",
    "RESULT_RETENTION_SEC": "600",
    "SOURCE_RETENTION_SEC": "150",
    "EXPIRY_CHECK_SEC": "40",
    "ORPHAN_GRACE_SEC": "900",
    "UPLOAD_BYTES_MAX": "4000",
    "USER_QUEUED_MAX": "4",
    "USER_UPLOADS_PER_MINUTE": "5",
    "WEBHOOK_SECRET": SECRET,
    "WEBHOOK_TIMEOUT_MS": "13000",
    "WEBHOOK_MAX_ATTEMPTS": "4",
}
_NAMED = re.compile(rb"%PDF-1.7 (\S+)")
SPOILED = "spoiled"
"""In the name of a document that no gateway takes."""


def world() -> ConversionWorld:
    found: Any = here()
    return found  # type: ignore[no-any-return]


class SimConversionSettings(ConversionSettings):
    """The settings, with folders beside the present process's simulated database: they go with it."""

    __slots__ = ()

    @property
    def uploads(self) -> Path:
        return _beside_the_database("uploads") or super().uploads

    @property
    def results(self) -> Path:
        return _beside_the_database("results") or super().results


def _beside_the_database(name: str) -> Path | None:
    present = WORLD.get(None)
    return Path(present.arenas["main"].path).parent / name if present is not None else None


SETTINGS = read(SimConversionSettings, ENV)


def app_of(gateway: Gateway) -> App:
    """The production app around a gateway."""
    with tempfile.TemporaryDirectory() as folder:  # the app wants its folders when it is built; no seed runs yet
        settings = read(SimConversionSettings, {**ENV, "HOLDFAST_DATA_DIR": folder})
        return build_app(settings, gateway, post=post, wall_s=lambda: world().file_clock_s())


def gateways() -> dict[str, Gateway]:
    """One of each kind: to a GROBID server a 503 means that it is busy, and nothing against it."""
    return {
        "http": HttpGateway("http://gateway.sim/convert", now_ms=_now_ms, connect=_connect),
        "grobid": GrobidGateway(
            "http://gateway.sim", now_ms=_now_ms, dice=lambda: world().dice.random(), connect=_connect
        ),
    }


def _now_ms() -> int:
    return here().loop.current.wall_ms


def _connect(url: str, timeout_s: float) -> httpx.AsyncClient:
    return wire.client(_answer, _advice_s)


def _advice_s() -> int:
    return world().dice.randint(1, 20) if world().advises_waits else 0


async def _answer(request: httpx.Request) -> httpx.Response:
    if request.method == "GET":
        return await _answer_probe(request)
    found = _NAMED.search(await request.aread())
    assert found is not None, "the gateway was sent a file that nobody uploaded"
    name = found[1].decode()
    if SPOILED in name:
        await asyncio.sleep(0.1)
        return httpx.Response(422)
    provider_id = await here().providers[GATEWAY].send(name, name)
    xml = f'<?xml version="1.0"?><TEI made-by="{provider_id}"/>'.encode()
    world().made[hashlib.sha256(xml).hexdigest()] = provider_id
    content = b"<html><p>Busy?" if world().answers_rubbish() else xml
    return httpx.Response(200, headers={"content-type": "application/xml"}, stream=httpx.ByteStream(content))


async def _answer_probe(request: httpx.Request) -> httpx.Response:
    """A sick gateway is sick for probes too."""
    await here().loop.gate()
    faults = here().providers[GATEWAY].faults
    sick = faults.error_before + faults.error_after + faults.silent + faults.unreachable
    well = world().dice.random() >= sick
    world().probes.append((here().loop.now_ms, here().loop.current.label, well))
    await asyncio.sleep(world().dice.uniform(0.01, 2))
    if not well and world().dice.random() < 0.3:
        raise httpx.ReadTimeout("no answer", request=request)
    return httpx.Response(200 if well else 503)


async def post(url: str, body: str, headers: dict[str, str], policy: OutboundPolicy, now_ms: int) -> str:
    """Deliver a webhook to the stub; what arrives is its story, and whether its signature is right."""
    token, at_s = headers["webhook-id"], int(headers["webhook-timestamp"])
    genuine = signed(SECRET, token, at_s, body) == headers
    told = json.loads(body)
    arrived = (told["job"]["id"], told["type"], hashlib.sha256(body.encode()).hexdigest(), genuine)
    return await here().providers["webhook"].send(token, arrived)
