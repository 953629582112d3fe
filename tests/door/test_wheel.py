"""The wheel, in an environment that has nothing but what a plain `pip install holdfast` brings."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from importlib.metadata import PackagePath, distribution
from pathlib import Path

import pytest

from tests.services.found import REPOSITORY

pytestmark = pytest.mark.slow
ENTRY = "from holdfast.__main__ import main; main()"


def base_distributions() -> set[str]:
    """What the package requires without any extra, and what that requires."""
    found: set[str] = set()
    wanted = {"holdfast"}
    while wanted:
        name = wanted.pop()
        found.add(name)
        for requirement in distribution(name).requires or ():
            text, _, condition = requirement.partition(";")
            needed = re.match(r"[\w.-]+", text)
            if needed and not re.search("extra|platform|python_version", condition) and needed[0] not in found:
                wanted.add(needed[0])
    return found - {"holdfast"}


def link(file: PackagePath, site: Path) -> None:
    """Lend the top of a distribution's file or folder to another environment."""
    top, base = file.parts[0], Path(str(file.locate())).parents[len(file.parts) - 1]
    if top not in ("..", "__pycache__") and not (site / top).exists():
        (site / top).symlink_to(base / top)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel and the base dependencies in it."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, check=True, cwd=REPOSITORY, capture_output=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    for name in base_distributions():
        for file in distribution(name).files or ():
            link(file, site)
    return folder / "venv" / "bin" / "python"


def run(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"HOLDFAST_DATA_DIR": str(folder), "PATH": "/usr/bin:/bin", "COLUMNS": "200"}
    return subprocess.run(
        [str(python), "-c", ENTRY, *words], capture_output=True, text=True, check=False, cwd=folder, env=env
    )


def test_a_bare_install_runs_an_app_of_ones_own(python: Path, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text((REPOSITORY / "docs" / "examples" / "digest.py").read_text())
    for words in (("--version",), ("--help",), ("check",), ("migrate", "--app", "shop:app")):
        done = run(python, tmp_path, *words)
        assert done.returncode == 0, done.stderr
    done = run(python, tmp_path, "worker", "--once", "--app", "shop:app")
    assert (done.returncode, done.stdout) == (0, "0 attempts ended.\n"), done.stderr


def test_a_bare_install_says_what_it_lacks(python: Path, tmp_path: Path) -> None:
    done = run(python, tmp_path, "serve")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.endswith("which is not installed: pip install 'holdfast[http]'.\n")


@pytest.mark.parametrize("command", ["simulate", "demo", "bench"])
def test_the_proof_is_asked_for_in_one_sentence(python: Path, tmp_path: Path, command: str) -> None:
    done = run(python, tmp_path, command)
    sentence = "This command is part of holdfast-proof, which is not installed: pip install holdfast-proof.\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", sentence)
    assert list(tmp_path.iterdir()) == []


def test_the_audit_needs_no_proof(python: Path, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text((REPOSITORY / "docs" / "examples" / "digest.py").read_text())
    assert run(python, tmp_path, "migrate", "--app", "shop:app").returncode == 0
    done = run(python, tmp_path, "audit", "--app", "shop:app")
    assert (done.returncode, done.stdout) == (0, "Every promise was kept.\n"), done.stderr


@pytest.mark.parametrize("name", ["holdfast-systems", "holdfast-proof"])
def test_systems_and_proof_are_wheels_of_their_own(python: Path, tmp_path: Path, name: str) -> None:
    package = name.replace("-", "_")
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    assert not (site / package).exists()
    folder = REPOSITORY / "packages" / name
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, check=True, cwd=folder, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in packed.namelist())
    ours = [path for path in (REPOSITORY / "src" / package).rglob("*") if path.is_file()]
    kept = {path.relative_to(REPOSITORY / "src").as_posix() for path in ours if "__pycache__" not in path.parts}
    assert names == kept


def test_the_wheel_holds_its_licence_and_what_is_no_python(python: Path) -> None:
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    licences = [path for path in site.glob("holdfast-*.dist-info/licenses/**/*") if path.is_file()]
    assert sorted(path.name for path in licences) == ["LICENSE", "holdfast-sans-LICENSE.txt"]
    for pattern in ("**/*.sql", "**/*.html", "**/*.js", "**/py.typed"):
        ours = {
            path.relative_to(REPOSITORY / "src" / "holdfast") for path in (REPOSITORY / "src/holdfast").glob(pattern)
        }
        assert {path.relative_to(site / "holdfast") for path in (site / "holdfast").glob(pattern)} == ours != set()
