"""Keeps credentials apart from the work they belong to: encrypted in a table of their own, a reference in the input.

    input --prepare--> hidden addresses (in the job's row)  +  sealed ones (holdfast_secrets)
                               \\--attempt--> opened for the handler, and for nobody else
    the job succeeds or is cancelled, its case is resolved, its row is forgotten --> erased

A kind names the fields of its input that are addresses (`@app.job(seals=("source.url",))`). What is sealed is the whole
text, and it is opened only where it was hidden: the reference of one job opens nothing of another's. Without a key an
address with a password is refused, and what else is hidden lies apart, but in the clear.

Why so: docs/decisions/0027-credentials-of-addresses.md
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.address import carries_password, hide, sealed_number
from holdfast.errors import InvalidInput, SettingsError
from holdfast.stores.seam import Tx
from holdfast.tables import secrets
from holdfast.tables.secrets import NewSecret

CLEAR, CIPHER = "clear:", "fernet:"


class KeyMissing(Exception):
    """A secret was sealed under a key that this process was not given; another one may have it."""


@dataclass
class Sealer:
    """Seals and opens texts. The first key seals and every key opens, so that a key is changed by putting the new one
    behind the old, then in front, and taking the old one away when what it sealed has ended."""

    keys: tuple[str, ...] = ()

    def seal(self, text: str) -> str:
        return CIPHER + _ciphers(self.keys)[0].encrypt(text.encode()).decode() if self.keys else CLEAR + text

    def open(self, sealed: str) -> str:
        if sealed.startswith(CLEAR):
            return sealed.removeprefix(CLEAR)
        from cryptography.fernet import InvalidToken

        for cipher in _ciphers(self.keys):
            try:
                opened: bytes = cipher.decrypt(sealed.removeprefix(CIPHER).encode())
                return opened.decode()
            except InvalidToken:
                continue
        raise KeyMissing("it was sealed under a key that HOLDFAST_SECRETS_KEYS does not hold here")

    def seal_address(self, text: str, number: int, name: str) -> tuple[str, NewSecret | None]:
        """What may be stored and shown of the text, and the sealed rest, if there is anything to hide."""
        hidden = hide(text, number)
        if hidden is None:
            return text, None
        if not self.keys and carries_password(text):
            raise InvalidInput(
                f"{name}: an address with credentials is taken only where HOLDFAST_SECRETS_KEYS is set, for it would "
                "be stored unencrypted."
            )
        return hidden, NewSecret(number, self.seal(text))

    def open_address(self, text: str, sealed: Mapping[int, str], name: str) -> str:
        """The whole text that was hidden as `text`; itself if nothing was."""
        number = sealed_number(text)
        if number is None:
            return text
        whole = self.open(sealed[number]) if number in sealed else None
        if whole is None or hide(whole, number) != text:
            raise InvalidInput(
                f"{name}: the credentials of this address are erased; give it again, as a correction or a new job."
            )
        return whole

    def open_message(self, body: str, sealed: Mapping[int, str]) -> str:
        """A JSON text in which every hidden address that is a value of its own is whole again."""
        for number, text in sealed.items():
            whole = self.open(text)
            hidden = hide(whole, number)
            if hidden is not None:
                body = body.replace(json.dumps(hidden), json.dumps(whole))
        return body


def _ciphers(keys: Sequence[str]) -> list[Any]:
    try:
        from cryptography.fernet import Fernet
    except ModuleNotFoundError:
        raise SettingsError(
            ["HOLDFAST_SECRETS_KEYS needs the package cryptography: pip install 'holdfast[http]'."]
        ) from None
    digests = [hashlib.sha256(f"holdfast secrets\n{key}".encode()).digest() for key in keys]
    return [Fernet(base64.urlsafe_b64encode(digest)) for digest in digests]


def seal_input(
    sealer: Sealer, paths: Sequence[str], payload: str, *, first: int = 1, kept: str | None = None
) -> tuple[str, tuple[NewSecret, ...]]:
    """An input as it may be stored, and what was taken out of it. What stands in the stored input `kept` at the same
    place was hidden before, and stays."""
    tree = json.loads(payload)
    before = json.loads(kept) if kept is not None else None
    sealed: list[NewSecret] = []
    for path in paths:
        place, name = _place(tree, path)
        if place is None or not isinstance(place[name], str) or _is_kept(before, path, place[name]):
            continue
        place[name], secret = sealer.seal_address(place[name], first + len(sealed), path)
        sealed += [secret] if secret is not None else []
    return (json.dumps(tree, ensure_ascii=False, separators=(",", ":")) if sealed else payload), tuple(sealed)


def open_input(sealer: Sealer, paths: Sequence[str], payload: str, sealed: Mapping[int, str]) -> str:
    """A stored input with its addresses whole again, for the handler."""
    tree = json.loads(payload)
    for path in paths:
        place, name = _place(tree, path)
        if place is not None and isinstance(place[name], str):
            place[name] = sealer.open_address(place[name], sealed, path)
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


def _is_kept(before: Any, path: str, text: str) -> bool:
    place, name = _place(before, path)
    return place is not None and place[name] == text and sealed_number(text) is not None


def _place(tree: Any, path: str) -> tuple[dict[str, Any] | None, str]:
    *outer, name = path.split(".")
    for part in outer:
        tree = tree.get(part) if isinstance(tree, dict) else None
    return (tree, name) if isinstance(tree, dict) and name in tree else (None, name)


async def open_own(sealer: Sealer, tx: Tx, owner: str, text: str, name: str) -> str:
    """A hidden address of an app's own row, whole again. `owner` is the job or the row that it was sealed for."""
    if sealed_number(text) is None:
        return text
    return sealer.open_address(text, (await secrets.of_owners(tx, [owner])).get(owner, {}), name)
