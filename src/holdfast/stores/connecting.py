"""How a process reaches its databases: values only, known without a driver."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

# What a database URL may say to the driver; everything else in its query is a setting of the session.
# fmt: off
_DRIVERS = frozenset({
    "host", "port", "dbname", "database", "user", "password", "passfile", "service", "servicefile", "sslmode",
    "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword", "sslnegotiation", "ssl_min_protocol_version",
    "ssl_max_protocol_version", "target_session_attrs", "krbsrvname", "gsslib", "direct_tls",
})
# fmt: on


class Pooler(StrEnum):
    """What lies between this process and PostgreSQL."""

    AUTO = "auto"
    NONE = "none"
    SESSION = "session"
    TRANSACTION = "transaction"


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


def split_settings(url: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The URL without the settings of a session, and those: sent at the start, poolers refuse them."""
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    own = tuple((name, value) for name, value in given if name not in _DRIVERS)
    query = urlencode([(name, value) for name, value in given if name in _DRIVERS])
    return urlunsplit(parts._replace(query=query)), own


def beside(url: str, other: str) -> str:
    """The other server's URL, for the database of the first where the other names none, and with its settings."""
    mine, parts = urlsplit(url), urlsplit(other)
    path = parts.path if parts.path.strip("/") else mine.path
    own = urlencode(split_settings(url)[1])
    return urlunsplit(parts._replace(path=path, query="&".join(filter(None, [parts.query, own]))))
