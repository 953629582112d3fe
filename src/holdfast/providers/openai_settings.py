"""Where an OpenAI-compatible endpoint is, and what it costs: one group, shared by every system that asks a model."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.settings import address_problems, setting


@dataclass(frozen=True, slots=True)
class OpenAISettings:
    """A model behind an endpoint. A system's own group extends this one and adds what only it needs."""

    openai_base_url: str | None = setting("OPENAI_BASE_URL", None, "OpenAI-compatible endpoint; unset: offline")
    openai_api_key: str | None = setting("OPENAI_API_KEY", None, "Key of that endpoint", secret=True)
    llm_model: str = setting("LLM_MODEL", "gpt-4o-mini", "The language model that is asked")
    llm_timeout_s: float = setting("LLM_TIMEOUT_SEC", 60.0, "One call of the model", minimum=0.01)
    llm_prompt_price: int = setting(
        "LLM_PROMPT_MICROS_PER_1K", 0, "Price of 1,000 prompt tokens, in millionths", minimum=0
    )
    llm_answer_price: int = setting(
        "LLM_ANSWER_MICROS_PER_1K", 0, "Price of 1,000 answer tokens, in millionths", minimum=0
    )

    def endpoint_problems(self) -> list[str]:
        """What is wrong although each value alone is fine."""
        found = address_problems("OPENAI_BASE_URL", self.openai_base_url)
        if self.openai_api_key and not self.openai_base_url:
            found.append("OPENAI_API_KEY is set without OPENAI_BASE_URL; everything would stay offline.")
        return found
