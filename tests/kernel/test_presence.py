"""Who works here: those who are proven dead are not waited for; whoever may live is left to its lease."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import pytest

from holdfast import App
from holdfast.engines import presence, run
from holdfast.engines.presence import Identity, expire_the_dead, identity_here, is_dead, name_here
from holdfast.tables import workers
from tests.kernel.places import Deploy

app = App("presence")
pytestmark = [
    pytest.mark.may_skip("/proc"),
    pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc to prove anything by"),
]


def named(identity: Identity) -> str:
    return ":".join(str(part) for part in identity) + ":suffix"


async def dead_pid() -> int:
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    return ended.pid


@pytest.mark.spec("K3", "K17", "K27")
async def test_the_dead_of_this_place_are_forgotten_and_nobody_else(deploy: Deploy) -> None:
    world = await deploy(app)
    here, gone = identity_here(), await dead_pid()
    dead = named(here._replace(pid=gone, started="1"))
    assert is_dead(named(here._replace(host="a:b", pid=gone, started="1")), here._replace(host="a:b"))
    alive = [
        name_here("me"),
        named(here._replace(pid=gone, place="0123456789")),  # another container, or another boot
        named(here._replace(pid=gone, host="elsewhere.test")),
        f"{socket.gethostname()}:{gone}:a",  # a name from before names were a proof
    ]
    async with world.kernel.store.transaction() as tx:
        for name in (dead, *alive):
            await workers.seen(tx, name, "presence", 0, world.clock.now_ms())
    assert await expire_the_dead(world.kernel) == 1
    async with world.kernel.store.transaction() as tx:
        assert sorted(await workers.known(tx, world.kernel.now())) == sorted(alive)
        await workers.seen(tx, dead, "presence", 0, world.clock.now_ms())
    await run._reap(world.kernel, [])
    async with world.kernel.store.transaction() as tx:
        assert dead not in await workers.known(tx, world.kernel.now()), "the keeper need not be started for it"


@pytest.mark.spec("K27")
async def test_a_number_that_was_given_to_another_process_proves_its_first_owner_dead() -> None:
    here = identity_here()
    other = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        started = presence._started(other.pid)
        assert started is not None
        assert not is_dead(named(here._replace(pid=other.pid, started=started)), here)
        assert is_dead(named(here._replace(pid=other.pid, started=str(int(started) - 1))), here)
        assert is_dead(named(here._replace(started="1")), here), "this very number, before this process had it"
        assert not is_dead(named(here), here)
        assert not is_dead(f"{here.host}:number:{here.started}:{here.place}:x", here), "a name of another form"
    finally:
        other.kill()
        await other.wait()


@pytest.mark.spec("K27")
async def test_without_a_proc_of_its_own_a_process_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system without /proc, or in a pid namespace that still sees another one's."""
    gone, real = await dead_pid(), identity_here()
    asked: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: asked.append(pid))
    for readlink in (_missing, lambda path: "1"):
        monkeypatch.setattr(presence.os, "readlink", readlink)
        here = identity_here()
        assert (here.place, here.started) == ("-", "-")
        assert not is_dead(named(real._replace(pid=gone)), here)
        assert not is_dead(named(here._replace(pid=gone)), here)
    assert asked == [], "a signal is not sent where it may be more than a question"


def _missing(path: object) -> str:
    raise FileNotFoundError(path)
