"""Puts the pieces together: the only file that names concrete stores and transports, but for the test kit's."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import re
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

from holdfast.errors import SettingsError, extras_named, missing_module
from holdfast.kernel.app import App
from holdfast.kernel.compose.signing import CallbackSigner
from holdfast.kernel.failpoint import no_failpoint, parse_failpoints
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.observe.watch import JsonFormatter, LogWatch, TextFormatter, Watch
from holdfast.kernel.sealing import Sealer
from holdfast.kernel.upkeep.floors import stop_looking
from holdfast.operator.incident_news import IncidentSettings
from holdfast.operator.incident_watch import incidents_app
from holdfast.settings import Settings, read
from holdfast.stores.connecting import DATABASE_FORMS, Connecting, beside, in_schema, plain_url, url_problem
from holdfast.stores.seam import Store
from holdfast.system import OpenSystem, System, own_file
from holdfast.transports.memory import MemoryTransport
from holdfast.transports.seam import Transport
from holdfast.transports.signed import SignedTransport

SYSTEMS = "holdfast.systems"
CLOSE_S = 3.0
_DATABASE_NAME = re.compile(r"^[a-z0-9][a-z0-9-]*$")


def open_store(url: str, connecting: Connecting | None = None) -> Store:
    """The store behind a URL, which may name a driver as SQLAlchemy's do. Nothing is connected yet."""
    if problem := url_problem(url):
        raise SettingsError([f"The database URL {problem}; it must be {DATABASE_FORMS}."])
    url = plain_url(url)
    if url.startswith("sqlite:///"):
        from holdfast.stores.sqlite import SqliteStore

        return SqliteStore(url.removeprefix("sqlite:///"))
    if url.startswith(("postgresql://", "postgres://")):
        with extras_named():
            from holdfast.stores.postgres import PostgresStore

        return PostgresStore(url, connecting=connecting)
    raise SettingsError([f"The database URL must be {DATABASE_FORMS}, not '{url.split(':')[0]}:...'."])


def place_in(url: str, schema: str | None) -> str:
    """Where an app's tables are: in a schema of PostgreSQL if it names one. A SQLite file is a place of its own."""
    url = plain_url(url)
    return url if schema is None or url.startswith("sqlite:") else in_schema(url, schema)


def open_transport(settings: Settings) -> Transport:
    if settings.rabbitmq_url is None:
        return MemoryTransport()
    with extras_named():
        from holdfast.transports.rabbitmq.fast_publisher import FastPublisher
        from holdfast.transports.rabbitmq.publisher import Publisher
        from holdfast.transports.rabbitmq.transport import RabbitTransport

    publisher = FastPublisher if settings.rabbitmq_publisher == "fast" else Publisher
    rabbit = RabbitTransport(settings.rabbitmq_url, queue_type=settings.rabbitmq_queue_type, publisher=publisher)
    return SignedTransport(rabbit, settings.signing_keys) if settings.signing_keys else rabbit


def open_kernel(
    settings: Settings,
    apps: Sequence[App],
    *,
    store: Store | None = None,
    transport: Transport | None = None,
    watch: Watch | None = None,
) -> Kernel:
    """A kernel for these apps on the configured database; `store` overrides it."""
    registry = Registry(apps)
    if store is None:
        url = settings.database_url or own_file([app.name for app in apps], settings.data_dir)
        store = open_store(place_in(url, registry.schema), settings.connecting())
    return Kernel(
        store=store,
        registry=registry,
        transport=transport,
        tuning=settings.tuning(),
        failpoint=parse_failpoints(settings.failpoints) if settings.failpoints else no_failpoint,
        watch=watch or LogWatch(),
        auto_migrate=settings.auto_migrate == "true",
        makes_files=settings.auto_migrate != "false",
        callbacks=CallbackSigner(settings.public_url, settings.callback_secret),
        sealer=Sealer(settings.sealing_keys),
    )


NOTHING_TO_RUN = "There is nothing to run: name your app with --app module:app (see holdfast check)."


def load_app(path: str) -> App:
    """The app behind `module:name`: an `App`, or a function that makes one."""
    module_name, _, name = path.partition(":")
    if not name:
        raise SettingsError([f"'{path}' does not name an app; write module:app."])
    if "/" in module_name or module_name.endswith(".py"):
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise SettingsError([f"'{path}' names a file; write its module: {dotted}:{name}."])
    module = import_own(module_name)
    found = getattr(module, name, None)
    if found is None:
        raise SettingsError([_no_app(module, name)])
    made = found() if not isinstance(found, App) and _needs_nothing(found) else found
    if not isinstance(made, App):
        raise SettingsError(
            [f"'{path}' is not an app: it must be an App, or a function without arguments that makes one."]
        )
    return made


