"""Other people's code for the interop tests: `npm ci` into .cache/interop, once, from the pinned lock file.

Where Node.js or the packages cannot be had, the tests skip at home, loudly, and fail when CI=true.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from tests.services.child import ServerUnavailable
from tests.services.found import REPOSITORY, find_node

HERE = Path(__file__).parent
CACHE = REPOSITORY / ".cache" / "interop"
INSTALL_S_MAX = 300


@dataclass(frozen=True)
class Strangers:
    """Node.js and the installed packages."""

    program: str
    modules: Path

    def command(self, script: str, *arguments: str) -> list[str]:
        return [self.program, str(HERE / script), *arguments]

    def env(self, **given: str) -> dict[str, str]:
        contract = str(REPOSITORY / "docs" / "contract")
        return os.environ | {"NODE_PATH": str(self.modules), "CONTRACT": contract} | given


def installed() -> Strangers:
    """Install what the lock file pins, unless it is there. Several test processes may ask at once."""
    node = find_node()
    if node is None:
        raise ServerUnavailable("Node.js 20 and npm are not on this machine; `make servers` fetches them")
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in _PINS)).hexdigest()
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = CACHE / "installed"
        if not (done.exists() and done.read_text() == stamp):
            _install(node.npm)
            done.write_text(stamp)
    return Strangers(node.program, CACHE / "node_modules")


_PINS = ("package.json", "package-lock.json")


def _install(npm: tuple[str, ...]) -> None:
    for name in _PINS:
        shutil.copy(HERE / name, CACHE / name)
    command = [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        ran = subprocess.run(
            command, cwd=CACHE, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False, env=_env(npm)
        )
    except subprocess.TimeoutExpired:
        raise ServerUnavailable(f"npm did not finish in {INSTALL_S_MAX} s") from None
    if ran.returncode != 0:
        raise ServerUnavailable(f"npm could not install the packages: {(ran.stdout + ran.stderr)[-500:]}")


def _env(npm: tuple[str, ...]) -> dict[str, str]:
    return os.environ | {"PATH": f"{Path(npm[0]).parent}:{os.environ['PATH']}"}


def do_without(reason: ServerUnavailable) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(str(reason), pytrace=False)
    pytest.skip(f"INTEROP IS NOT PROVEN HERE: {reason}")
