"""compose.yaml, the Dockerfile and what watches them name only what the code knows. No container is started here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer
import yaml

from holdfast.cli import cli
from holdfast.http.app import create_app
from holdfast.main import load_systems
from holdfast.settings import Settings, problems
from holdfast.settings.celery import CelerySettings
from holdfast.settings.names import describe

ROOT = Path(__file__).parents[2]
PORTS = {"postgres": 5432, "rabbitmq": 5672}
SYSTEMS = {"grading-main", "grading-service", "conversion", "review"}
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def filled(node: Any, given: dict[str, str]) -> Any:
    """What was read, as Compose fills it in: `${NAME}`, `${NAME:-default}`, `${NAME:?why}`."""

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        assert name in given or kind == "-", f"{name} has no default: {rest}"
        return given.get(name) or rest

    if isinstance(node, dict):
        return {name: filled(one, given) for name, one in node.items()}
    if isinstance(node, list):
        return [filled(one, given) for one in node]
    return _VARIABLE.sub(value, node) if isinstance(node, str) else node


@pytest.fixture(scope="module")
def secrets() -> dict[str, str]:
    """What scripts/secrets makes."""
    made = subprocess.run([ROOT / "scripts" / "secrets"], capture_output=True, text=True, check=True).stdout
    return dict(line.split("=", 1) for line in made.splitlines())


@pytest.fixture(scope="module")
def services(secrets: dict[str, str]) -> dict[str, Any]:
    whole = filled(yaml.safe_load((ROOT / "compose.yaml").read_text()), secrets)
    found: dict[str, Any] = whole["services"]
    return found


def ours(services: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in services.items() if "build" in one}


@pytest.mark.spec("000.41")
def test_every_system_is_deployed_with_its_web_its_workers_and_its_database(services: dict[str, Any]) -> None:
    commands = {tuple(one["command"]): one.get("deploy", {}).get("replicas", 1) for one in ours(services).values()}
    assert {system for name, *rest in commands if name == "serve" for system in rest[1:]} == SYSTEMS
    jobs = SYSTEMS - {"grading-main"}  # the main app declares no job
    assert {rest[1]: number for (name, *rest), number in commands.items() if name == "worker"} == dict.fromkeys(jobs, 3)
    assert {rest[1]: number for (name, *rest), number in commands.items() if name == "serve"} == dict.fromkeys(
        SYSTEMS, 3
    )
    assert commands["migrate",] == 1
    databases = {one["environment"]["POSTGRES_DB"] for one in services.values() if one["image"].startswith("postgres")}
    assert databases == {"main", "grading", "conversion", "review"}
    watching = {one["image"].partition(":")[0] for one in services.values()} - {"holdfast", "postgres", "rabbitmq"}
    assert watching == {"prom/prometheus", "prom/alertmanager", "grafana/grafana"}


def test_ports_are_published_on_loopback_once_and_for_every_replica(services: dict[str, Any]) -> None:
    published: list[int] = []
    for one in services.values():
        for port in one.get("ports", ()):
            host, outside, _ = port.split(":")
            first, _, last = outside.partition("-")
            ports = range(int(first), int(last or first) + 1)
            assert host == "127.0.0.1" and len(ports) == one.get("deploy", {}).get("replicas", 1)
            published += ports
    assert len(published) == len(set(published)) == 15


def test_no_secret_has_a_default(secrets: dict[str, str]) -> None:
    text = (ROOT / "compose.yaml").read_text()
    assert set(re.findall(r"\$\{(\w+):\?", text)) == set(secrets), "what is asked for is what scripts/secrets makes"
    assert not re.search(r"\$\{\w*(PASSWORD|SECRET)\w*:-[^}]", text)
    assert all(re.fullmatch(r"[0-9a-f]{64}", value) for value in secrets.values())
    assert len(set(secrets.values())) == len(secrets)
    assert ".env" in (ROOT / ".gitignore").read_text().split()


def test_every_command_is_one_that_holdfast_has(services: dict[str, Any]) -> None:
    root: Any = typer.main.get_command(cli)
    for one in ours(services).values():
        name, *arguments = one["command"]
        context = root.commands[name].make_context(name, list(arguments))
        asked = context.params["system"]
        assert {system.name for system in load_systems(asked)} == set(asked or SYSTEMS)


def test_every_setting_exists_and_has_a_value_that_is_accepted(services: dict[str, Any]) -> None:
    groups = [Settings, CelerySettings, *(group for system in load_systems() for group in system.settings)]
    known = {name for group in groups for name, _, _ in describe(group)}
    for service, one in ours(services).items():
        env = {name: str(value) for name, value in one["environment"].items()}
        assert set(env) <= known, f"{service} sets {sorted(set(env) - known)}"
        assert [problem for group in groups for problem in problems(group, env)] == []


@pytest.mark.spec("K20")
def test_an_image_without_celery_says_so_before_it_starts(
    services: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {**services["grading-worker"]["environment"], "HOLDFAST_ENGINE": "celery"}
    assert problems(Settings, env) == []
    monkeypatch.setitem(sys.modules, "celery", None)
    (told,) = problems(Settings, env)
    assert "holdfast[celery]" in told


def test_each_process_knows_its_own_database_only(services: dict[str, Any]) -> None:
    own = {
        "grading-main": "MAIN_DATABASE_URL",
        "grading-service": "GRADING_DATABASE_URL",
        "conversion": "DATABASE_URL",
        "review": "REVIEW_DATABASE_URL",
    }
    for one in ours(services).values():
        has = {name for name in one["environment"] if name.endswith("DATABASE_URL")}
        assert has == {own[system] for system in one["command"][2:] or own}


def test_every_host_is_a_service_with_that_user_database_and_port(services: dict[str, Any]) -> None:
    for one in ours(services).values():
        for name, value in one["environment"].items():
            if not name.endswith(("DATABASE_URL", "RABBITMQ_URL")):
                continue
            url = urlsplit(value)
            server = services[str(url.hostname)]
            assert url.port == PORTS[server["image"].partition(":")[0]]
            told = server["environment"]
            user = told.get("POSTGRES_USER") or told["RABBITMQ_DEFAULT_USER"]
            password = told.get("POSTGRES_PASSWORD") or told["RABBITMQ_DEFAULT_PASS"]
            assert (url.username, url.password) == (user, password)
            assert url.path.strip("/") == told.get("POSTGRES_DB", "")


def test_what_is_waited_for_exists_and_can_be_waited_for(services: dict[str, Any]) -> None:
    for one in services.values():
        for name, how in one.get("depends_on", {}).items():
            healthy = how["condition"] == "service_healthy"
            assert not healthy or "healthcheck" in services[name]
            assert healthy or services[name]["restart"] == "no", "only what ends can complete"


def test_ports_and_health_checks_are_those_of_the_web_server(services: dict[str, Any], tmp_path: Path) -> None:
    listens = _dockerfile_env()["HOLDFAST_PORT"]
    paths = set(create_app(Settings(data_dir=str(tmp_path)), []).openapi()["paths"])
    for one in services.values():
        for port in one.get("ports", ()):
            if "build" not in one:
                continue
            assert port.rpartition(":")[2] == listens
            checked = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", json.dumps(one["healthcheck"]))
            assert checked is not None and checked[1] == listens and checked[2] in paths


def test_the_image_is_made_of_what_is_here() -> None:
    text = (ROOT / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
    for chosen in ("run", "celery"):
        for pinned in re.findall(r"-r (\S+)", text.replace("${REQUIREMENTS}", chosen)):
            assert (ROOT / pinned).exists() and re.search(rf"^COPY .*{pinned} ", text, re.MULTILINE), pinned
    entry = re.search(r'^ENTRYPOINT \["(\w+)"\]$', text, re.MULTILINE)
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert entry is not None and entry[1] in scripts
    assert problems(Settings, _dockerfile_env()) == []
    known = {name for name, _, _ in describe(Settings)}
    assert set(_dockerfile_env()) <= known


def test_the_image_leaves_out_what_it_does_not_need() -> None:
    ignored = set((ROOT / ".dockerignore").read_text().split())
    assert {".git", ".venv", ".cache", "tests", "data"} <= ignored and not ignored & {"src", "requirements"}


@pytest.mark.spec("K20", "000.41")
def test_celery_is_an_extra_of_the_image_and_brings_no_test_tools() -> None:
    pinned = {name: _pins(name) for name in ("run", "celery", "dev")}
    assert pinned["run"].items() < pinned["celery"].items() < pinned["dev"].items()
    assert "celery" in pinned["celery"] and not {"pytest", "mypy", "playwright"} & set(pinned["celery"])


def _pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))


@pytest.mark.spec("000.41")
def test_prometheus_scrapes_every_process_and_loads_the_rules(services: dict[str, Any]) -> None:
    config = _yaml("deploy/prometheus/prometheus.yml")
    scraped: dict[str, int] = {}
    for job in config["scrape_configs"]:
        for found in job["dns_sd_configs"]:
            scraped |= dict.fromkeys(found["names"], found["port"])
    listens = int(_dockerfile_env()["HOLDFAST_PORT"])
    web = {name: listens for name, one in ours(services).items() if one["command"][0] == "serve"}
    workers = {
        name: int(one["environment"]["HOLDFAST_METRICS_PORT"])
        for name, one in ours(services).items()
        if one["command"][0] == "worker"
    }
    assert scraped == web | workers
    assert all((ROOT / "deploy/prometheus" / name).is_file() for name in config["rule_files"])
    (alerted,) = config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    host, port = alerted.split(":")
    assert services[host]["ports"] == [f"127.0.0.1:{port}:{port}"]


@pytest.mark.spec("000.41")
def test_every_severity_has_a_receiver_and_grafana_its_source(services: dict[str, Any]) -> None:
    routes = _yaml("deploy/alertmanager/alertmanager.yml")
    receivers = {one["name"] for one in routes["receivers"]}
    severities = {
        rule["labels"]["severity"]
        for group in _yaml("deploy/prometheus/alerts.yml")["groups"]
        for rule in group["rules"]
    }
    assert receivers == severities == {"page", "ticket"}
    source = _yaml("deploy/grafana/provisioning/datasources/prometheus.yml")["datasources"][0]["url"]
    assert source == "http://prometheus:9090" and "prometheus" in services
    folder = _yaml("deploy/grafana/provisioning/dashboards/holdfast.yml")["providers"][0]["options"]["path"]
    mounted = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"])
    assert mounted["./deploy/grafana/holdfast.json"].startswith(folder)


def test_every_folder_and_volume_that_is_mounted_is_there(services: dict[str, Any]) -> None:
    declared = set(_yaml("compose.yaml")["volumes"])
    for one in services.values():
        for volume in one.get("volumes", ()):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in declared, source


def _yaml(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def _dockerfile_env() -> dict[str, str]:
    line = re.search(r"^ENV (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert line is not None
    return dict(pair.split("=", 1) for pair in line[1].split())
