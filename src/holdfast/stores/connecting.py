"""How a process reaches its databases: values only, known without a driver."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.errors import SettingsError

_OPTION = re.compile(r"-c\s*([a-z_.]+)=((?:\\.|[^\s\\])*)")
# What a database URL may say to the driver; everything else in its query is a setting of the session.
# fmt: off
_DRIVERS = frozenset({
    "host", "port", "dbname", "database", "user", "password", "passfile", "service", "servicefile", "sslmode",
    "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword", "sslnegotiation", "ssl_min_protocol_version",
    "ssl_max_protocol_version", "target_session_attrs", "krbsrvname", "gsslib", "direct_tls",
})
# fmt: on


POSTGRES = ("postgresql", "postgres")
# What other libraries' URLs say to those libraries, and to nobody else.
_OTHERS = frozenset({
    "async_fallback", "channel_binding", "charset", "client_encoding", "connect_timeout", "gssencmode", "keepalives",
    "keepalives_count", "keepalives_idle", "keepalives_interval", "prepared_statement_cache_size",
    "prepared_statement_name_func", "tcp_user_timeout",
})  # fmt: skip


class Pooler(StrEnum):
    """What lies between this process and PostgreSQL."""

    AUTO = "auto"
    NONE = "none"
    SESSION = "session"
    TRANSACTION = "transaction"


_PORT = re.compile(r":([^\]:]*)\Z")
"""What stands after a host, which may be an IPv6 address in brackets."""


@dataclass(frozen=True, slots=True)
class Connecting:
    """How a process reaches its databases. `listen_url` is the server's own address where a pooler lies before it; the
    database in it, if it has one, stands over the database URL's."""

    connections: int = 4
    pooler: Pooler = Pooler.AUTO
    prepares: bool = False
    listen_url: str | None = None
    listens: bool = True
    """A replica that is only read takes no LISTEN."""


def plain_url(url: str) -> str:
    """The URL without the driver that SQLAlchemy writes into it (`postgresql+asyncpg://`), and without what is for that
    driver alone; `ssl=require` and `options=-csearch_path=x` are kept, as PostgreSQL spells them."""
    if not isinstance(url, str):
        raise SettingsError([f"A database is named by its URL, which is a text, and not by a {type(url).__name__}."])
    scheme, colon, rest = url.partition(":")
    kind = scheme.partition("+")[0]
    if kind not in ("sqlite", *POSTGRES):
        return url
    if kind == "sqlite":
        return f"{kind}{colon}{rest}"
    parts = urlsplit(f"{kind}{colon}{rest}")
    given: list[tuple[str, str]] = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name == "options":
            given += _OPTION.findall(value)
        elif name not in _OTHERS:
            given.append(("sslmode" if name == "ssl" else name, value))
    query = urlencode(given) if parts.query else ""
    return urlunsplit(parts._replace(query=query))


DATABASE_FORMS = "sqlite:///path or postgresql://user@host/name"


def url_problem(url: str) -> str | None:
    """What is wrong with a database URL, as the end of a sentence; None if it can be tried."""
    try:
        parts = urlsplit(plain_url(url))
        parts.hostname  # noqa: B018  brackets that do not match are seen here
    except ValueError as error:
        return f"is no address ({error})"
    if parts.scheme not in ("sqlite", *POSTGRES):
        return f"starts with '{parts.scheme}:'" if parts.scheme else "has no scheme"
    if parts.scheme == "sqlite" and parts.path in ("", "/", "/:memory:") and not parts.netloc:
        return "names no file, and a database in memory belongs to one connection alone"
    hosts = parts.netloc.rpartition("@")[2].split(",")
    ports = [found[1] for found in map(_PORT.search, hosts) if found]
    return None if all(port.isdigit() and 0 < int(port) < 65_536 for port in ports) else "has a port that cannot be"


def in_schema(url: str, schema: str) -> str:
    """The URL of a schema in this database: all that is named without one is looked for and made there."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query="&".join(filter(None, [parts.query, f"search_path={schema}"]))))


def split_settings(url: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The URL without the settings of a session, and those: sent at the start, poolers refuse them."""
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    own = tuple((name, value) for name, value in given if name not in _DRIVERS)
    query = urlencode([(name, value) for name, value in given if name in _DRIVERS])
    return urlunsplit(parts._replace(query=query)), own


def beside(url: str, other: str) -> str:
    """The other server's URL, for the database of the first where the other names none, and with its settings."""
    mine, parts = urlsplit(url), urlsplit(plain_url(other))
    path = parts.path if parts.path.strip("/") else mine.path
    own = urlencode(split_settings(url)[1])
    return urlunsplit(parts._replace(path=path, query="&".join(filter(None, [parts.query, own]))))
