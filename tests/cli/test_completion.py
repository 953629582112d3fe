"""The shell completes commands, options, states and the names that this installation knows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import cli_complete
from holdfast.core.job import State

ROOT = Path(__file__).parents[2]


def holdfast_on_path(folder: Path) -> Path:
    """A program named `holdfast`, as an installation has it."""
    program = folder / "bin" / "holdfast"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom holdfast.cli import main\nmain()\n")
    program.chmod(0o755)
    return program


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_by_the_script_that_we_print(tmp_path: Path) -> None:
    """The script of --show-completion is sourced by a real bash, which then completes lines with it."""
    program = holdfast_on_path(tmp_path)
    env = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "HOLDFAST_DATA_DIR": str(tmp_path / "data"),
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    typed = ["bre", "jobs list --state q", "serve --system grading-m", "breakers open ll"]
    script = """
        source <(holdfast --show-completion bash)
        complete -p holdfast >/dev/null || exit 1
        for line in "$@"; do
            COMP_WORDS=(holdfast $line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
            COMP_LINE="holdfast $line"; COMP_POINT=${#COMP_LINE}
            _holdfast_completion holdfast
            echo "$line -> ${COMPREPLY[*]}"
        done
    """
    done = subprocess.run(
        ["bash", "-c", script, "bash", *typed], env=env, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "bre -> breakers",
        "jobs list --state q -> queued",
        "serve --system grading-m -> grading-main",
        "breakers open ll -> llm",
    ]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_the_completion_is_installed_for_the_shell_that_asks(tmp_path: Path) -> None:
    program = holdfast_on_path(tmp_path)
    env = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    done = subprocess.run(
        ["bash", "-c", "holdfast --install-completion bash"],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    installed = tmp_path / ".bash_completions" / "holdfast.sh"
    assert "_holdfast_completion" in installed.read_text()
    assert str(installed) in (tmp_path / ".bashrc").read_text()


def test_the_names_of_this_installation_are_offered() -> None:
    assert cli_complete.systems("") == ["conversion", "grading-main", "grading-service", "review"]
    assert cli_complete.roles("o") == ["operator"]
    assert {"gateway", "llm", "stt"} <= set(cli_complete.providers(""))
    assert "conversion.convert" in cli_complete.kinds("conv")
    assert State.QUEUED in set(State)


def test_a_broken_setting_breaks_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_RUNS", "many")
    assert cli_complete.providers("") == []
