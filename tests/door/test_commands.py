"""A wrong word at the terminal or in the environment is answered in one line that names it and the way out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast import SyncClient
from holdfast.cli import cli, main
from holdfast.cli.plain import misplaced_app
from holdfast.errors import SettingsError
from tests.cli import shop
from tests.command_line import invoke

APP = ("--app", "tests.cli.shop:app")
NOBODY = "0191f3a0-7c1e-7abc-8def-0123456789ab"
UNREACHABLE = {"DATABASE_URL": "postgresql://ann:hush@127.0.0.1:1/shop"}
MISTAKES: list[tuple[tuple[str, ...], dict[str, str], str]] = [
    (("jobs", "list", "--app", "shop"), {}, "'shop' does not name an app; write module:app."),
    (("jobs", "list", "--app", "tests.cli.shap:app"), {}, "The module 'tests.cli.shap' cannot be imported: "),
    (("jobs", "list", "--app", "tests.cli.shop:ap"), {}, "'tests.cli.shop' has no app named 'ap'; it has app"),
    (
        ("jobs", "list", "--app", "tests.cli.shop:number"),
        {},
        "'tests.cli.shop:number' is not an app: it must be an App",
    ),
    (("jobs", "list", "--system", "nobody"), {}, "There is no system named 'nobody'; known: "),
    (("jobs", "show", NOBODY, *APP), {}, NOBODY),
    (("jobs", "cancel", NOBODY, *APP), {}, NOBODY),
    (("jobs", "retry", NOBODY, "--evidence", "mended", *APP), {}, NOBODY),
    (("dead", "show", NOBODY, *APP), {}, NOBODY),
    (("breakers", "open", "nobody", *APP), {}, "'nobody'"),
    (("worker", *APP), {"WORKER_CONCURRENCY": "abc"}, "WORKER_CONCURRENCY is 'abc'; it must be a whole number."),
    (("worker", *APP), {"WORKER_CONCURRENCY": "0"}, "WORKER_CONCURRENCY is '0'; it must be at least 1."),
    (
        ("worker", *APP),
        {"DATABASE_URL": "mysql://shop"},
        "DATABASE_URL starts with 'mysql:'; it must be sqlite:///path",
    ),
    (("worker", *APP), {"DATABASE_URL": "sqlite:///:memory:"}, "DATABASE_URL names no file, and a database in memory"),
    (("worker", *APP), {"DATABASE_URL": "sqlite:///"}, "DATABASE_URL names no file, and a database in memory"),
    (("worker", *APP), {"RABBITMQ_URL": "http://shop"}, "RABBITMQ_URL must start with amqp:// or amqps://."),
    (("worker", *APP), {"HOLDFAST_ENGINE": "celery"}, "HOLDFAST_ENGINE is celery, which needs RABBITMQ_URL."),
    (("worker", *APP), {"HOLDFAST_LOG_LEVEL": "LOUD"}, "HOLDFAST_LOG_LEVEL is 'LOUD'; it must be one of DEBUG, INFO"),
    (("worker", *APP), {"HOLDFAST_JWT_SECRET": "short"}, "HOLDFAST_JWT_SECRET must have at least 32 characters."),
    (("jobs", "list", *APP), UNREACHABLE, "PostgreSQL at 127.0.0.1:1 cannot be reached"),
    (("token", "--user", "ann", "--role", "king"), {}, "There is no role 'king'; use "),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(tmp_path))
    assert invoke(["migrate", *APP]).exit_code == 0
    return tmp_path


@pytest.mark.parametrize(("words", "env", "says"), MISTAKES, ids=[says[:50] for _, _, says in MISTAKES])
def test_a_mistake_at_the_terminal_is_named(
    place: Path, words: tuple[str, ...], env: dict[str, str], says: str
) -> None:
    done = invoke(words, env=env)
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    (line,) = done.stderr.splitlines()
    assert says in line and line.endswith(".") and "hush" not in line


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("HOLDFAST_WORKER_CONCURENCY", "there is no such setting; you may mean HOLDFAST_WORKER_CONCURRENCY."),
        ("HOLDFAST_DATABAS_URL", "there is no such setting; you may mean HOLDFAST_DATABASE_URL."),
        ("HOLDFAST_LOG_LEVL", "there is no such setting; you may mean HOLDFAST_LOG_LEVEL."),
        ("HOLDFAST_SPOON", "there is no such setting."),
    ],
)
def test_a_setting_that_nobody_reads_is_pointed_at(place: Path, name: str, says: str) -> None:
    known = {"HOLDFAST_APP": "tests.cli.shop:app", "HOLDFAST_POLL_SEC": "2", "HOLDFAST_CELERY_PROCESSES": "2"}
    done = invoke(["check"], env={**known, name: "3"})
    assert done.exit_code == 0, done.output
    assert [line for line in done.output.splitlines() if "no such setting" in line] == [
        f"Note: {name} is set, but {says}"
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("wroker",), "No such command 'wroker'. Did you mean 'worker'"),
        (("jobs", "lst"), "No such command 'lst'. Did you mean 'list'"),
        (("jobs", "list", "--stat", "dead"), "--stat"),
        (("jobs", "list", "--state", "broken"), "'broken' is not one of"),
        (("jobs", "list", "--limit", "many"), "Invalid value for '--limit'"),
    ],
)
def test_a_word_that_is_not_known_is_wrong_usage(words: tuple[str, ...], says: str) -> None:
    done = invoke(words, env={"COLUMNS": "200"})
    assert done.exit_code == 2 and says in done.output


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        (("worker", "shop:app"), "An app is named by an option: holdfast worker --app shop:app."),
        (("--app", "shop:app", "worker"), "An app is named behind the command: holdfast worker --app module:app."),
        (
            ("jobs", "--app=shop:app", "list"),
            "An app is named behind the command: holdfast jobs list --app module:app.",
        ),
        (("start", "shop:app"), None),
        (("run", "shop:Order"), None),
        (("jobs", "show", "shop:app"), None),
        (("worker", "--app", "shop:app"), None),
        (("worker",), None),
        ((), None),
    ],
)
def test_an_app_in_the_wrong_place_is_shown_the_right_one(words: tuple[str, ...], way_out: str | None) -> None:
    assert misplaced_app(cli, words) == way_out


def test_a_misplaced_app_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["holdfast", "worker", "shop:app"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err.count("\n")) == (2, 1)


def test_a_client_without_a_url_finds_what_the_commands_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else `holdfast migrate` would mend nothing, and no worker would ever see the job."""
    env = {"HOLDFAST_DATA_DIR": str(tmp_path)}
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(tmp_path))
    for name in ("DATABASE_URL", "HOLDFAST_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert invoke(("migrate", "--app", "tests.cli.shop:app"), env=env).exit_code == 0
    client = SyncClient.open(shop.app)
    client.enqueue(shop.Pay, shop.Bill(1, 5))
    client.close()
    assert "shop.pay" in invoke(("jobs", "list", "--app", "tests.cli.shop:app"), env=env).stdout
    with pytest.raises(SettingsError, match="Without a database URL 'shop', 'rival' have a file each"):
        SyncClient.open(shop.app, shop.rival)