def _no_app(module: ModuleType, name: str) -> str:
    apps = ", ".join(key for key, value in vars(module).items() if isinstance(value, App))
    if getattr(module, "__file__", None) is None and hasattr(module, "__path__"):
        return f"'{module.__name__}' is a folder here and no module; go to where {module.__name__}.py is."
    return f"'{module.__name__}' has no app named '{name}'{f'; it has {apps}' if apps else ''}."


def import_own(module_name: str) -> ModuleType:
    """A module of the person who types the command, from the present folder or wherever Python finds it. One that
    cannot be imported is a `SettingsError` that says where it fails."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise SettingsError([f"The module '{module_name}' cannot be imported: {error}."]) from None
    except SystemExit as error:
        why = f"it calls sys.exit({error.code!r})"
        raise SettingsError([f"The module '{module_name}' cannot be imported: {why}."]) from None
    except Exception as error:
        words = error.msg if isinstance(error, SyntaxError) else str(error).rstrip(".")
        why = f"{type(error).__name__}: {words} ({_place_of(error)})"
        raise SettingsError([f"The module '{module_name}' cannot be imported: {why}."]) from error


def _place_of(error: Exception) -> str:
    """Where an import failed: the innermost line that is not a library's, so that the person can fix it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    here = Path.cwd()
    own = [each for each in frames if Path(each.filename).is_relative_to(here) and "site-packages" not in each.filename]
    place = (own or frames)[-1]
    return f"{Path(place.filename).name}, line {place.lineno}"


def _refuse_twins(apps: Sequence[App]) -> None:
    """Two apps of one name have one queue, and each would take jobs that only the other knows."""
    names = [app.name for app in apps]
    twins = sorted({each.name for each in apps if names.count(each.name) > 1 and len({id(a) for a in apps}) > 1})
    if twins:
        raise SettingsError([f"Two apps are named '{twins[0]}'; give each a name of its own, or name one of them."])


def _needs_nothing(found: object) -> bool:
    try:
        inspect.signature(found).bind()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def load_systems(names: Sequence[str] | None = None) -> list[System]:
    """The installed systems, all that can be loaded or by name. They are found by entry point: the package names none
    of them."""
    found = {point.name: point for point in entry_points(group=SYSTEMS)}
    unknown = sorted(set(names or ()) - set(found))
    if unknown:
        known = ", ".join(sorted(found)) or "none is installed"
        raise SettingsError([f"There is no system named '{unknown[0]}'; known: {known}."])
    loaded = [_load(found[name]) for name in sorted(found) if not names or name in names]
    problems = [each for each in loaded if isinstance(each, str)]
    if names and problems:
        raise SettingsError(problems)
    return [each for each in loaded if isinstance(each, System)]


def installed_names() -> frozenset[str]:
    """The names of the installed systems, whether or not they can be loaded."""
    return frozenset(point.name for point in entry_points(group=SYSTEMS))


def missing_systems() -> list[str]:
    """A sentence for each installed system that cannot be loaded, because what it needs is not installed."""
    loaded = [_load(point) for point in sorted(entry_points(group=SYSTEMS), key=lambda point: point.name)]
    return [each for each in loaded if isinstance(each, str)]


def _load(point: EntryPoint) -> System | str:
    try:
        make: Callable[[], System] = point.load()
        return make()
    except ModuleNotFoundError as error:
        module = missing_module(error)
        if module == point.module.partition(".")[0]:
            raise  # a name of its own that does not exist is a mistake in the system
        brings = f"install it, or the extra of '{point.dist.name}' that does" if point.dist else "install it"
        return f"The system '{point.name}' cannot be loaded: the module '{module}' is not installed; {brings}."


