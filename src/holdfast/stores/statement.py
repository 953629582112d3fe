"""SQL as named statements, one text for both databases.

A `.sql` file holds blocks; each begins with `-- name: settle`, or `-- name: claim @postgres` where one database has
a text of its own (its comment says what was measured). Parameters are `:named`. A block with a line `-- brief` finds
what it wants by an index, and as much as its caller says: it takes less time than handing it to a thread. What varies:

    /*skip_locked*/   FOR UPDATE SKIP LOCKED on PostgreSQL, nothing on SQLite (its writers are alone)
    /*for_update*/    FOR UPDATE on PostgreSQL, nothing on SQLite
    /*id*/            the type of an id: uuid or TEXT
    /*identity*/      the spelling of an ascending key
    /*newest t :name*/   the row of that name of the table `t`, on PostgreSQL from the newest end of its key: a row that
                      is written again and again leaves versions behind while a snapshot is held; none of them is met.
                      `t.id :id` where the key is another column than the name
    json_each(        jsonb_each( on PostgreSQL: it parses a row once, json once for every ->> (4 against 16 us a row)

A line that ends in `-- if owner` is there only where an owner is asked for (`Statements.choose`): each set of filters
is a statement of its own, with a plan of its own.

A row that several statements spell is declared once, as a named tuple, and given to `load_statements`:

    /*Claimed*/           its columns in order, the id as text
    /*Claimed of j*/      the same, of the table `j`, as they are
    /*Claimed in j*/      the same, of the table `j`, the id as text
    /*Claimed absent*/    as many NULLs, but for the id
    /*Fate from e*/       its fields out of the JSON array `e.value`, each under its own name and with its type

Why so: docs/decisions/0001-statements-with-a-twin.md
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

_HEADER = re.compile(r"^-- name: (\w+)(?: @(sqlite|postgres))?\s*$", re.MULTILINE)
_PARAM = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
_BRIEF = re.compile(r"^-- brief\s*$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_IF = re.compile(r"^.*-- if (\w+)[ \t]*(?:\n|$)", re.MULTILINE)
_OLDEST = re.compile(r"^-- oldest: (\d+)\s*$", re.MULTILINE)
_CONCURRENTLY = re.compile(r"^-- concurrently\s*$", re.MULTILINE)
_NAMES_INDEX = re.compile(r"EXISTS \"?(\w+)")
_MAKES_INDEX = re.compile(r"^CREATE (UNIQUE )?INDEX (?:CONCURRENTLY )?(?:IF NOT EXISTS )?", re.IGNORECASE)
_DROPS_INDEX = re.compile(r"^DROP INDEX (?:CONCURRENTLY )?(?:IF EXISTS )?", re.IGNORECASE)
_NEWEST = re.compile(r"/\*newest (\w+)(?:\.(\w+))? :(\w+)\*/")
_ROW = re.compile(r"/\*([A-Z]\w+)(?: (of|in|from) (\w+)| (absent))?\*/")
JSON_PARAMETER = re.compile(r"jsonb_each\((:\w+|%\(\w+\)s)\)")
"""What a driver that sends text must cast, where PostgreSQL's own knows the type."""
RowType = type[tuple[Any, ...]]
_TOKENS = {
    "sqlite": {
        "/*skip_locked*/": "",
        "/*for_update*/": "",
        "/*id*/": "TEXT",
        "/*as json*/": "",
        "/*identity*/": "INTEGER PRIMARY KEY AUTOINCREMENT",
    },
    "postgres": {
        "/*skip_locked*/": "FOR UPDATE SKIP LOCKED",
        "/*for_update*/": "FOR UPDATE",
        "/*id*/": "uuid",
        "/*as json*/": "::jsonb",
        "/*identity*/": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "json_each(": "jsonb_each(",
    },
}


