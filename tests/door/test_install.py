"""The command line after an install with any subset of the extras, and what it costs to ask for its version."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import EXTRAS, SettingsError
from holdfast.main import SYSTEMS, open_store
from holdfast.testing.hand_clock import HandClock
from holdfast.testing.worlds import _store
from tests.services.found import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
SYSTEMS_ONLY = {"aiosmtplib", "av", "cefrpy", "detect_secrets", "harper_py", "moonshine_voice", "pypdfium2", "unidiff"}
EVERYTHING = {*EXTRAS, *SYSTEMS_ONLY, "wordfreq"}
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in names:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

names = set(sys.argv.pop(1).split(","))
sys.meta_path.insert(0, Missing())
sys.argv[0] = "holdfast"
from holdfast.__main__ import main
main()
"""


def run_without(modules: set[str], data: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, where these modules are not installed."""
    command = [sys.executable, "-c", WITHOUT, ",".join(sorted(modules)), *words]
    ours = ("DATABASE_URL", "RABBITMQ_URL", "HOLDFAST_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env = clean | {"HOLDFAST_DATA_DIR": str(data), "COLUMNS": "200"} | env
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY, env=env, timeout=120)


def test_the_version_costs_next_to_nothing() -> None:
    """The least of three: CPU seconds, so that a busy machine does not matter."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        asked = subprocess.run([sys.executable, "-m", "holdfast", "--version"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert asked.stdout.decode() == f"holdfast {holdfast.__version__}\n"
    assert min(spent) < 0.3


def test_a_bare_import_loads_none_of_the_dependencies() -> None:
    program = "import sys, holdfast, holdfast.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"pydantic", "typer", "cronsim", "asyncio"} & set(done.stdout.split()) == set()


def test_every_public_name_is_found_where_a_checker_finds_it() -> None:
    assert sorted(holdfast._HOMES) == sorted(holdfast.__all__)
    assert {name for name in holdfast.__all__ if name not in dir(holdfast)} == set()
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'Enqueue'"):
        _ = holdfast.Enqueue  # type: ignore[attr-defined]


COMMANDS = [
    (("--version",), 0, f"holdfast {holdfast.__version__}"),
    (("--help",), 0, "Usage: holdfast"),
    (("check",), 0, "The system 'review' cannot be loaded: the module '"),
    (("wroker",), 2, "No such command 'wroker'. Did you mean 'worker'"),
    (("worker",), 1, "There is nothing to run: name your app with --app module:app (see holdfast check)."),
    (("migrate",), 1, "There is nothing to run: name your app with --app module:app (see holdfast check)."),
    (("worker", "--system", "review"), 1, "The system 'review' cannot be loaded: the module '"),
    (("worker", "--once", "--app", "tests.cli.shop:app"), 0, "0 attempts ended."),
    (("migrate", "--app", "tests.cli.shop:app"), 0, ""),
    (("jobs", "list", "--app", "tests.cli.shop:app"), 1, "run holdfast migrate"),
    (("up",), 1, "This needs the module 'uvicorn', which is not installed: pip install 'holdfast[http]'."),
    (("token", "--user", "ann", "--role", "operator"), 1, "pip install 'holdfast[http]'."),
    (("demo",), 1, "pip install 'holdfast[http]'."),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "code", "says"), COMMANDS, ids=[" ".join(words) for words, _, _ in COMMANDS])
def test_every_command_works_or_says_in_a_line_what_it_lacks(
    tmp_path: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    done = run_without(EVERYTHING, tmp_path, *words)
    told = done.stdout + done.stderr
    assert (done.returncode, "Traceback" in told) == (code, False), told
    assert says in told
    if code == 1:
        assert len(told.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "extra"),
    [
        ({"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}, "postgres"),
        ({"RABBITMQ_URL": "amqp://127.0.0.1:1"}, "rabbitmq"),
        ({"HOLDFAST_METRICS_PORT": "1"}, "http"),
    ],
)
def test_a_setting_that_needs_an_extra_names_it(tmp_path: Path, env: dict[str, str], extra: str) -> None:
    done = run_without(EVERYTHING, tmp_path, "worker", "--app", "tests.cli.shop:app", **env)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"which is not installed: pip install 'holdfast[{extra}]'.")


@pytest.mark.slow
@pytest.mark.parametrize("extra", sorted({*EXTRAS.values(), "systems"}))
def test_any_one_extra_may_be_missing(tmp_path: Path, extra: str) -> None:
    missing = {module for module, brings in EXTRAS.items() if brings == extra} or SYSTEMS_ONLY
    for words in ("--help", "check"):
        done = run_without(missing, tmp_path, words)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


@pytest.mark.slow
def test_a_worker_of_all_systems_says_which_it_leaves_out(tmp_path: Path) -> None:
    done = run_without({"unidiff"}, tmp_path, "worker", "--once")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "system.missing" in line]
    assert "The system 'review' cannot be loaded: the module 'unidiff' is not installed" in line


def test_every_extra_that_is_named_exists() -> None:
    assert {*EXTRAS.values()} <= set(PROJECT["optional-dependencies"])


def test_the_library_knows_no_system() -> None:
    """They are a distribution of their own, of the same version, and bring their own entry points and extras."""
    systems = tomllib.loads((REPOSITORY / "packages" / "holdfast-systems" / "pyproject.toml").read_text())["project"]
    proof = tomllib.loads((REPOSITORY / "packages" / "holdfast-proof" / "pyproject.toml").read_text())["project"]
    assert systems["version"] == proof["version"] == PROJECT["version"] == holdfast.__version__
    assert "holdfast.systems" not in PROJECT["entry-points"] and "holdfast_systems" not in str(PROJECT)
    assert set(systems["entry-points"]["holdfast.systems"]) == {point.name for point in entry_points(group=SYSTEMS)}
    wanted = {"grading", "conversion", "review", "all", "ocr", "whisper", "javascript", "go"}
    assert set(systems["optional-dependencies"]) == wanted


def test_the_licence_is_in_the_distribution() -> None:
    assert "Apache License\n" in (REPOSITORY / "LICENSE").read_text()
    assert (PROJECT["license"], PROJECT["license-files"]) == (
        "Apache-2.0 AND OFL-1.1",
        ["LICENSE", "src/holdfast/http/static/holdfast-sans-LICENSE.txt"],
    ), "the pages' typeface has one of its own"
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_code_that_opens_a_database_hears_which_extra_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "holdfast.stores.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for opens in (open_store, lambda url: _store(url, HandClock())):
        with pytest.raises(SettingsError, match=r"needs the module 'asyncpg', .* pip install 'holdfast\[postgres\]'"):
            opens("postgresql://nobody@127.0.0.1:1/none")
