"""compose.yaml and the Dockerfile say nothing that the code does not know. No container is started here."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer
import yaml

from holdfast.cli import cli
from holdfast.engines.celery import CelerySettings
from holdfast.http.app import create_app
from holdfast.main import load_systems
from holdfast.settings import Settings, describe, problems

ROOT = Path(__file__).parents[3]
PORTS = {"postgres": 5432, "rabbitmq": 5672}
SECRET = "s" * 32
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
def services() -> dict[str, Any]:
    whole = filled(yaml.safe_load((ROOT / "compose.yaml").read_text()), {"HOLDFAST_JWT_SECRET": SECRET})
    found: dict[str, Any] = whole["services"]
    return found


def ours(services: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in services.items() if "build" in one}


def test_there_are_two_of_each_service_two_databases_and_a_broker(services: dict[str, Any]) -> None:
    commands = [tuple(one["command"]) for one in ours(services).values()]
    assert commands.count(("serve", "--system", "grading-main")) == 2
    assert commands.count(("worker", "--system", "grading-service")) == 2
    assert sorted(one["image"].partition(":")[0] for one in services.values() if "build" not in one) == [
        "postgres",
        "postgres",
        "rabbitmq",
    ]
    published = [port for one in services.values() for port in one.get("ports", ())]
    assert len(published) == len(set(published)) == 2


def test_every_command_is_one_that_holdfast_has(services: dict[str, Any]) -> None:
    root: Any = typer.main.get_command(cli)
    for one in ours(services).values():
        name, *arguments = one["command"]
        context = root.commands[name].make_context(name, list(arguments))
        assert [system.name for system in load_systems(context.params["system"])] == sorted(context.params["system"])


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
    env = {**services["worker-1"]["environment"], "HOLDFAST_ENGINE": "celery"}
    assert problems(Settings, env) == []
    monkeypatch.setitem(sys.modules, "celery", None)
    (told,) = problems(Settings, env)
    assert "holdfast[celery]" in told


def test_each_process_knows_its_own_database_only(services: dict[str, Any]) -> None:
    for one in ours(services).values():
        has = {name for name in one["environment"] if name.endswith("_DATABASE_URL")}
        wanted = {"serve": {"MAIN_DATABASE_URL"}, "worker": {"GRADING_DATABASE_URL"}}
        assert has == wanted.get(one["command"][0], {"MAIN_DATABASE_URL", "GRADING_DATABASE_URL"})


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
            assert port.rpartition(":")[2] == listens
            checked = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", json.dumps(one["healthcheck"]))
            assert checked is not None and checked[1] == listens and checked[2] in paths


def test_the_image_is_made_of_what_is_here() -> None:
    text = (ROOT / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
    for chosen in ("run", "dev"):
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


def _dockerfile_env() -> dict[str, str]:
    line = re.search(r"^ENV (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert line is not None
    return dict(pair.split("=", 1) for pair in line[1].split())
