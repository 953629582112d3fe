"""`holdfast review`: a real repository, the offline critic, a Maildir; and the settings that choose between ways."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from holdfast.cli import brought
from holdfast.settings import problems, read
from holdfast_systems.review.engine import engine_for
from holdfast_systems.review.settings import ReviewSettings
from tests.systems.review.git_repo import Repo

BAD = "import os\n\n\ndef remove(name):\n    os.system('rm ' + name)\n    return undefined_name\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "shop")
    made.commit("Begin", {"app.py": "import os\n"})
    made.commit("Remove by name", {"app.py": BAD, "run.sh": "#!/bin/sh\nrm $1\n"})
    return made


def holdfast(*words: str) -> Result:
    cli = typer.Typer()
    brought.add_to(cli, ["review"])
    cli.command("other")(lambda: None)  # one command alone would swallow its own name
    return CliRunner().invoke(cli, ["review", *words])


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(tmp_path / "data"))
    for name in ("REVIEW_DATABASE_URL", "SMTP_URL", "OPENAI_BASE_URL", "MAIL_HTTP_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "data"


def mails(folder: Path) -> list[Path]:
    return sorted((folder / "mail").glob("*/new/*"))


@pytest.mark.spec("R8", "R9")
@pytest.mark.slow
def test_a_range_is_reviewed_mailed_once_and_printed(repo: Repo, own_data: Path) -> None:
    words = ("HEAD~1..HEAD", "--repo", str(repo.path), "--to", "ada@example.test", "--to", "bob@example.test")
    first = holdfast(*words)
    assert first.exit_code == 0, first.output
    plain = re.sub(r"\s+", " ", first.output)
    assert "app.py" in plain and "undefined_name" in plain and "run.sh" in plain and "SC2086" in plain
    assert plain.index("app.py") < plain.index("undefined_name") < plain.index("run.sh"), "grouped by file"
    assert "ada@example.test: mailed to" in plain
    assert [path.parent.parent.name for path in mails(own_data)] == ["ada@example.test", "bob@example.test"]
    assert holdfast(*words).exit_code == 0 and len(mails(own_data)) == 2, "the same change is mailed once"
    assert holdfast(*words, "--again").exit_code == 0 and len(mails(own_data)) == 4
    more = holdfast(*words, "--to", "cy@example.test", "--json")
    assert json.loads(more.stdout)["review_version"] == 3 and len(mails(own_data)) == 7


@pytest.mark.spec("R7")
@pytest.mark.slow
def test_a_review_that_fails_says_so_in_a_sentence_and_exits_1(repo: Repo) -> None:
    wrong = holdfast("nowhere", "--repo", str(repo.path), "--to", "ada@example.test")
    assert (wrong.exit_code, wrong.stderr) == (1, wrong.stderr) and "no commit 'nowhere'" in wrong.stderr
    half = holdfast("HEAD", "--repo", str(repo.path), "--to", "not an address", "--to", "ada@example.test")
    assert half.exit_code == 1 and "1 of 2 recipients" in half.output
    assert "holdfast dead show" in half.output and "ada@example.test: mailed" in half.output


@pytest.mark.spec("R9", "R6")
def test_the_settings_choose_the_notifier_and_name_the_residual_risk() -> None:
    def chosen(**env: str) -> tuple[str, str, bool]:
        made = engine_for(read(ReviewSettings, env))
        return made.mail.name, made.mail.effects, made.mail.lookup is not None

    smtp, imap = "smtp://localhost", "imap://a:b@localhost"
    assert chosen() == ("maildir", "token", True)
    assert chosen(SMTP_URL=smtp) == ("smtp", "neither", False)
    assert chosen(SMTP_URL=smtp, IMAP_URL=imap) == ("smtp", "lookup", True)
    http = {"MAIL_HTTP_URL": "https://mail.test", "MAIL_HTTP_KEY": "k"}
    assert chosen(**http) == ("http-mail", "token", False)
    assert chosen(**http, MAIL_HTTP_LOOKUP_PATH="/emails") == ("http-mail", "token", True)
    assert "waits for a person" in read(ReviewSettings, {"SMTP_URL": smtp}).notes()[0]
    assert read(ReviewSettings, {"SMTP_URL": smtp, "IMAP_URL": imap}).notes() == []


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"IMAP_URL": "imaps://a:b@h/x"}, "without SMTP_URL"),
        ({"SMTP_URL": "http://x"}, "SMTP_URL must read"),
        ({"SMTP_URL": "smtp://a:b@mail.example.test"}, "no TLS"),
        ({"SMTP_URL": "smtp://h", "MAIL_HTTP_URL": "https://m", "MAIL_HTTP_KEY": "k"}, "only one way"),
        ({"MAIL_HTTP_URL": "https://m"}, "needs MAIL_HTTP_KEY"),
        ({"OPENAI_API_KEY": "k"}, "without OPENAI_BASE_URL"),
        ({"REVIEW_ATTEMPTS": "0"}, "at least 1"),
    ],
)
def test_settings_that_cannot_work_are_sentences(env: dict[str, str], says: str) -> None:
    (problem,) = problems(ReviewSettings, env)
    assert says in problem


@pytest.mark.spec("R8")
def test_over_http_no_local_folder_may_be_read_unless_it_is_named() -> None:
    assert ReviewSettings().git_policy(trusted=False).local_roots == (".",), "the folder that Holdfast runs in"
    assert ReviewSettings(local_roots="").git_policy(trusted=False).local_roots == ()
    assert ReviewSettings(local_roots="/srv/a, /srv/b").git_policy(trusted=False).local_roots == ("/srv/a", "/srv/b")
    assert ReviewSettings().git_policy(trusted=True).local_roots is None
