"""The commands beside the operator's: databases, settings, tokens, processes. And what holds for every command."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
import typer.main
from typer.testing import CliRunner

from holdfast.cli import brought, cli
from holdfast.cli.plain import PlainGroup, print_help, with_command
from holdfast.tables import ops, outbox
from holdfast.tables.schema import KERNEL
from holdfast_systems.commands import COMMANDS
from tests.cli import shop
from tests.cli.conftest import Place

ROOT = Path(__file__).parents[2]
SYSTEMS = ["conversion", "grading-main", "grading-service", "review"]


def commands(group: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that can be typed, with the words that lead to it."""
    if not hasattr(group, "commands"):
        yield path, group
        return
    for name, one in group.commands.items():
        yield from commands(one, *path, name)


EVERY = dict(commands(typer.main.get_command(cli)))
# They run until they are stopped, and print nothing that a program would read.
RUNNERS = {("up",), ("serve",), ("worker",), ("keeper",)}


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_says_what_it_does_and_what_its_options_are(place: Place, path: tuple[str, ...]) -> None:
    done = place.run(*path, "--help")
    assert done.exit_code == 0
    assert (EVERY[path].help or "").strip().splitlines()[0].split(".")[0] in " ".join(done.stdout.split())
    undocumented = [one.name for one in EVERY[path].params if one.param_type_name == "option" and not one.help]
    assert undocumented == []


@pytest.mark.parametrize("path", sorted(set(EVERY) - RUNNERS), ids=" ".join)
def test_every_command_that_prints_speaks_json(path: tuple[str, ...]) -> None:
    assert "--json" in [flag for one in EVERY[path].params for flag in one.opts]


def test_the_databases_are_brought_forward_once(place: Place) -> None:
    assert place.json("migrate") == {"shop": [f"holdfast/{step.version:03}" for step in KERNEL]}
    assert place.ok("migrate").strip() == "shop: up to date"


def test_without_a_name_every_installed_system_is_meant(place: Place) -> None:
    done = place.run("migrate", "--json")
    assert done.exit_code == 0 and sorted(json.loads(done.stdout)) == SYSTEMS
    refused = place.run("migrate", "--system", "nope")
    assert refused.exit_code == 1
    assert refused.stderr.strip() == f"There is no system named 'nope'; known: {', '.join(SYSTEMS)}."


def test_good_settings_pass_the_check(place: Place) -> None:
    sealed = Place(place.env | {"HOLDFAST_SECRETS_KEYS": "a-long-enough-key-of-forty-characters-xx"})
    done = sealed.run("check")
    assert (done.exit_code, done.stdout.strip()) == (0, "All settings are fine.")
    assert json.loads(sealed.run("check", "--json").stdout) == {"problems": [], "notes": []}


@pytest.mark.spec("R7")
def test_the_check_names_a_provider_whose_doubts_need_a_person(place: Place) -> None:
    risky = Place(place.env | {"SMTP_URL": "smtp://127.0.0.1:2525"})
    done = risky.run("check")
    assert done.exit_code == 0 and "Note: SMTP_URL is set without IMAP_URL" in done.stdout
    notes = json.loads(risky.run("check", "--json").stdout)["notes"]
    assert any("waits for a person" in note for note in notes)


def test_the_check_says_everything_that_is_wrong_at_once_each_in_a_sentence(place: Place) -> None:
    bad = Place(place.env | {"HOLDFAST_PORT": "high", "GRADING_RETRIES_MAX": "-1", "RETRY_MAX_ATTEMPTS": "0"})
    done = bad.run("check")
    assert (done.exit_code, done.stdout) == (1, "")
    said = done.stderr.splitlines()
    assert [line.split(" ")[0] for line in said] == ["HOLDFAST_PORT", "RETRY_MAX_ATTEMPTS", "GRADING_RETRIES_MAX"]
    assert all(line.endswith(".") for line in said)
    parsed = bad.run("check", "--json")
    assert parsed.exit_code == 1 and json.loads(parsed.stdout)["problems"] == said


@pytest.mark.parametrize("words", ["jobs list", "migrate", "token --user ann --role learner", "relay --once"])
def test_a_bad_setting_stops_every_command_with_a_sentence(place: Place, words: str) -> None:
    done = Place(place.env | {"HOLDFAST_PORT": "high"}).run(*words.split())
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.strip() == "HOLDFAST_PORT is 'high'; it must be a whole number."


def test_a_token_is_signed_for_the_user_and_the_roles(place: Place) -> None:
    secret = "s" * 32
    words = ("token", "--user", "ann", "--role", "learner", "--role", "operator", "--hours", "2", "--json")
    made = json.loads(Place(place.env | {"HOLDFAST_JWT_SECRET": secret}).run(*words).stdout)["token"]
    claims = jwt.decode(made, secret, algorithms=["HS256"])
    assert (claims["sub"], claims["roles"]) == ("ann", ["learner", "operator"])
    assert claims["exp"] - claims["iat"] == 7_200


