"""Who is asking, whoever has vouched for them: a token, a ticket, or the application that the console is mounted in."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

SUB_LENGTH_MAX = 255


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. `sub` is the name under which what they do is audited."""

    sub: str
    roles: AbstractSet[str]

    def __post_init__(self) -> None:
        if not isinstance(self.roles, AbstractSet):
            raise TypeError(f"The roles of a Principal are a set, as {{'operator'}}, not {self.roles!r}.")

    def may(self, *roles: str) -> bool:
        """True with any of these roles; with none named, any caller may."""
        return not roles or not self.roles.isdisjoint(roles)


def is_name(sub: object) -> bool:
    """Whether this may name a caller. Control and formatting characters and lone surrogates may not: names with them
    are taken for other names."""
    return isinstance(sub, str) and 0 < len(sub) <= SUB_LENGTH_MAX and sub.isprintable() and bool(sub.strip())
