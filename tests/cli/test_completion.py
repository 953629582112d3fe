"""The shell completes commands, options, states and the names that this installation knows."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli import cli, complete
from holdfast.core.job import State

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


def holdfast_on_path(folder: Path) -> Path:
    """A program named `holdfast`, as an installation has it."""
    program = folder / "bin" / "holdfast"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom holdfast.cli import main\nmain()\n")
    program.chmod(0o755)
    return program


TYPED = {
    "jobs list --state q": "jobs list --state queued",
    "breakers open ll": "breakers open llm",
}
IN_BASH = """
    source <(holdfast --show-completion bash)
    complete -p holdfast >/dev/null || exit 1
    for line in "$@"; do
        COMP_WORDS=(holdfast $line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
        COMP_LINE="holdfast $line"; COMP_POINT=${#COMP_LINE}
        _holdfast_completion holdfast
        echo "${COMPREPLY[*]}"
    done
"""
IN_FISH = """
    holdfast --show-completion fish | source
    for line in $argv; complete -C "holdfast $line"; end
"""
# The function takes the place of the program where a line is run; what completes it is the program.
IN_ZSH = """
    autoload -Uz compinit; compinit -D -u
    source <(holdfast --show-completion zsh)
    holdfast() { print -r -- "LINE $* END" }
    PS1='READY''> '
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    program = holdfast_on_path(tmp_path)
    return {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "ZDOTDIR": str(tmp_path),
        "TERM": "vt100",
        "HOLDFAST_DATA_DIR": str(tmp_path / "data"),
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell.upper()} IS MISSING: its completion is printed and not tried; install {shell}")


@pytest.mark.slow
@pytest.mark.may_skip("fish")
@pytest.mark.parametrize(
    "shell", [["bash", "-c", IN_BASH, "bash"], ["fish", "--no-config", "-c", IN_FISH]], ids=["bash", "fish"]
)
def test_a_shell_completes_by_the_script_that_we_print(shell: list[str], env: dict[str, str]) -> None:
    """The script of --show-completion is read by the real shell, which then completes lines with it."""
    needs(shell[0])
    done = subprocess.run([*shell, *TYPED], env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    offered = [line.partition("\t")[0] for line in done.stdout.splitlines()]  # fish adds what it means
    assert offered == [line.rpartition(" ")[2] for line in TYPED.values()]


@pytest.mark.slow
@pytest.mark.may_skip("zsh")
def test_zsh_completes_at_the_press_of_tab(env: dict[str, str], tmp_path: Path) -> None:
    """At a terminal, for zsh completes nowhere else."""
    needs("zsh")
    (tmp_path / ".zshrc").write_text(IN_ZSH)
    keyboard, terminal = pty.openpty()
    zsh = subprocess.Popen(["zsh", "-d", "-i"], env=env, cwd=ROOT, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    try:
        for typed, line in TYPED.items():
            read_until(keyboard, "READY> ")
            os.write(keyboard, f"holdfast {typed}\t\r".encode())
            assert read_until(keyboard, " END\r\n").endswith(f"LINE {line} END\r\n")
    finally:
        zsh.kill()
        zsh.wait()
        os.close(keyboard)


def read_until(terminal: int, words: str) -> str:
    """What the terminal shows, up to these words."""
    shown = ""
    while words not in shown:
        assert select.select([terminal], [], [], PATIENCE_S)[0], f"the terminal shows only: {shown!r}"
        shown += os.read(terminal, 1).decode(errors="replace")
    return shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_every_shell(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    done = CliRunner().invoke(cli, ["--show-completion", shell], prog_name="holdfast")
    assert done.exit_code == 0 and f"_HOLDFAST_COMPLETE=complete_{shell}" in done.output


def test_only_a_first_word_that_may_be_a_systems_own_loads_the_systems() -> None:
    """To load them takes as long as all the rest, at every press of Tab."""
    for given in ({"COMP_WORDS": "holdfast\njobs\nli"}, {"_TYPER_COMPLETE_ARGS": "holdfast jobs li"}):
        assert complete.typed(given) == ["jobs"]
    for given in ({"COMP_WORDS": "holdfast\njobs\n"}, {"_TYPER_COMPLETE_ARGS": "holdfast jobs "}):
        assert complete.typed(given) == ["jobs"]
    assert complete.typed({"_TYPER_COMPLETE_ARGS": "holdfast rev"}) == []


@pytest.mark.slow
def test_the_completion_is_installed_for_the_shell_that_asks(env: dict[str, str], tmp_path: Path) -> None:
    needs("bash")
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
    assert complete.systems("") == ["conversion", "grading-main", "grading-service", "review"]
    assert complete.roles("o") == ["operator"]
    assert {"gateway", "llm", "stt"} <= set(complete.providers(""))
    assert "conversion.convert" in complete.kinds("conv")
    assert State.QUEUED in set(State)


def test_a_broken_setting_breaks_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_RUNS", "many")
    assert complete.providers("") == []
