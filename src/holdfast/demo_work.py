"""What the demo works on: essays, PDFs and a git repository made on the spot, and an app whose provider can be switched
off. Nothing here reaches a network."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast import App, Breaker, CallError, Category, Context, HoldfastError, Job, Provider, Retry, stage

DESK = "postcards"
TRANSLATOR = "translator"
CALL_S = 0.08

ESSAYS = (
    "Many people say that working from home is better than working in an office. I agree, because it saves time and "
    "money. However, some workers feel lonely when they do not meet their colleagues. In my opinion, the best solution "
    "is a mixture of both: people could work at home for three days and meet in the office for two.",
    "Last summer I goed to the sea with my family. We was very happy because the weather were good. In the evening we "
    "eat fish in small restaurant and my brother play guitar. I want to go there again in next year.",
    "Although public transport is frequently criticised for its delays, it remains indispensable to any city that "
    "takes its climate commitments seriously. Investment in rail not only reduces congestion but also widens access to "
    "employment, particularly for those who can neither afford nor drive a car.",
)

PAPERS = (
    ("tides.pdf", "On Tides", ["The moon pulls the sea towards it.", "Twice a day the water rises and falls."]),
    ("knots.pdf", "On Knots", ["A bowline holds under load.", "It unties with ease when the load is gone."]),
)

BEFORE = "def total(prices):\n    return sum(prices)\n"
AFTER = """import os


def total(prices, discounts=[]):
    result = 0
    for price in prices:
        result += price
    for discount in discounts:
        result -= discount
    return result


def average(prices):
    try:
        return total(prices) / len(prices)
    except:
        return None
"""


@dataclass(frozen=True)
class Postcard:
    number: int
    language: str


@dataclass(frozen=True)
class Translated:
    text: str


@dataclass
class Translator:
    """A provider in this process: it goes down at its `falls_at`-th call, and it knows only some languages."""

    falls_at: int
    up: bool = True
    languages: set[str] = field(default_factory=lambda: {"Danish", "Finnish"})
    calls: int = 0

    async def translate(self, card: Postcard) -> Translated:
        self.calls += 1
        if self.calls == self.falls_at:
            self.up = False
        well = self.up
        await asyncio.sleep(CALL_S)
        if not well:
            raise CallError.of(Category.NETWORK, "UPSTREAM_UNAVAILABLE", "503 from the translator", faults=True)
        if card.language not in self.languages:
            raise CallError.of(Category.VALIDATION, "LANGUAGE_UNKNOWN", f"There is no dictionary for {card.language}.")
        return Translated(f"greetings number {card.number} in {card.language}")


@dataclass(frozen=True)
class Desk:
    """The demo's own app, its job, the provider that fails, and what the post office has taken."""

    app: App
    job: type[Job[Postcard]]
    translator: Translator
    posted: dict[str, str]


def build_desk(falls_at: int) -> Desk:
    """Two stages: translate a card (by a provider that fails), post it (an effect that happens once)."""
    app, translator, posted = App(DESK), Translator(falls_at), dict[str, str]()
    outside = Provider(TRANSLATOR, breaker=Breaker(window=8, min_calls=4, open_above=0.5, cooldown_s=2.5, trials=2))
    post_office = Provider("post-office", effects="token")

    @app.job(deadline_s=300)
    class SendCard(Job[Postcard]):
        @stage(provider=outside, retry=Retry(attempts=4, base_s=0.3, cap_s=1.0), timeout_s=5)
        async def translate(self, ctx: Context, card: Postcard) -> Translated:
            return await ctx.call(lambda: translator.translate(card))

        @stage(provider=post_office, timeout_s=5)
        async def post(self, ctx: Context, card: Postcard, translated: Translated) -> None:
            async def send(token: str) -> str:
                posted.setdefault(token, translated.text)
                return f"card-{token[:8]}"

            await ctx.effect(("card", card.number), send=send)

    return Desk(app, SendCard, translator, posted)


def cards(count: int) -> list[Postcard]:
    """The last card is in a language that the translator does not know yet."""
    known = [Postcard(number, ("Danish", "Finnish")[number % 2]) for number in range(1, count)]
    return [*known, Postcard(count, "Welsh")]


def pdf(title: str, lines: Sequence[str]) -> bytes:
    """A valid PDF of one page."""
    text = "".join(f"0 -22 Td ({line}) Tj " for line in lines)
    drawn = f"BT /F1 20 Tf 60 740 Td ({title}) Tj /F1 12 Tf {text}ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(drawn), drawn),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%s endobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (count, len(body))
    return body + b"xref\n0 %d\n0000000000 65535 f \n" % count + table + end


def make_repository(folder: Path) -> None:
    """A repository of two commits; HEAD~1..HEAD is worth a remark or two."""
    folder.mkdir()
    _git(folder, "init", "--quiet")
    for content, message in ((BEFORE, "Add up prices"), (AFTER, "Subtract discounts")):
        (folder / "prices.py").write_text(content)
        _git(folder, "add", "prices.py")
        _git(folder, "commit", "--quiet", "--no-gpg-sign", "--no-verify", "-m", message)


def _git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=Demo", "-c", "user.email=demo@localhost", "-c", "core.hooksPath=/dev/null")
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HoldfastError(f"git {words[0]} failed: {done.stderr.strip()}")
