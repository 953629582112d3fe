"""The one gate outwards: every address that a user gave passes here before anything connects to it.

    text --read strictly--> parts --resolved once--> addresses --each one public--> Destination, pinned
             |                          |                          |
      ADDRESS_REFUSED          ADDRESS_UNRESOLVED           ADDRESS_REFUSED

It fails closed: what it cannot read or resolve is refused, never passed on for another program to read in its own way.
Whoever connects does so to `Destination.addresses` and to nothing else, so that a name which resolves differently a
moment later changes nothing; and hands on `Destination.url`, which is written anew from the parts that were read. The
messages name the host only, for the rest of an address may be a password, and never what answered there.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

import idna

from holdfast.core.failure import Category
from holdfast.errors import CallError

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

URL_LENGTH_MAX = 4_096
PORTS = {"http": 80, "https": 443, "ssh": 22}

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>[/?#].*)?")
_AUTHORITY = re.compile(r"(?:(?P<userinfo>[^@]*)@)?(?P<host>\[[^\[\]@]*\]|[^\[\]@:]*)(?::(?P<port>[^:@]*))?")
_UNFIT = re.compile(r"[\x00-\x20\x7f\\\"<>^`{|}]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_USERINFO = re.compile(r"(?:[A-Za-z0-9._~!$&'*+,;=:()-]|%[0-9A-Fa-f]{2})*")


@dataclass(frozen=True, slots=True)
class AddressRules:
    """Where one may go. `private_hosts` are names or addresses that may be private; `any_private`: all may."""

    schemes: frozenset[str] = frozenset({"http", "https"})
    private_hosts: frozenset[str] = frozenset()
    any_private: bool = False
    userinfo: bool = False


@dataclass(frozen=True, slots=True)
class Location:
    """An address that was read, and not looked up yet. `host` is in its ASCII form, small, without a last dot."""

    scheme: str
    host: str
    port: int
    rest: str
    userinfo: str | None = None

    @property
    def netloc(self) -> str:
        """Host and port as they stand in a URL and in a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if PORTS.get(self.scheme) == self.port else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address written anew, without user info and fragment."""
        return f"{self.scheme}://{self.netloc}{self.rest}"


@dataclass(frozen=True, slots=True)
class Destination:
    """A location that one may connect to, at these addresses only."""

    location: Location
    addresses: tuple[str, ...]


async def find_way(text: str, rules: AddressRules, *, resolver: Resolver | None = None) -> Destination:
    """Where `text` leads, looked up once and checked. Raises CallError: ADDRESS_REFUSED, ADDRESS_UNRESOLVED."""
    location = read_location(text, rules)
    if _is_local_name(location.host) and not _may_be_private(location.host, rules):
        raise _not_public(location.host)
    addresses = await _look_up(location, resolver or resolve)
    # One private address condemns the host: which of them is dialled must never be a matter of luck.
    if not _may_be_private(location.host, rules) and not all(is_public(address) for address in addresses):
        raise _not_public(location.host)
    return Destination(location, addresses)


def read_location(text: str, rules: AddressRules) -> Location:
    """The parts of an address, read strictly: what two programs could read in two ways is refused."""
    if len(text) > URL_LENGTH_MAX:
        raise refused(f"it has more than {URL_LENGTH_MAX} characters")
    if _UNFIT.search(text):
        raise refused("it holds characters that have no place in a URL; percent-encode them")
    whole = _URL.fullmatch(text)
    if whole is None:
        raise refused("it is not a URL such as https://host/path")
    scheme = whole["scheme"].lower()
    if scheme not in rules.schemes:
        raise refused(f"its scheme is not one of {', '.join(sorted(rules.schemes))}")
    parts = _AUTHORITY.fullmatch(whole["authority"])
    if parts is None:
        raise refused("its host cannot be read")
    if parts["userinfo"] is not None and not (rules.userinfo and _USERINFO.fullmatch(parts["userinfo"])):
        raise refused(
            "it carries credentials that are not taken here" if not rules.userinfo else "its user is unreadable"
        )
    rest = (whole["rest"] or "").partition("#")[0]
    rest = rest if rest.startswith("/") else f"/{rest}"
    if not rest.isascii():
        raise refused("its path has characters that are not ASCII; percent-encode them")
    return Location(scheme, _host(parts["host"]), _port(parts["port"], scheme), rest, parts["userinfo"])


def path_in(text: str) -> str:
    """The path of what a user gave as an address, for its name or its ending; empty where it has none. It refuses
    nothing: that is for whoever fetches it."""
    try:
        return urlsplit(text).path
    except ValueError:
        return ""


def _host(text: str) -> str:
    if text.startswith("["):
        return _bracketed(text[1:-1])
    if "%" in text:
        raise refused("its host is percent-encoded; write it plainly")
    name = text.lower() if text.isascii() else _in_ascii(text)
    name = name.removesuffix(".")
    labels = name.split(".")
    if not name or len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise refused("its host is neither a name nor an address")
    if labels[-1].isdigit() or re.fullmatch(r"0x[0-9a-f]*", labels[-1]):
        return _dotted(name)
    if any(label.startswith("xn--") for label in labels):
        _check_encoded(name)
    return name


def _bracketed(text: str) -> str:
    try:
        if "%" in text:
            raise ValueError
        return str(IPv6Address(text))
    except ValueError:
        raise refused("what stands in its brackets is no IPv6 address without a zone") from None


def _dotted(name: str) -> str:
    """A numeric host, in the one spelling that everybody reads alike: four decimal numbers."""
    try:
        return str(IPv4Address(name))
    except ValueError:
        raise refused("its host is a number that is no plain IPv4 address; write it as 192.0.2.1") from None


def _in_ascii(text: str) -> str:
    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise refused("its host is not a name that can be looked up") from None


def _check_encoded(name: str) -> None:
    """An encoded name must be readable: what one program decodes, and another cannot, is refused."""
    try:
        idna.decode(name)
    except (idna.IDNAError, UnicodeError):
        raise refused("its host is not a name that can be looked up") from None


def _port(text: str | None, scheme: str) -> int:
    if text is None and scheme in PORTS:
        return PORTS[scheme]
    if text is None or not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65_535:
        raise refused("its port is not a number from 1 to 65535")
    return int(text)


async def _look_up(location: Location, resolver: Resolver) -> tuple[str, ...]:
    try:
        return (str(ip_address(location.host)),)
    except ValueError:
        pass
    try:
        found = await resolver(location.host, location.port)
    except (OSError, UnicodeError):
        found = ()
    if not found:
        message = f"The host '{location.host}' cannot be resolved now; nothing was fetched."
        raise CallError.of(Category.NETWORK, "ADDRESS_UNRESOLVED", message)
    return tuple(dict.fromkeys(address.partition("%")[0] for address in found))


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of `host`, from the system's resolver, in its order."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def _may_be_private(host: str, rules: AddressRules) -> bool:
    return rules.any_private or host in {_named(name) for name in rules.private_hosts}


def _named(name: str) -> str:
    """A host of the settings in the form in which hosts are compared here."""
    bare = name.strip().strip("[]").lower().removesuffix(".")
    try:
        return str(ip_address(bare))
    except ValueError:
        return bare


def _is_local_name(host: str) -> bool:
    """Names that some resolvers answer by themselves, whatever ours says."""
    return host == "localhost" or host.endswith((".localhost", ".localdomain", ".local", ".internal"))


_NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        # Public by number, but answered by the hypervisor of one cloud.
        "168.63.129.16/32",
        # Teredo, ORCHID, documentation, 6to4, segment routing: inside 2000::/3 but no public host.
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)
_GLOBAL_UNICAST = ip_network("2000::/3")
_NAT64 = ip_network("64:ff9b::/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet. Forms that wrap an IPv4 address answer for it."""
    try:
        known = ip_address(address.split("%", 1)[0])
    except ValueError:
        return False
    if isinstance(known, IPv6Address):
        if known.ipv4_mapped is not None:
            return is_public(str(known.ipv4_mapped))
        wrapped = IPv4Address(int(known) & 0xFFFF_FFFF)
        if known in _NAT64:
            return is_public(str(wrapped))
        if int(known) >> 32 & 0xFFFF_FFFF in _ISATAP and not is_public(str(wrapped)):
            return False
        if known not in _GLOBAL_UNICAST:
            return False
    return known.is_global and not any(known in network for network in _NOT_PUBLIC)


def _not_public(host: str) -> CallError:
    return refused(f"the host '{host}' is not on the public internet; use a public one")


def refused(reason: str) -> CallError:
    return CallError.of(Category.POLICY, "ADDRESS_REFUSED", f"The address was refused: {reason}. Nothing was fetched.")
