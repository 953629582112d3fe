"""The command line as a function: what a person types, in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typer.testing import CliRunner, Result

from holdfast.cli import cli
from holdfast.cli.brought import first_command
from holdfast.cli.plain import with_command


def invoke(words: Sequence[str], env: Mapping[str, str | None] | None = None) -> Result:
    """Run `holdfast` with these words, as its entry point does: with the command alone that they name."""
    return CliRunner().invoke(with_command(cli, first_command(words)), list(words), env=env)
