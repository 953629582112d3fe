"""A system: an app with a database of its own, HTTP routes, pages and settings; or several of one product.

A package offers one by an entry point in the group `holdfast.systems` that names a function returning a `System`; it
then appears in `holdfast up`, the API, the console, the metrics and the command line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.engines.run import SHOW, Duties
from holdfast.errors import SettingsError
from holdfast.kernel.app import App
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.loop import AWAITED
from holdfast.kernel.observe.counters import Counter
from holdfast.settings.names import value_in
from holdfast.stores.connecting import in_schema, plain_url

if TYPE_CHECKING:
    from fastapi import APIRouter

    from holdfast.http.problem import Translation
    from holdfast.playground.demo_stage import Demo


@dataclass(frozen=True)
class Gauge:
    """A number of a system's own that Prometheus reads: `holdfast_<name>`, with the label `system` before its own."""

    name: str
    doc: str
    labels: tuple[str, ...] = ()


GaugeValue = tuple[Gauge, tuple[str, ...], float]
"""A gauge, the values of its labels, and the number."""


@dataclass(frozen=True)
class Page:
    """A page of a system at `/<path>`: the `<main>` in a file of its folder, in the frame of all pages, with a module
    and a style sheet of the folder. `roles` are those whom it is for, none: everybody."""

    path: str
    title: str
    file: str
    roles: tuple[str, ...] = ()
    script: str | None = None
    style: str | None = None


@dataclass(frozen=True)
class SystemPages:
    """What a system shows in a browser. The files of `folder` are served at `/static/<system>/`.

    `card` is HTML for the front page to try the system, and `card_script` its module. `console` is a module that adds
    tabs and views to the console (`static/console-systems.js` says what it exports)."""

    folder: Path
    pages: Sequence[Page] = ()
    card: str | None = None
    card_script: str | None = None
    console: str | None = None


@dataclass(frozen=True)
class System:
    """`build` makes the app from an environment; `routes` makes its HTTP routes for an open kernel.

    `database` names the environment variables of its database URL, the first that is set counts; with none, it is
    `<name>.db` in the data folder. The first of several is its own; a database that it shares by a later one holds its
    tables apart, in a schema (PostgreSQL) or a file beside the other's (SQLite) of its name.
    `settings` are its groups of settings, for `holdfast check` and the reference page. `counters` declares what it
    counts with `kernel.watch.count`. `gauges` declares what is read from its database, by `read_gauges` at a scrape, so
    that any process tells the whole. `problems` translates the problems that clients see below a path, for an interface
    that promises codes of its own. `roles` are those that its routes ask for beside the library's own. `pages` is what
    it shows in a browser, and `demo` what `holdfast demo` does with it. Its commands come by another entry point
    (`holdfast.cli.brought`)."""

    name: str
    title: str
    database: str | tuple[str, ...]
    build: Callable[[Mapping[str, str]], App]
    routes: Callable[[Kernel, Mapping[str, str]], APIRouter] | None = None
    settings: Sequence[type[Any]] = ()
    concurrency: Callable[[Mapping[str, str]], int] | None = None
    counters: Sequence[Counter] = ()
    gauges: Sequence[Gauge] = ()
    read_gauges: Callable[[Kernel], Awaitable[Sequence[GaugeValue]]] | None = None
    problems: Translation | None = None
    roles: tuple[str, ...] = ()
    pages: SystemPages | None = None
    demo: Demo | None = None

    def database_url(self, env: Mapping[str, str], data_dir: str) -> str:
        own, *shared = (self.database,) if isinstance(self.database, str) else self.database
        mine = value_in(env, own)
        if mine:
            return plain_url(mine)
        given = next(filter(None, (value_in(env, name) for name in shared)), None)
        return _apart(plain_url(given), self.name) if given else f"sqlite:///{Path(data_dir) / (self.name + '.db')}"


def own_file(names: Sequence[str], data_dir: str) -> str:
    """Where the jobs of an app are that was given no database: in the file in which the commands have them."""
    if len(names) > 1:
        apps = ", ".join(f"'{name}'" for name in names)
        raise SettingsError([f"Without a database URL {apps} have a file each; set HOLDFAST_DATABASE_URL for all."])
    return f"sqlite:///{Path(data_dir) / (names[0] if names else 'holdfast')}.db"


def _apart(url: str, name: str) -> str:
    """The place of a system's own in a database that others use too."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        path = Path(url.removeprefix("sqlite:///"))
        return f"sqlite:///{path.with_name(f'{path.stem}-{name}{path.suffix}')}"
    return in_schema(url, name)


@dataclass(frozen=True)
class OpenSystem:
    """A system with its kernel open."""

    system: System
    kernel: Kernel
    env: Mapping[str, str]
    is_replica: bool = False
    """Whether its database follows another and is only read here."""

    @property
    def name(self) -> str:
        return self.system.name

    @property
    def is_awaited(self) -> bool:
        """Whether its database has not answered yet, in a process that only shows it, or does so no more, in one that
        serves several (`operator.reachable`)."""
        return self.kernel.is_away or self.kernel.duties.get(SHOW) == AWAITED

    def duties(self, asked: Duties) -> Duties:
        """What this process does for the system: as asked, within the system's own concurrency."""
        if self.system.concurrency is None:
            return asked
        return replace(asked, concurrency=min(asked.concurrency, self.system.concurrency(self.env)))
