"""`holdfast audit --ask-providers` on the command line, with a mail provider that answers over HTTP."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from holdfast.core.effect import token_of

KNOWN = "mail-1"
START = "from holdfast.cli import main; main()"


@contextmanager
def mail_provider(asked: list[str]) -> Iterator[str]:
    """Knows one mail, by its id."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            is_known = self.path == f"/emails/{KNOWN}"
            body = json.dumps({"id": KNOWN} if is_known else {"name": "not_found"}).encode()
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def mark(database: Path, key: str, provider_id: str) -> None:
    """A mail that is marked as sent an hour ago."""
    at = int(time.time() * 1_000) - 3_600_000
    with sqlite3.connect(database) as connection:
        connection.execute(
            "INSERT INTO holdfast_effects (key, token, kind, stage, provider, provider_class, status, provider_id,"
            " marked_at, sends, first_sent_at, last_sent_at, created_at, updated_at)"
            " VALUES (?, ?, 'review.changelist', 'notify', 'http-mail', 'token', 'sent', ?, ?, 1, ?, ?, ?, ?)",
            (key, token_of(key), provider_id, at, at, at, at, at),
        )


@pytest.mark.slow
@pytest.mark.spec("004.28")
def test_the_audit_asks_the_mail_provider_and_takes_back_what_it_does_not_know(tmp_path: Path) -> None:
    database, asked = tmp_path / "review.db", list[str]()
    with mail_provider(asked) as address:
        env = {
            "HOLDFAST_DATA_DIR": str(tmp_path),
            "REVIEW_DATABASE_URL": f"sqlite:///{database}",
            "MAIL_HTTP_URL": address,
            "MAIL_HTTP_KEY": "key",
            "MAIL_HTTP_ID_PATH": "/emails/{id}",
        }

        def holdfast(*words: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-c", START, *words, "--system", "review"]
            return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)

        assert holdfast("migrate").returncode == 0
        mark(database, "good", KNOWN)
        mark(database, "bad", "bogus")
        found = holdfast("audit", "--ask-providers", "--json")
        again = holdfast("audit", "--ask-providers")
    away = holdfast("audit", "--ask-providers")
    assert (found.returncode, again.returncode) == (1, 0), found.stderr
    assert away.returncode == 1 and "by http-mail is not verified" in away.stdout, "nobody was there to be asked"
    (finding,) = json.loads(found.stdout)["findings"]
    assert "http-mail does not know it by the id 'bogus'" in finding["finding"]
    assert sorted(asked) == ["/emails/bogus", f"/emails/{KNOWN}", f"/emails/{KNOWN}"]
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT key, status, provider_id FROM holdfast_effects ORDER BY key").fetchall()
    assert rows == [("bad", "planned", None), ("good", "sent", KNOWN)]
