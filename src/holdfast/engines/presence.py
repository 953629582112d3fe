"""Worker names, and what they prove: a worker whose process is known to be gone need not be waited for.

    host:pid:started:place:suffix     place: a digest of the boot id, the pid namespace and the time namespace

A pid says nothing outside the pid namespace it was given in, and in it only together with the time the process was
started: numbers are used again. So a worker is declared dead only by a process of the same place, where the pid is gone
or belongs to a process that was started at another time. Where that cannot be read (another container, another boot, a
system without /proc), and for names of another form, the lease alone decides.

Why so: docs/decisions/0011-identity-is-proof-and-stop-is-a-deadline.md
"""

from __future__ import annotations

import os
import socket
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from holdfast.kernel.kernel import Kernel
from holdfast.stores.seam import Tx
from holdfast.tables import keepers, workers

PROC = Path("/proc")
UNKNOWN = "-"
START_TIME = 19
"""Where the start time stands among the fields that follow the command's name (field 22 of proc(5))."""


class Identity(NamedTuple):
    """Whose process it is, as its name says. `place` and `started` are `-` where the system does not tell them."""

    host: str
    pid: int
    started: str
    place: str


def name_here(suffix: str) -> str:
    """This process, and something of its own for each start."""
    here = identity_here()
    return f"{here.host}:{here.pid}:{here.started}:{here.place}:{suffix}"


def identity_here() -> Identity:
    pid = os.getpid()
    place = _place(pid)
    started = _started(pid) if place != UNKNOWN else None
    return Identity(socket.gethostname(), pid, started or UNKNOWN, place if started else UNKNOWN)


async def expire_the_dead(kernel: Kernel) -> int:
    """End the leases of workers that are proven to be dead and forget them: after a crash, work goes on at once and not
    when the leases run out, and no light counts them. Returns how many were dead."""
    async with kernel.store.transaction() as tx:
        return await expire_dead_in(kernel, tx)


async def expire_dead_in(kernel: Kernel, tx: Tx) -> int:
    """The same in the caller's transaction, as the reaper's, which then takes back what they held."""
    here = identity_here()
    dead = [name for name in await workers.known(tx, kernel.now()) if is_dead(name, here)]
    for name in dead:
        await workers.expire(tx, name, kernel.now())
    for name in await keepers.owners(tx):
        if is_dead(name, here):
            await keepers.release_owned(tx, name)
    if dead:
        tx.after_commit(lambda: kernel.watch.log("workers.dead", workers=dead))
    return len(dead)


def is_dead(name: str, here: Identity) -> bool:
    """Whether the worker of this name is proven, from `here`, to be gone."""
    there = _read(name)
    if there is None or UNKNOWN in (here.place, there.started) or (there.host, there.place) != (here.host, here.place):
        return False
    if there.pid == here.pid:
        return there.started != here.started
    try:
        os.kill(there.pid, 0)  # only where there is a /proc: elsewhere this may do more than ask
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it belongs to somebody else; /proc may still tell when it was started
    started = _started(there.pid)
    return started is not None and started != there.started


def _read(name: str) -> Identity | None:
    parts = name.rsplit(":", 4)
    if len(parts) != 5 or not parts[1].isdecimal():
        return None
    return Identity(parts[0], int(parts[1]), parts[2], parts[3])


def _place(pid: int) -> str:
    """Those who share it see the same processes under the same numbers, and the same times of their start."""
    try:
        if os.readlink(PROC / "self") != str(pid):
            return UNKNOWN  # the /proc of another pid namespace: its numbers are not ours
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        spaces = [os.readlink(PROC / "self/ns/pid"), *_time_namespace()]
    except OSError:
        return UNKNOWN
    return blake2b(" ".join([boot, *spaces]).encode(), digest_size=5).hexdigest()


def _time_namespace() -> list[str]:
    try:
        return [os.readlink(PROC / "self/ns/time")]
    except FileNotFoundError:
        return []  # a kernel before 5.6 has none


def _started(pid: int) -> str | None:
    """When the process was started, in the kernel's ticks since the boot; None if that cannot be read."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()[START_TIME]