async def open_systems(
    settings: Settings,
    env: Mapping[str, str],
    names: Sequence[str] | None,
    own: Sequence[App] = (),
    *,
    watch: Watch | None = None,
    to_look: bool = False,
    databases: Mapping[str, str] | None = None,
    extra: Sequence[System] = (),
) -> list[OpenSystem]:
    """Open the named systems (all, if none is named) and your own apps, each on its database, on one transport. Whoever
    only wants `to_look` is given the replicas, where there are any. `databases`: URLs by name; everything is opened
    once on each, under a name of its own and without routes: for a console over several deployments. `extra`: systems
    that are not installed."""
    _refuse_twins(own)
    chosen = [*(load_systems(names) if names or not own else []), *extra]
    if not chosen and not own:
        raise SettingsError([NOTHING_TO_RUN])
    for sentence in [] if names or own else missing_systems():
        (watch or LogWatch()).log("system.missing", level=logging.WARNING, reason=sentence)
    transport = open_transport(settings)
    stores = _Stores(settings, to_look)
    news = read(IncidentSettings, env)
    is_replica = to_look and settings.read_only_url is not None
    if databases:
        parts = [(system, [system.build(env)]) for system in chosen] + ([(_own_system(own), list(own))] if own else [])
        return [
            OpenSystem(
                _side_by_side(system, name),
                open_kernel(settings, apps, store=stores.open(url), transport=transport, watch=watch),
                env,
            )
            for system, apps in parts
            for name, url in databases.items()
        ]
    opened = []
    for system in chosen:
        if watch is not None:
            watch.declare(system.counters)
        url = system.database_url(env, settings.data_dir)
        apps = _watched([system.build(env)], news, settings)
        kernel = open_kernel(settings, apps, store=stores.open(url), transport=transport, watch=watch)
        opened.append(OpenSystem(system, kernel, env, is_replica and not url.startswith("sqlite:")))
    for url, sharing in _by_database(settings, env, own).items():
        apps = _watched(sharing, news, settings)
        kernel = open_kernel(settings, apps, store=stores.open(url), transport=transport, watch=watch)
        opened.append(OpenSystem(_own_system(sharing), kernel, env, is_replica and not url.startswith("sqlite:")))
    return opened


def _watched(apps: Sequence[App], news: IncidentSettings, settings: Settings) -> list[App]:
    """These apps, and the one that watches them for incidents, where their tables are."""
    return [*apps, incidents_app(news, settings.public_url, schema=apps[0].schema)]


def _side_by_side(system: System, name: str) -> System:
    """One of several deployments of a system: told apart by name, and only looked after."""
    return replace(system, name=f"{system.name}@{name}", title=f"{system.title} at {name}", routes=None)


def named_databases(given: Sequence[str]) -> dict[str, str]:
    """Databases as a person writes them, `name=URL` each or a URL alone, by their names."""
    found: dict[str, str] = {}
    for text in given:
        label, equals, rest = text.partition("=")
        name, url = (label, rest) if equals and _DATABASE_NAME.match(label) else (Path(urlsplit(text).path).stem, text)
        if not url or not name or found.setdefault(name, url) is not url:
            raise SettingsError([f"The database '{name or text}' needs a name and a URL of its own: name=URL."])
    return found


class _Stores:
    """One store for each database: all apps of a process share its connections."""

    def __init__(self, settings: Settings, to_look: bool) -> None:
        self._connecting = settings.connecting()
        self._replica = settings.read_only_url if to_look else None
        self._by_url: dict[str, Store] = {}

    def open(self, url: str) -> Store:
        if url not in self._by_url:
            there, connecting = url, self._connecting
            if self._replica is not None and not url.startswith("sqlite:"):
                there, connecting = beside(url, self._replica), replace(connecting, listen_url=None, listens=False)
            self._by_url[url] = open_store(there, connecting)
        return self._by_url[url]


def _by_database(settings: Settings, env: Mapping[str, str], own: Sequence[App]) -> dict[str, list[App]]:
    """Your own apps by the database they lie in: those in one database share a kernel, and are listed once."""
    found: dict[str, list[App]] = {}
    for app in own:
        url = _own_system([app]).database_url(env, settings.data_dir)
        found.setdefault(place_in(url, app.schema), []).append(app)
    return found


def _own_system(apps: Sequence[App]) -> System:
    name = ",".join(app.name for app in apps)
    return System(name, name, "DATABASE_URL", lambda env: apps[0])


async def close_systems(opened: Sequence[OpenSystem]) -> None:
    """Close clients, the transport and, after the last write, the databases. Each kind at once and within a limit: what
    does not close in time is left to the end of the process."""
    kernels = [one.kernel for one in opened]
    for kernel in kernels:
        stop_looking(kernel)
    closers = [close() for kernel in kernels for app in kernel.registry.apps for close in app.closers]
    transports = {id(kernel.transport): kernel.transport for kernel in kernels if kernel.transport is not None}
    await _close_all([*closers, *(transport.close() for transport in transports.values())])
    await _close_all([store.close() for store in {id(kernel.store): kernel.store for kernel in kernels}.values()])


async def _close_all(closing: Sequence[Awaitable[None]]) -> None:
    tasks = [asyncio.ensure_future(each) for each in closing]
    if not tasks:
        return
    done, waiting = await asyncio.wait(tasks, timeout=CLOSE_S)
    for task in waiting:
        task.cancel()
    if waiting:
        LogWatch().log("close.overdue", left=len(waiting), limit_s=CLOSE_S)
    for task in done:
        task.result()


def start_logging(settings: Settings) -> None:
    """Structured lines on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