def test_a_token_for_an_unknown_role_is_refused(place: Place) -> None:
    done = place.run("token", "--user", "ann", "--role", "king")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.strip() == "There is no role 'king'; use instructor, learner, operator, service, viewer."


@pytest.mark.spec("K1")
def test_relay_once_publishes_what_is_pending(place: Place) -> None:
    place.job(shop.Collect, 5)
    words = ("relay", "--once", "--json", "--app", "tests.cli.shop:rival")
    assert [json.loads(place.run(*words).stdout) for _ in range(2)] == [{"published": 1}, {"published": 0}]


@pytest.mark.spec("K1")
def test_relay_once_without_a_consumer_keeps_the_message_and_says_so(place: Place) -> None:
    place.job(shop.Pay, 5)
    for _ in range(10):
        assert place.refused("relay", "--once") == "Nobody consumes the queue 'shop.paid' yet."

    async def pending(kernel: object) -> tuple[int, int]:
        async with kernel.store.reading() as tx:  # type: ignore[attr-defined]
            kept = await ops.outbox_page(tx, before=None, limit=9)
            return (await outbox.lag(tx)).pending, sum(row.retry_count for row in kept)

    assert place.in_kernel(pending) == (1, 0)


MUST_BE = "it must be an App, or a function without arguments that makes one."


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("nope", "'nope' does not name an app; write module:app."),
        ("nope.nope:app", "The module 'nope.nope' cannot be imported: No module named 'nope'."),
        ("tests.cli.shop:nope", "'tests.cli.shop' has no app named 'nope'; it has app, rival."),
        ("docs:app", "'docs' is a folder here and no module; go to where docs.py is."),
        ("tests.cli.shop:number", "'tests.cli.shop:number' is not an app: " + MUST_BE),
        ("tests.cli.shop:Bill", "'tests.cli.shop:Bill' is not an app: " + MUST_BE),
    ],
)
@pytest.mark.parametrize("command", ["worker", "relay", "jobs list", "migrate", "serve"])
def test_an_app_that_cannot_be_loaded_is_said_in_one_sentence(
    place: Place, command: str, path: str, sentence: str
) -> None:
    done = place.run(*command.split(), "--app", path)
    assert (done.exit_code, done.stdout, done.stderr.strip()) == (1, "", sentence)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("from holdfast import App\napp = App('x'", "SyntaxError: '(' was never closed (broken_shop.py, line 2)"),
        ("def look():\n    return {}['x']\nlook()", "KeyError: 'x' (broken_shop.py, line 2)"),
        ("from holdfast import App\napp = App('My App')", "BadDeclaration: The app name 'My App' must be a small"),
    ],
)
@pytest.mark.parametrize("command", ["worker --app {}:app", "check --app {}:app", "run {}:Job 1"])
def test_code_that_cannot_be_imported_is_said_with_its_line(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, code: str, why: str
) -> None:
    (tmp_path / "broken_shop.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    done = place.run(*command.format("broken_shop").split())
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"The module 'broken_shop' cannot be imported: {why}")
    assert "Traceback" not in done.stderr


def test_reload_waits_for_no_change_that_could_not_help(place: Place) -> None:
    done = place.run("worker", "--reload", "--app", "shop")
    assert (done.exit_code, done.stderr.strip()) == (1, "'shop' does not name an app; write module:app.")


