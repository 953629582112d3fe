"""How a process reaches its databases: values only, known without a driver."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
