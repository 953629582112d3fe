"""Every service of compose.yaml as a plain process: its command, its environment, its health check, its metrics.

No container is started: names of services are addresses on loopback here, and each has one process instead of three. A
PostgreSQL, a RabbitMQ and a Prometheus of this machine stand in for the images."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.acceptance.process import Nursery, Process, until
from tests.deploy.test_compose import ROOT, filled, ours
from tests.services.child import free_ports
from tests.services.fixtures import do_without
from tests.services.found import find_tool
from tests.services.postgres import PostgresServer

from holdfast.http.auth import token_for
from holdfast.settings import Settings

PATIENCE_S = 120.0
TEXT = {"text": "I grew up in a small village near the sea. " * 12, "taskType": "essay", "questionId": "q-1"}


class Deployment:
    """The services of the file that run our image, each with the port that stands for its container."""

    def __init__(self, databases: dict[str, str], broker: str, folder: Path) -> None:
        made = subprocess.run([ROOT / "scripts" / "secrets"], capture_output=True, text=True, check=True).stdout
        self.secrets = dict(line.split("=", 1) for line in made.splitlines())
        self.services = filled(yaml.safe_load((ROOT / "compose.yaml").read_text()), self.secrets)["services"]
        self.ports = dict(zip(ours(self.services), free_ports(len(ours(self.services))), strict=True))
        self._databases, self._broker, self._folder = databases, broker, folder
        self.nursery = Nursery(folder)

    def start(self, name: str) -> Process:
        service = self.services[name]
        return self.nursery.start(*service["command"], env=self._env(name, service))

    def _env(self, name: str, service: dict[str, Any]) -> dict[str, str]:
        """The service's own environment, where its containers' names are places on this machine."""
        env = {key: self._here(str(value)) for key, value in service["environment"].items()}
        volume = next((one.partition(":")[0] for one in service.get("volumes", ())), name)
        env |= {"HOLDFAST_DATA_DIR": str(self._folder / volume), "HOLDFAST_HOST": "127.0.0.1"}
        env["HOLDFAST_PORT"] = str(self.ports[name])
        if "HOLDFAST_METRICS_PORT" in env:
            env["HOLDFAST_METRICS_PORT"] = str(self.ports[name])
        return env

    def _here(self, value: str) -> str:
        for database, url in self._databases.items():
            if f"@{database}-db:5432/{database}" in value:
                return url
        if "@broker:5672/" in value:
            return self._broker
        return value.replace("http://grading:8000", f"http://127.0.0.1:{self.ports['grading']}")

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def client(self, user: str, role: str) -> httpx.AsyncClient:
        bearer = token_for(Settings(jwt_secret=self.secrets["HOLDFAST_JWT_SECRET"]), user, (role,))
        headers = {"Authorization": f"Bearer {bearer}", "Idempotency-Key": str(uuid.uuid4())}
        return httpx.AsyncClient(base_url=self.url("main"), headers=headers, timeout=30, verify=False)


@pytest.fixture
def deployment(postgres_server: PostgresServer, rabbitmq_url: str, tmp_path: Path) -> Iterator[Deployment]:
    urls = {name: postgres_server.create_database() for name in ("main", "grading", "conversion", "review")}
    made = Deployment(urls, rabbitmq_url, tmp_path)
    yield made
    made.nursery.close()
    for url in urls.values():
        postgres_server.drop_database(url)


@pytest.mark.slow
@pytest.mark.spec("000.41", "K20")
async def test_every_service_starts_is_healthy_is_scraped_and_stops_in_time(
    deployment: Deployment, tmp_path: Path
) -> None:
    site = deployment
    assert await site.start("migrate").until_ended(PATIENCE_S) == 0
    names = [name for name in site.ports if name != "migrate"]
    started = {name: site.start(name) for name in names}
    async with httpx.AsyncClient(timeout=10, verify=False) as client:
        for name in names:
            ready = partial(is_ready, client, site.url(name))
            await until(ready, f"{name} to be ready", PATIENCE_S, process=started[name])
            assert 'holdfast_store_up{system="' in (await client.get(f"{site.url(name)}/metrics")).text
    for name in names:
        check_health(site, name)
    await graded_and_seen(site)
    await watched(site, names, tmp_path)
    for process in started.values():
        process.send(signal.SIGTERM)
    for name, process in started.items():
        grace_s = float(str(site.services[name]["stop_grace_period"]).removesuffix("s"))
        assert await process.until_ended(grace_s) == 0, process.tail()


async def is_ready(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(f"{url}/readyz")).status_code == 200
    except httpx.HTTPError:
        return False


def check_health(site: Deployment, name: str) -> None:
    """The file's own health check, with this machine's Python."""
    asked = site.services[name].get("healthcheck")
    if asked is None:
        return
    kind, program, *arguments = asked["test"]
    assert (kind, program) == ("CMD", "python")
    arguments[-1] = arguments[-1].replace(":8000", f":{site.ports[name]}")
    subprocess.run([sys.executable, *arguments], check=True, timeout=30)


async def graded_and_seen(site: Deployment) -> None:
    """A learner's text goes through the broker and back, and the main app's console shows the service's job."""
    async with site.client("ann", "learner") as learner:
        asked = await learner.post("/submissions", json={"skill": "writing", "payload": TEXT})
        assert asked.status_code == 201, asked.text
        path = f"/submissions/{asked.json()['id']}"

        async def ended() -> bool:
            return (await learner.get(path)).json()["status"] in ("COMPLETED", "REVIEW_REQUIRED")

        await until(ended, "the text to be graded", PATIENCE_S)
    async with site.client("olga", "operator") as operator:
        (job,) = (await operator.get("/api/ops/service/jobs")).json()["items"]
        assert (job["system"], job["state"]) == ("grading-service", "succeeded")


async def watched(site: Deployment, names: list[str], folder: Path) -> None:
    """Prometheus with the file's own configuration and rules finds every process, and every rule can be evaluated."""
    prometheus = find_tool("prometheus")
    if prometheus is None:
        do_without("PROMETHEUS IS MISSING: the rules are not evaluated; install prometheus")
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    for job in config["scrape_configs"]:
        (found,) = job.pop("dns_sd_configs")
        job["static_configs"] = [{"targets": [f"127.0.0.1:{site.ports[name]}" for name in found["names"]]}]
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(ROOT / "deploy/prometheus" / name) for name in config["rule_files"]]
    config.pop("alerting")
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_ports(1)[0]
    options = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    options.append(f"--web.listen-address=127.0.0.1:{port}")
    running = await asyncio.create_subprocess_exec(prometheus, *options, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=10, verify=False) as client:
            await until(lambda: all_up(client, len(names)), "every process to be scraped", PATIENCE_S)
            await until(lambda: all_evaluated(client), "every rule to be evaluated", PATIENCE_S)
    finally:
        running.terminate()
        await asyncio.wait_for(running.wait(), 30)


async def all_up(client: httpx.AsyncClient, number: int) -> bool:
    try:
        targets = (await client.get("/targets")).json()["data"]["activeTargets"]
    except (httpx.HTTPError, json.JSONDecodeError):
        return False
    return len(targets) == number and all(target["health"] == "up" for target in targets)


async def all_evaluated(client: httpx.AsyncClient) -> bool:
    groups = (await client.get("/rules")).json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert not [rule for rule in rules if rule["health"] == "err"], "a rule cannot be evaluated"
    return bool(rules) and all(rule["health"] == "ok" for rule in rules)
