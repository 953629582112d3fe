"""The help, in plain text under headings. Drawn with boxes it would take longer to load than everything else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from inspect import getdoc
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_name
from typer.models import CommandInfo

RUN, LOOK, OPERATE, SET_UP, TRY = "Run it", "See how it is", "Operate", "Set it up", "Try and prove it"
HEADINGS = (RUN, LOOK, OPERATE, SET_UP, TRY)
SENTENCE_MAX = 160
_APP = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class PlainGroup(TyperGroup):
    """Lists its commands with their first sentences, under the headings that they were given (`rich_help_panel`):
    Holdfast's own first, then those of installed packages."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
        names = self.list_commands(ctx)
        width = max(map(len, names))
        for name in names:
            command = self.commands[name]
            heading = getattr(command, "rich_help_panel", None)
            rows = sections.setdefault(heading if isinstance(heading, str) else "Commands", [])
            rows.append((name.ljust(width), command.get_short_help_str(SENTENCE_MAX)))
        brought = sorted(sections.keys() - set(HEADINGS))
        for heading in (*HEADINGS, *brought):
            rows = sections[heading]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def with_command(cli: typer.Typer, name: str | None) -> typer.Typer:
    """The command line with this command alone; whole, if it has none of this name. Typer reads the parameters of every
    command that it has before it runs any, and that takes longer than most commands."""
    short = copy(cli)
    short.registered_groups = [family for family in cli.registered_groups if family.name == name]
    short.registered_commands = [command for command in cli.registered_commands if name == _name_of(command)]
    return short if short.registered_groups or short.registered_commands else cli


def misplaced_app(cli: typer.Typer, words: Sequence[str]) -> str | None:
    """The way out for who names the app before the command, or without its option; None for everybody else."""
    family = next((words[0] for each in cli.registered_groups if words and words[0] == each.name), None)
    command = words[: 1 if family is None else 2]
    if any(word.partition("=")[0] == "--app" for word in command):
        example = "worker" if family is None else f"{family} list"
        return f"An app is named behind the command: holdfast {example} --app module:app."
    named = family is None and len(words) > 1 and words[0] != "run" and _APP.fullmatch(words[1])
    if named and any(words[0] == _name_of(each) for each in cli.registered_commands):
        return f"An app is named by an option: holdfast {words[0]} --app {words[1]}."
    return None


def _name_of(command: CommandInfo) -> str | None:
    return command.name or (command.callback and get_command_name(command.callback.__name__))


def print_help(cli: typer.Typer, words: Sequence[str]) -> bool:
    """Print the help of the command that the words name; false if they name none. Nothing is parsed: that would load
    what the options need."""
    command: Any = typer.main.get_command(cli if any(not word.startswith("-") for word in words) else _outline(cli))
    context = command.context_class(command, info_name=cli.info.name)
    for word in words:
        family = getattr(command, "commands", None)
        if family is None or word.startswith("-"):
            continue
        if word not in family:
            return False
        command = family[word]
        context = command.context_class(command, info_name=word, parent=context)
    typer.echo(command.get_help(context))
    return True


def _outline(cli: typer.Typer) -> typer.Typer:
    """The command line with the names and sentences of its commands alone: its own help shows no parameter of them."""
    outline = copy(cli)
    outline.registered_commands = [_sentence_of(command) for command in cli.registered_commands]
    outline.registered_groups = [copy(family) for family in cli.registered_groups]
    for family in outline.registered_groups:
        if family.typer_instance is not None:
            family.typer_instance = copy(family.typer_instance)
            family.typer_instance.registered_commands = []
    return outline


def _sentence_of(command: CommandInfo) -> CommandInfo:
    bare = copy(command)
    if command.callback is not None:
        bare.name = command.name or get_command_name(command.callback.__name__)
        bare.help = command.help or getdoc(command.callback)
        bare.callback = _nothing
    return bare


def _nothing() -> None:
    """Stands for a command in the help; never run."""
