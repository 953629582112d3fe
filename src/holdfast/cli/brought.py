"""Commands that installed packages bring: entry points of the group `holdfast.commands`, lists of `BroughtCommand`.

To print the help takes their names and sentences, never their modules; a module is imported when its command is meant.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

import typer

from holdfast.cli.plain import PlainGroup
from holdfast.errors import missing_module

COMMANDS = "holdfast.commands"
WITH_A_VALUE = ("--url", "--token")
"""The options of `holdfast` itself that take the next word."""


class BroughtCommand(NamedTuple):
    """A command or a family of commands: `home` is `module:attribute`, a function or a `Typer`; `panel` is the heading
    that it stands under in the help."""

    name: str
    help: str
    panel: str
    home: str


def add_to(cli: typer.Typer, words: Sequence[str] | None = None) -> None:
    """Add what installed packages bring. Only the command that the words begin with is imported; without words, all
    are."""
    named = None if words is None else first_command(words)
    for command in _installed():
        if words is None or command.name == named:
            _add(cli, command)
        else:
            cli.command(command.name, help=command.help, rich_help_panel=command.panel)(_placeholder)


def first_command(words: Sequence[str]) -> str | None:
    """The word that names the command: the first that is neither an option nor the value of one. `worker --system
    review` means no command `review`."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            return word
        if word in WITH_A_VALUE:
            next(rest, None)
    return None


def _installed() -> Iterator[BroughtCommand]:
    points: Iterable[EntryPoint] = entry_points(group=COMMANDS)
    for point in sorted(points, key=lambda point: point.name):
        yield from point.load()


def _add(cli: typer.Typer, command: BroughtCommand) -> None:
    module, _, attribute = command.home.partition(":")
    try:
        target = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        missing = missing_module(error)
        if missing == module.partition(".")[0]:
            raise  # a name of its own that does not exist is a mistake of the package
        sys.exit(f"'{command.name}' needs the module '{missing}', which is not installed; holdfast check says more.")
    if isinstance(target, typer.Typer):
        cli.add_typer(target, name=command.name, cls=PlainGroup, help=command.help, rich_help_panel=command.panel)
    else:
        cli.command(command.name, help=command.help, rich_help_panel=command.panel)(target)


def _placeholder() -> None:
    """Stands in the help for a command that was not named; never run."""
