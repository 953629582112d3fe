"""Traces, by OpenTelemetry's API: one trace from the HTTP request through outbox, broker, worker and provider.

The context travels as a W3C `traceparent`: in the job's row and in a message's headers; FastAPI reads a request's by
itself. Without the `tracing` extra, or without a tracer provider set up by the program, everything here does nothing
and costs next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

try:
    from opentelemetry import trace as otel
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:  # the extra is not installed
    otel = None  # type: ignore[assignment]

HEADER = "traceparent"
NO_SPAN = nullcontext()
_UNSET = "OTEL_PYTHON_TRACER_PROVIDER" not in os.environ


def tracing() -> bool:
    """Whether the program has set up a tracer provider. Asked for every job, so the quick answer comes first: the
    public question looks into the environment each time (1 us)."""
    if otel is None or (_UNSET and getattr(otel, "_TRACER_PROVIDER", otel) is None):
        return False
    return not isinstance(otel.get_tracer_provider(), otel.ProxyTracerProvider)


def traceparent() -> str | None:
    """The present span, as it travels; None if there is none."""
    if not tracing():
        return None
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(HEADER)


def trace_headers() -> dict[str, str]:
    """Headers that let a message's receiver go on with this trace."""
    parent = traceparent()
    return {} if parent is None else {HEADER: parent}


def span(
    name: str, parent: str | None = None, attributes: Mapping[str, str | int] | None = None
) -> AbstractContextManager[None]:
    """A span around a block; under `parent`, if one is given and readable, else under the present one."""
    return _span(name, parent, attributes or {}) if tracing() else NO_SPAN


@contextmanager
def _span(name: str, parent: str | None, attributes: Mapping[str, str | int]) -> Iterator[None]:
    context = TraceContextTextMapPropagator().extract({HEADER: parent}) if parent else None
    # What an exception says may be a secret, so a span is told its type alone.
    tracer = otel.get_tracer("holdfast")
    with tracer.start_as_current_span(
        name, context=context, attributes=dict(attributes), record_exception=False, set_status_on_exception=False
    ) as present:
        try:
            yield
        except Exception as error:
            present.set_status(otel.StatusCode.ERROR, type(error).__name__)
            raise
