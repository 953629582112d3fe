"""What is not installed, and which extra or distribution brings it."""

from __future__ import annotations

EXTRAS = {
    "aio_pika": "rabbitmq",
    "asyncpg": "postgres",
    "celery": "celery",
    "fastapi": "http",
    "httpx": "http",
    "jinja2": "http",
    "jwt": "http",
    "multipart": "http",
    "opentelemetry": "tracing",
    "prometheus_client": "http",
    "sse_starlette": "http",
    "starlette": "http",
    "httptools": "http",
    "uvicorn": "http",
}
PROOF = "holdfast_proof"
"""The simulator, the demo and the benchmark: a distribution of their own, which no process in production needs."""


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """One sentence for a module that an extra of Holdfast, or its proof, brings; None if none does."""
    module = missing_module(error)
    if module == PROOF:
        return "This command is part of holdfast-proof, which is not installed: pip install holdfast-proof."
    if module not in EXTRAS:
        return None
    return f"This needs the module '{module}', which is not installed: pip install 'holdfast[{EXTRAS[module]}]'."


def missing_module(error: ModuleNotFoundError) -> str:
    return (error.name or "").partition(".")[0]
