"""What is wrong with an address in a setting, in sentences. Nobody reads one before it was asked about here."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

WEB = ("http", "https")


def address_problems(name: str, url: str | None, schemes: Sequence[str] = WEB) -> list[str]:
    """Nothing where it is unset, or can be tried: a scheme of these, a host, and a port that there can be."""
    if not url:
        return []
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return [f"{name} is no address: its host or its port cannot be read."]
    if parts.scheme not in schemes:
        return [f"{name} must start with {' or '.join(f'{scheme}://' for scheme in schemes)}."]
    return [] if host else [f"{name} names no host."]
