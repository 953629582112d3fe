"""What is not installed, and which extra brings it."""

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


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """One sentence for a module that an extra of Holdfast brings; None if none does."""
    module = missing_module(error)
    if module not in EXTRAS:
        return None
    return f"This needs the module '{module}', which is not installed: pip install 'holdfast[{EXTRAS[module]}]'."


def missing_module(error: ModuleNotFoundError) -> str:
    return (error.name or "").partition(".")[0]
