"""The addresses of a broker: one URL, or several of a cluster, which are tried in turn.

amqp://user:password@a:5672/vhost,amqp://user:password@b:5672/vhost
amqp://user:password@a:5672,b:5672,c:5672/vhost        the same user, virtual host and options for all
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

SCHEMES = ("amqp", "amqps")
_SHORT = re.compile(r"^(?P<head>amqps?://(?:[^@/,;]*@)?)(?P<hosts>[^/?]+)(?P<tail>[/?].*)?$")


def split_addresses(text: str) -> list[str]:
    """Each address as a URL of its own. Raises `ValueError` with a sentence about what is wrong."""
    urls = [url for part in re.split(r"[,;]\s*(?=amqps?://)", text.strip()) for url in _each_host(part)]
    for url in urls:
        _check(url)
    return urls


def _each_host(text: str) -> list[str]:
    short = _SHORT.match(text.rstrip(",;"))
    if short is None:
        return [text]
    hosts = re.split(r"[,;]\s*", short["hosts"])
    return [f"{short['head']}{host}{short['tail'] or ''}" for host in hosts]


def _check(url: str) -> None:
    if urlsplit(url).scheme not in SCHEMES:
        raise ValueError("must start with amqp:// or amqps://")
    try:
        is_fine = bool(urlsplit(url).hostname) and (urlsplit(url).port or 1) > 0
    except ValueError:
        is_fine = False
    if not is_fine:
        raise ValueError(
            "must name hosts and ports, as in amqp://user:password@host:5672/vhost; several addresses have commas "
            "between them"
        )
