"""`make release` says what stands in the way, builds the distributions, and tags what it built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "release"
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{name}"
version = "{version}"
requires-python = ">=3.11"
license-files = ["LICENSE"]
[tool.hatch.build.targets.wheel]
packages = ["src/{package}"]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three small distributions of one version, ready to be released."""
    write_project(tmp_path, "holdfast", "3.1.0")
    write_project(tmp_path / "packages/holdfast-proof", "holdfast-proof", "3.1.0")
    write_project(tmp_path / "packages/holdfast-systems", "holdfast-systems", "3.1.0")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 3.1.0 (2030-01-31)\n\n## 3.0.0 (2029-01-31)\n")
    (tmp_path / ".gitignore").write_text("dist\n")
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    return tmp_path


def write_project(folder: Path, name: str, version: str) -> None:
    package = name.replace("-", "_")
    source = folder / "src" / package
    source.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(PROJECT.format(name=name, version=version, package=package))
    (folder / "LICENSE").write_text("free")
    (source / "__init__.py").write_text("")
    (source / "py.typed").write_text("")


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True).stdout


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")


def release(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    names = {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words], cwd=folder, capture_output=True, text=True, env={**os.environ, **names}
    )


def test_a_release_is_built_and_tagged_and_its_sums_are_printed(repository: Path) -> None:
    done = release(repository)
    assert done.returncode == 0, done.stderr
    assert git(repository, "tag").split() == ["v3.1.0"]
    built = sorted(path.name for path in (repository / "dist").iterdir())
    assert built == [
        "holdfast-3.1.0-py3-none-any.whl",
        "holdfast-3.1.0.tar.gz",
        "holdfast_proof-3.1.0-py3-none-any.whl",
        "holdfast_proof-3.1.0.tar.gz",
        "holdfast_systems-3.1.0-py3-none-any.whl",
        "holdfast_systems-3.1.0.tar.gz",
    ]
    assert all(name in done.stdout for name in built)


def test_who_builds_a_commit_again_gets_the_same_bytes(repository: Path) -> None:
    first = release(repository).stdout.splitlines()
    git(repository, "tag", "-d", "v3.1.0")
    assert release(repository).stdout.splitlines() == first


def test_everything_that_stands_in_the_way_is_said_at_once(repository: Path) -> None:
    write_project(repository / "packages/holdfast-systems", "holdfast-systems", "3.0.9")
    (repository / "CHANGELOG.md").write_text("# Changelog\n\n## 3.1.0 (not released yet)\n")
    git(repository, "tag", "v3.1.0")
    git(repository, "checkout", "-q", "-b", "beside")
    done = release(repository)
    assert done.returncode == 1 and not (repository / "dist").exists()
    for words in ("3.0.9", "write the day", "working tree has changes", "branch beside", "tag v3.1.0 already"):
        assert words in done.stderr, done.stderr


def test_a_changelog_without_the_version_is_refused(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text("# Changelog\n\n## 3.0.0 (2029-01-31)\n")
    commit(repository)
    assert "begins with 3.0.0, not with 3.1.0" in release(repository, "--check").stderr


def test_a_wheel_without_its_types_is_not_tagged(repository: Path) -> None:
    (repository / "src/holdfast/py.typed").unlink()
    commit(repository)
    done = release(repository)
    assert done.returncode == 1 and "holds no holdfast/py.typed" in done.stderr
    assert git(repository, "tag") == ""
