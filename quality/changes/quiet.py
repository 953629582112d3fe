"""Changes without a defect that invite a false alarm: path, before, after."""

from __future__ import annotations

_HASH = "9f2c1b7e4d8a6035c1f0e9b8a7d6c5b4a3f2e1d0"
_RAISES = """import pytest

from app import Client


def test_a_wrong_password_is_refused():
    client = Client(user="ada", password="correct-horse-battery")
    with pytest.raises(ValueError):
        client.name
    assert client.login("Bearer aaaabbbbccccdddd") is False
    print(client)
"""
_TWO = """import sys

if sys.version_info[0] == 2:
    text = unicode
else:
    text = str
"""
_LOOP = """def run(jobs):
    for job in jobs:
        print(job.name)
        print(job.state)
        print(job.error)
"""
_MOVED = """def first(values, seen=[]):
    seen.append(values[0])
    return seen


def second(values):
    return values[1]
"""
_PARTS = _MOVED.split("\n\n\n")
CHANGES: tuple[tuple[str, str, str], ...] = (
    ("tests/test_login.py", "", _RAISES),
    ("src/compat.py", "", _TWO),
    ("src/app/__init__.py", "", "from app.client import Client\nfrom app.errors import Refused, TimedOut\n"),
    ("vendor/lib.lock", "", f"lib==1.2.3 --hash=sha256:{_HASH}\n"),
    ("third_party/util.js", "", "var a = 1; debugger; eval('a');\n"),
    ("examples/client.js", "", "const password = 'foobar';\nconsole.log('connected', password);\n"),
    ("src/version.py", "", f'REVISION = "{_HASH}"\n'),
    ("src/report.py", _LOOP, _LOOP + "        print(job.attempts)\n"),
    ("src/pair.py", _MOVED, "\n\n\n".join((_PARTS[1].rstrip("\n"), _PARTS[0])) + "\n"),
    ("docs/guide.md", "", "# Guide\n\nSet `DATABASE_URL=postgresql://user:password@localhost/db`. TODO: a picture.\n"),
    ("src/settings.py", "", 'import os\n\nTOKEN = os.environ["API_TOKEN"]\nPASSWORD = "${DB_PASSWORD}"\n'),
    ("scripts/build.sh", "", '#!/bin/sh\nset -eu\necho "building"\nmkdir -p "build/$1"\n'),
)