@dataclass(frozen=True, eq=False)
class Statement:
    """A named statement. `sqlite` keeps `:named` parameters; `postgres` is `$n` with their `order`."""

    name: str
    sqlite: str
    postgres: str
    order: tuple[str, ...]
    is_brief: bool = False

    def text(self, dialect: str) -> str:
        return self.sqlite if dialect == "sqlite" else self.postgres

    def named_text(self, dialect: str) -> str:
        """With `:named` parameters on both, for drivers that know no others; other colons are escaped."""
        if dialect == "sqlite":
            return self.sqlite
        text = self.postgres.replace(":", "\\:")
        for number in range(len(self.order), 0, -1):
            text = text.replace(f"${number}", f":{self.order[number - 1]}")
        return JSON_PARAMETER.sub(r"jsonb_each(CAST(\1 AS jsonb))", text)


@dataclass(frozen=True)
class Statements:
    """The statements of one file, as attributes by name."""

    named: dict[str, Statement] = field(default_factory=dict)
    blocks: dict[str, dict[str | None, str]] = field(default_factory=dict)
    rows: Sequence[RowType] = ()
    chosen: dict[tuple[str, frozenset[str]], Statement] = field(default_factory=dict)

    def choose(self, statement: Statement, given: Iterable[str]) -> Statement:
        """The statement without the lines that are there `if` something is asked for that is not given."""
        name = statement.name
        key = name, frozenset(given)
        if key not in self.chosen:
            kept = {
                dialect: _IF.sub(lambda line: line.group() if line.group(1) in key[1] else "", body)
                for dialect, body in self.blocks[name].items()
            }
            self.chosen[key] = _statement(name, kept, self.rows)
        return self.chosen[key]

    def __getattr__(self, name: str) -> Statement:
        try:
            return self.named[name]
        except KeyError:
            raise AttributeError(f"no statement is named '{name}'") from None


@dataclass(frozen=True)
class Migration:
    """One step of a schema, forever unchanged once released. `namespace` keeps systems' steps apart.

    Two lines of their own in its text say how it goes with a fleet at work:

        -- oldest: 4       code that knows the schema up to step 4 runs beside this one: it only adds
        -- concurrently    PostgreSQL makes or drops its indexes outside a transaction, while writers go on
    """

    namespace: str
    version: int
    text: str

    def __post_init__(self) -> None:
        if not 0 < self.oldest <= self.version:
            raise ValueError(f"{self.name} says '-- oldest: {self.oldest}'; it must be from 1 to {self.version}.")
        if self.is_concurrent:
            self.statements("postgres")

    @property
    def name(self) -> str:
        return f"{self.namespace}/{self.version:03d}"

    @property
    def oldest(self) -> int:
        """The last step of the oldest code that may run once this one is applied; without the line, only code that
        knows the step."""
        declared = _OLDEST.search(self.text)
        return int(declared.group(1)) if declared else self.version

    @property
    def is_concurrent(self) -> bool:
        return _CONCURRENTLY.search(self.text) is not None

    def runs_outside(self, dialect: str) -> bool:
        """Whether the step must run outside a transaction there."""
        return self.is_concurrent and dialect == "postgres"

    def statements(self, dialect: str) -> list[str]:
        """The step's statements for one database. A block after `-- @postgres` or `-- @sqlite` is only for it."""
        texts = []
        for part in re.split(r";\s*\n", _render(self.text, dialect)):
            only = re.search(r"^-- @(sqlite|postgres)\s*$", part, re.MULTILINE)
            body = _COMMENT.sub("", part).strip()
            if body and (only is None or only.group(1) == dialect):
                texts.append(body.rstrip(";"))
        return [self._outside(text) for text in texts] if self.runs_outside(dialect) else texts

    def _outside(self, text: str) -> str:
        """An index statement that blocks no writer, and may be repeated after it was cut off."""
        made, count = _MAKES_INDEX.subn(r"CREATE \1INDEX CONCURRENTLY IF NOT EXISTS ", text)
        if not count:
            made, count = _DROPS_INDEX.subn("DROP INDEX CONCURRENTLY IF EXISTS ", text)
        if not count:
            raise ValueError(f"{self.name} says '-- concurrently'; such a step may only make and drop indexes.")
        return made


def index_name(text: str) -> str:
    """Which index a statement of a concurrent step makes or drops."""
    named = _NAMES_INDEX.search(text)
    assert named is not None, "a concurrent step has index statements only"
    return named.group(1)


