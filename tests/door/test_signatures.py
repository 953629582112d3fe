"""What every public name takes, and what it means where nothing is said: somebody relies on each default.

`signatures.txt` holds it. If what differs is as it should be, write it there with
`python -m tests.door.test_signatures`, and say so in the CHANGELOG."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import holdfast
import holdfast.testing

WRITTEN = Path(__file__).with_name("signatures.txt")


def signatures() -> Iterator[str]:
    for module in (holdfast, holdfast.testing):
        for name in sorted(getattr(module, "__all__", vars(module))):
            thing = getattr(module, name)
            if name[0] != "_" and getattr(thing, "__module__", "").startswith(module.__name__):
                yield from _of(f"{module.__name__}.{name}", thing)


def _of(name: str, thing: object) -> Iterator[str]:
    if inspect.isclass(thing) and not issubclass(thing, (dict, str, Enum)):
        yield from _of_one(name, thing)
        for part, value in sorted(vars(thing).items()):
            function = getattr(value, "__func__", value)
            if not part.startswith("_") and inspect.isfunction(function):
                yield from _of_one(f"{name}.{part}", function)
    elif callable(thing) and not inspect.isclass(thing):
        yield from _of_one(name, thing)


def _of_one(name: str, thing: object) -> Iterator[str]:
    """Its parameters with their defaults; types are the type checker's to keep."""
    try:
        parameters = inspect.signature(thing).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return
    plain = [
        each.replace(annotation=inspect.Parameter.empty) for each in parameters if each.name not in ("self", "cls")
    ]
    yield re.sub(r" at 0x[0-9a-f]+", "", f"{name}({', '.join(map(str, plain))})")


def test_what_is_public_takes_what_it_took() -> None:
    assert list(signatures()) == WRITTEN.read_text().splitlines()


if __name__ == "__main__":
    WRITTEN.write_text("\n".join(signatures()) + "\n")
