"""The contenders: each in an interpreter of its own, called as a child process, with fresh databases for every run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.services.child import ServerUnavailable
from tests.services.postgres import PostgresServer
from tests.services.rabbitmq import RabbitMQServer

from bench.model import Run
from bench.stopwatch import Figures, left_behind

HERE = Path(__file__).parent
ROOT = HERE.parent
ENVIRONMENTS = ROOT / ".cache" / "bench"


class CannotRun(Exception):
    """A side, or one task of it, gives no figures here, and why."""


@dataclass
class Servers:
    """One PostgreSQL and one RabbitMQ for the whole sitting, each started when the first run needs it."""

    _postgres: PostgresServer | None = None
    _rabbitmq: RabbitMQServer | None = None

    @property
    def postgres(self) -> PostgresServer:
        if self._postgres is None:
            self._postgres = PostgresServer()
            self._postgres.begin()
        return self._postgres

    @property
    def rabbitmq(self) -> RabbitMQServer:
        if self._rabbitmq is None:
            self._rabbitmq = RabbitMQServer()
            self._rabbitmq.begin()
            self._rabbitmq.wait_ready()
        return self._rabbitmq

    def stop(self) -> None:
        for server in (self._postgres, self._rabbitmq):
            if server is not None:
                server.stop()


BROKER_TASKS = frozenset({"relay", "publish", "callback"})
BROKER_SIDES = frozenset({"celery", "dramatiq"})


@dataclass
class Sides:
    """Finds and calls the contenders. A peer that cannot be installed is named once, and left out from then on."""

    servers: Servers
    missing: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    _commands: dict[str, list[str]] = field(default_factory=dict)

    def run(self, run: Run, count: int) -> Figures:
        """Call the side once and return what it measured. Raises `CannotRun`."""
        command = self._command(run.side)
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
            url = self.servers.postgres.create_database()
            env = self._env(url, folder)
            vhost = self._vhost(run)
            if vhost is not None:
                env["BENCH_AMQP_URL"] = vhost
            try:
                figures = _call([*command, run.task, str(count)], env, run)
                return figures | left_behind(url, figures.get("jobs", 0))
            finally:
                self.servers.postgres.drop_database(url)
                if vhost is not None:
                    self.servers.rabbitmq.delete_vhost(vhost)

    def _vhost(self, run: Run) -> str | None:
        if run.task not in BROKER_TASKS and run.side not in BROKER_SIDES:
            return None
        try:
            return self.servers.rabbitmq.create_vhost()
        except ServerUnavailable as error:
            raise CannotRun(str(error)) from error

    def _env(self, url: str, folder: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        return kept | {
            "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
            "BENCH_POSTGRES_URL": url,
            "BENCH_POSTGRES_PID": str(self.servers.postgres.pid),
            "BENCH_FOLDER": folder,
        }

    def _command(self, side: str) -> list[str]:
        if side in self.missing:
            raise CannotRun(self.missing[side])
        if side not in self._commands:
            self._commands[side] = self._prepare(side)
        return self._commands[side]

    def _prepare(self, side: str) -> list[str]:
        if side in ("holdfast", "floor"):
            command = [sys.executable, "-m", f"bench.runs.{side}"]
        else:
            command = [str(self._installed(side)), str(HERE / "peers" / f"{side}_runs.py")]
        self.settings[side] = _said([*command, "settings", "0"], self._env("", "/nonexistent"))
        return command

    def _installed(self, peer: str) -> Path:
        """The peer's interpreter, with exactly what its requirements pin."""
        home, pins = ENVIRONMENTS / peer, HERE / "peers" / f"{peer}.txt"
        python, mark = home / "bin" / "python", home / "installed.txt"
        if mark.exists() and mark.read_text() == pins.read_text():
            return python
        uv = Path(sys.executable).parent / "uv"
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True, capture_output=True)
            subprocess.run(
                [uv, "pip", "install", "-q", "--python", python, "--require-hashes", "-r", pins],
                check=True,
                capture_output=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            self.missing[peer] = f"{peer} cannot be installed ({type(error).__name__})"
            raise CannotRun(self.missing[peer]) from error
        mark.write_text(pins.read_text())
        return python


def _call(command: list[str], env: dict[str, str], run: Run) -> Figures:
    try:
        done = subprocess.run(
            command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=run.timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CannotRun(f"{run.side} did not finish '{run.task}' in {run.timeout_s:.0f} s") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no word"]
        raise CannotRun(f"{run.side} failed at '{run.task}': {lines[-1]}")
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def _said(command: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
