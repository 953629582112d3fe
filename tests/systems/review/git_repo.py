"""A small real repository for tests."""

import subprocess
from pathlib import Path


class Repo:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.test", "-c", "commit.gpgsign=false")
        done = subprocess.run(("git", *identity, *arguments), cwd=self.path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, title: str, files: dict[str, str | bytes]) -> str:
        for name, data in files.items():
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data.encode() if isinstance(data, str) else data)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", title)
        return self.git("rev-parse", "HEAD")
