"""What every command starts with: the options they share, the settings, and one sentence for what goes wrong."""

from __future__ import annotations

import getpass
import os
from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from holdfast.cli import complete
from holdfast.cli.reach import fail

if TYPE_CHECKING:
    from holdfast.kernel.app import App
    from holdfast.settings import Settings

T = TypeVar("T")
CONCURRENCY_MAX = 5_000

SystemNames = Annotated[
    list[str] | None,
    typer.Option("--system", help="Only this system; repeat for more. Default: all.", autocompletion=complete.systems),
]
AppPath = Annotated[
    list[str] | None,
    typer.Option("--app", help="Your own app, as module:app; repeat for more (HOLDFAST_APP).", envvar="HOLDFAST_APP"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Watching = Annotated[
    bool, typer.Option("--watch", help="Show it again every two seconds, until Ctrl-C; with --json a line each time.")
]
Limit = Annotated[int, typer.Option(help="How many rows.", min=1, max=1000)]
Actor = Annotated[str, typer.Option("--actor", help="Who is doing this; written to the audit.")]
Kind = Annotated[str | None, typer.Option(help="Only this kind.", autocompletion=complete.kinds)]


def _me() -> str:
    """The name at this terminal; a container may run under a number that has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "operator"


ME = _me()


def settings_now(**given: Any) -> Settings:
    """The environment's settings, with what the command line gave on top."""
    from holdfast.errors import SettingsError
    from holdfast.settings import Settings, read

    env = dict(os.environ) | {name: str(value) for name, value in given.items() if value is not None}
    try:
        return read(Settings, env)
    except SettingsError as error:
        for problem in error.problems:
            typer.echo(problem, err=True)
        raise typer.Exit(1) from None


def check_named(paths: list[str] | None) -> None:
    """Stop where no change of code could make the command work: nothing is named, or what is named is no app."""
    from holdfast.main import NOTHING_TO_RUN, installed_names

    if not paths and not installed_names():
        fail(NOTHING_TO_RUN)
    for path in paths or ():
        if not path.partition(":")[2]:
            fail(f"'{path}' does not name an app; write module:app.")


def own_apps(paths: list[str] | None) -> list[App]:
    from holdfast.errors import HoldfastError
    from holdfast.main import load_app

    try:
        return [load_app(path) for path in paths or ()]
    except HoldfastError as error:
        fail(str(error))


def served_queues(given: list[str] | None) -> dict[str, int]:
    """`--queue cpu=4` as a person writes it, by the queue's name."""
    found: dict[str, int] = {}
    for text in given or ():
        name, _, number = text.partition("=")
        if not name or not number.isdigit() or not 1 <= int(number) <= CONCURRENCY_MAX:
            fail(f"'{text}' is not a queue with its concurrency; write --queue name=4, with 1 to {CONCURRENCY_MAX}.")
        found[name] = int(number)
    return found


def check_served(served: Mapping[str, int], known: Iterable[str]) -> None:
    """Refuse a queue that no loaded app has: its jobs would wait without a word."""
    from holdfast.errors import SettingsError

    names = sorted(set(known))
    unknown = sorted(set(served) - set(names))
    if unknown:
        raise SettingsError([f"There is no queue named '{unknown[0]}'; the loaded apps have {', '.join(names)}."])


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; what Holdfast raises on purpose is one sentence and exit code 1."""
    import asyncio

    from holdfast.errors import HoldfastError

    try:
        return asyncio.run(work)
    except HoldfastError as error:
        fail(str(error))
    except BaseExceptionGroup as group:
        expected = group.subgroup(HoldfastError)
        if expected is None:
            raise
        fail(str(_first(expected)))


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    inner: BaseException = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
