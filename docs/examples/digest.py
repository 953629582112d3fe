"""The README's quick start: a job with three stages, an LLM that may be down, and a mail that is sent once."""

from dataclasses import dataclass

from holdfast import App, Breaker, Context, Job, Provider, Retry, stage

OUTBOX: dict[str, str] = {}  # stands for a mail provider that honours idempotency tokens


@dataclass(frozen=True)
class Order:
    id: int
    email: str


@dataclass(frozen=True)
class Page:
    text: str


@dataclass(frozen=True)
class Summary:
    text: str


app = App("digest")
llm = Provider("llm", breaker=Breaker(window=20, open_above=0.5, cooldown_s=30, trials=3), per_minute=600)
mail = Provider("mail", effects="token")


@app.job(deadline_s=900)
class SendDigest(Job[Order]):
    @stage(retry=Retry(attempts=5, base_s=1, cap_s=60, jitter="full"), timeout_s=20)
    async def fetch(self, ctx: Context, order: Order) -> Page:
        return Page(text=f"what happened to order {order.id}")

    @stage(provider=llm, retry=Retry(attempts=5), timeout_s=120)
    async def summarise(self, ctx: Context, order: Order, page: Page) -> Summary:
        return await ctx.call(lambda: ask_llm(page.text))

    @stage(provider=mail)
    async def notify(self, ctx: Context, order: Order, summary: Summary) -> None:
        await ctx.effect(
            ("digest", order.id, order.email),
            send=lambda token: post_mail(order.email, summary.text, token),
        )


async def ask_llm(text: str) -> Summary:
    return Summary(text=text.upper())


async def post_mail(to: str, text: str, token: str) -> str:
    """Sending twice with one token is one mail, as the best mail providers promise."""
    OUTBOX.setdefault(token, f"{to}: {text}")
    return f"mail-{token[:8]}"
