"""The page's Docker block: run where a Docker daemon answers, checked as far as its files go where none does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from tests.docs.pages import ROOT, blocks, install, run

PAGE = ROOT / "docs" / "how-to" / "deploy-with-compose.md"
UP = "docker compose up --build"
READY_S = 1_200


def block() -> str:
    (found,) = [one for one in blocks(PAGE) if UP in one.text]
    return found.text


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return read


def has_docker() -> bool:
    """A daemon that answers, and the compose plugin."""
    try:
        for asked in (["docker", "version", "--format", "{{.Server.Version}}"], ["docker", "compose", "version"]):
            subprocess.run(asked, capture_output=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def test_what_the_docker_block_starts_is_in_the_compose_file_though_nothing_is_started_here(tmp_path: Path) -> None:
    """The services and ports that page and file speak of are there, and the block sets every variable that is asked
    for: its own lines are run in a shell, with a `docker` that only says what it was given."""
    env = install(tmp_path / "home")
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "secrets", tmp_path / "scripts" / "secrets")
    stand_in = tmp_path / "home" / "bin" / "docker"
    asked = sorted(set(re.findall(r"\$\{(\w+):\?", (ROOT / "compose.yaml").read_text())))
    stand_in.write_text(
        "#!/bin/sh\n. ./.env\n" + "".join(f'echo "{name}=${name}"\n' for name in asked) + 'echo "docker $*"\n'
    )
    stand_in.chmod(0o755)
    (said,) = run([block()], tmp_path, env)
    *given, started = said.splitlines()
    assert asked and all(len(line.partition("=")[2]) >= 32 for line in given), "a secret that is asked for is not set"
    assert started == UP
    published = {
        port.split(":")[1].partition("-")[0] for one in compose()["services"].values() for port in one.get("ports", ())
    }
    text = PAGE.read_text()
    assert {port for port in published if f":{port}" not in text} == set(), "the page names every port"


@pytest.mark.slow
@pytest.mark.may_skip("docker")
def test_the_docker_block_brings_both_main_apps_up_where_there_is_docker(tmp_path: Path) -> None:
    """With a project name of its own, and everything removed at the end."""
    if not has_docker():
        pytest.skip("NO DOCKER HERE: the compose block is checked, and not run")
    env = install(tmp_path / "home") | {"COMPOSE_PROJECT_NAME": f"holdfast-{uuid4().hex[:8]}"}
    env |= {name: value for name, value in os.environ.items() if name.startswith("DOCKER_")}
    script = block().replace(UP, f"{UP} --detach --wait")
    for port in ("8001", "8011", "8021", "8031"):
        script += f"curl --silent --fail http://127.0.0.1:{port}/readyz\n"
    try:
        run([script], ROOT, env, timeout_s=READY_S)
    finally:
        down = ["docker", "compose", "down", "--volumes", "--timeout", "10"]
        subprocess.run(down, cwd=ROOT, env=env, check=False, timeout=300)