def test_a_taken_port_is_said_in_one_sentence_before_anything_is_opened(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = place.refused("serve", "--port", str(port))
    assert said == (
        f"Cannot listen on 127.0.0.1:{port} (Address already in use); "
        "choose another with --port or HOLDFAST_PORT, or stop what has it."
    )
    assert list(Path(place.env["HOLDFAST_DATA_DIR"]).glob("*.db")) == []


def test_the_audit_of_a_healthy_database_finds_nothing(place: Place) -> None:
    place.job(shop.Pay, 5)
    place.dead()
    assert place.ok("audit").strip() == "Every promise was kept."
    assert place.json("audit") == {"findings": []}


@pytest.mark.slow
def test_the_demo_accounts_for_everything_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        _holdfast("demo", "--json"), env=_env(tmp_path), capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    account = json.loads(done.stdout)
    assert account["accounted"] and account["seconds"] < 60
    given = {row["system"]: (row["accepted"], row["done"]) for row in account["systems"]}
    assert given == {
        "conversion": (2, 2),
        "grading-main": (3, 3),
        "grading-service": (0, 0),
        "review": (1, 1),
        "postcards": (30, 30),
    }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_cleans_up(tmp_path: Path, number: signal.Signals) -> None:
    started = subprocess.Popen(
        _holdfast("demo"), env=_env(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    while "postcards" not in started.stdout.readline():
        assert started.poll() is None
    started.send_signal(number)
    _, said = started.communicate(timeout=60)
    assert (started.returncode, said.strip()) == (130, "Stopped; everything the demo made is removed.")
    assert list(tmp_path.iterdir()) == []


def _holdfast(*words: str) -> list[str]:
    return [sys.executable, "-c", "from holdfast.cli import main; main()", *words]


def _env(folder: Path) -> dict[str, str]:
    return dict(os.environ) | {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}


HEAVY = ("asyncio", "pydantic", "rich", "logging", "holdfast.kernel", "holdfast.operator", "holdfast_systems.grading")
LOADED_MAX = 280
"""Modules that the help may take: 230 were counted, the larger part of them typer's."""


@pytest.mark.parametrize("words", ["--help", "jobs list --help", "status --help", "dead edit --help", "worker --help"])
def test_the_help_loads_nothing_that_the_commands_need(tmp_path: Path, words: str) -> None:
    """Within 0.3 s of CPU: pydantic alone would take half of it, the drawing of boxes all of it."""
    loaded = _modules_after(tmp_path, words)
    assert [name for name in HEAVY if name in loaded] == []
    assert len(loaded) < LOADED_MAX


def test_only_the_command_that_is_meant_loads_its_system(tmp_path: Path) -> None:
    assert "holdfast_systems.grading" not in _modules_after(tmp_path, "review --help")
    assert "holdfast_systems.review.command_line" in _modules_after(tmp_path, "review --help")
    assert "holdfast_systems.review.command_line" not in _modules_after(tmp_path, "jobs --help")


def test_the_systems_of_a_worker_load_no_web_framework() -> None:
    program = "import sys; from holdfast.main import load_systems; load_systems(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"fastapi", "starlette", "uvicorn", "jwt"} & set(done.stdout.split()) == set()


def _modules_after(folder: Path, words: str) -> set[str]:
    look = "import sys; from holdfast.__main__ import main\ntry: main()\nexcept SystemExit: pass\n"
    look += "print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", look, *words.split()], capture_output=True, text=True, check=True, cwd=folder
    )
    assert "Usage: holdfast" in done.stdout
    return set(done.stdout.splitlines()[-1].split())


def test_only_the_command_that_is_meant_is_read_and_every_one_for_a_mistake() -> None:
    every = typer.main.get_command(cli).commands  # type: ignore[attr-defined]
    for name in every:
        assert list(typer.main.get_command(with_command(cli, name)).commands) == [name]  # type: ignore[attr-defined]
    assert with_command(cli, "jbos") is cli and with_command(cli, None) is cli


def test_the_command_is_the_first_word_that_is_no_options_value() -> None:
    assert brought.first_command(["--url", "http://here", "--token", "t", "--json", "jobs", "list"]) == "jobs"
    assert brought.first_command(["--version"]) is None and brought.first_command(["--token"]) is None


def test_the_programs_own_help_reads_no_parameter_of_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """The sentences are the same; typer would read every signature for them, which takes longer than the rest."""
    assert print_help(cli, ["--help"])
    command: Any = typer.main.get_command(cli)
    whole = command.get_help(command.context_class(command, info_name="holdfast"))
    assert capsys.readouterr().out.strip() == whole.strip()
    assert "list" in command.commands["jobs"].commands, "what the help leaves out is still there"

    def unreadable(what: object) -> None:
        """No type of an option."""

    own = typer.Typer(name="own", cls=PlainGroup, rich_markup_mode=None)
    own.command()(unreadable)
    own.command("also")(unreadable)
    assert print_help(own, ["--help"])
    assert "unreadable" in (out := capsys.readouterr().out) and out.count("No type of an option.") == 2


def test_the_help_lists_the_commands_that_installed_packages_bring() -> None:
    """By their names alone; and each has the same sentence when it is loaded."""
    by_name, loaded = (typer.Typer(cls=PlainGroup, rich_markup_mode=None) for _ in range(2))
    brought.add_to(by_name, [])
    brought.add_to(loaded)
    texts = [CliRunner().invoke(each, ["--help"]).stdout for each in (by_name, loaded)]
    listed, own = (text[text.index("Grading") :] for text in texts)
    assert listed == own
    for command in COMMANDS:
        assert f"{command.panel}" in listed and f" {command.name} " in listed


def test_help_for_a_command_that_does_not_exist_is_a_mistake() -> None:
    done = subprocess.run(_holdfast("jbos", "--help"), capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert "No such command 'jbos'. Did you mean 'jobs'?" in done.stderr