def load_statements(path: Path, *rows: RowType) -> Statements:
    """Read every named block of a file, which may spell these rows."""
    text = path.read_text()
    headers = list(_HEADER.finditer(text))
    blocks: dict[str, dict[str | None, str]] = {}
    for header, following in zip(headers, [*headers[1:], None], strict=True):
        body = text[header.end() : following.start() if following else len(text)]
        blocks.setdefault(header.group(1), {})[header.group(2)] = body
    return Statements({name: _statement(name, bodies, rows) for name, bodies in blocks.items()}, blocks, rows)


@lru_cache(maxsize=256)
def statement_of(text: str) -> Statement:
    """One statement that is written where it is used, with `:named` parameters."""
    return _statement("own", {None: text})


def load_migrations(namespace: str, folder: Path) -> list[Migration]:
    """Every `NNN_*.sql` of a folder, in order."""
    files = sorted(folder.glob("[0-9][0-9][0-9]_*.sql"))
    return [Migration(namespace, int(path.name[:3]), path.read_text()) for path in files]


def _statement(name: str, bodies: dict[str | None, str], rows: Sequence[RowType] = ()) -> Statement:
    sqlite = _clean(bodies.get("sqlite") or bodies.get(None) or "", "sqlite", rows)
    postgres, order = _positional(_clean(bodies.get("postgres") or bodies.get(None) or "", "postgres", rows))
    brief = _BRIEF.search(bodies.get("sqlite") or bodies.get(None) or "")
    return Statement(name, sqlite, postgres, order, brief is not None)


def _clean(body: str, dialect: str, rows: Sequence[RowType]) -> str:
    text = _ROW.sub(lambda token: _spelled(token, dialect, rows), _COMMENT.sub("", body))
    text = _NEWEST.sub(lambda token: _newest(token[1], token[2] or "name", token[3], dialect), text)
    return _render(text, dialect).strip().rstrip(";")


def _newest(table: str, key: str, name: str, dialect: str) -> str:
    """By its place: no other version of the row is looked at. Two who find it at once take turns, as with any row, and
    the second meets a version that is not the one it looked for."""
    if dialect == "sqlite":
        return f"{table}.{key} = :{name}"
    found = f"n.{key} >= :{name} AND n.{key} <= :{name} ORDER BY n.{key} DESC LIMIT 1"
    place = f"SELECT n.ctid FROM {table} AS n WHERE {found}"
    return f"{table}.ctid = ({place})"


def _spelled(token: re.Match[str], dialect: str, rows: Sequence[RowType]) -> str:
    name, preposition, source, absent = token.groups()
    declared = {row.__name__: row for row in rows}
    if name not in declared:
        raise ValueError(f"A statement spells the row '{name}', which `load_statements` was not given.")
    types = get_type_hints(declared[name])
    if absent:
        return ", ".join(["NULL"] * (len(types) - 1))
    if preposition == "of":
        return ", ".join(f"{source}.{column}" for column in types)
    if preposition == "from":
        fields = [_read(f"{source}.value->>{place}", types[column], dialect) for place, column in enumerate(types)]
        return ", ".join(f"{text} AS {column}" for text, column in zip(fields, types, strict=True))
    table = f"{source}." if preposition == "in" else ""
    return ", ".join(f"CAST({table}id AS TEXT) AS id" if column == "id" else table + column for column in types)


def _read(text: str, hint: Any, dialect: str) -> str:
    """A field of a JSON array: SQLite keeps its type, PostgreSQL reads text."""
    is_number = dialect == "postgres" and int in (hint, *get_args(hint))
    return f"CAST({text} AS BIGINT)" if is_number else text


def _render(text: str, dialect: str) -> str:
    for token, word in _TOKENS[dialect].items():
        text = text.replace(token, word)
    return text


def _positional(text: str) -> tuple[str, tuple[str, ...]]:
    order: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match.group(1) not in order:
            order.append(match.group(1))
        return f"${order.index(match.group(1)) + 1}"

    return _PARAM.sub(number, text), tuple(order)
