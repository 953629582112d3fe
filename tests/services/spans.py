"""The spans that OpenTelemetry finishes, kept for a test to read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


@contextmanager
def keeping_spans() -> Iterator[InMemorySpanExporter]:
    """Keep them until the block ends. OpenTelemetry takes one provider a process for good: a later test adds to it."""
    kept = InMemorySpanExporter()
    present = trace.get_tracer_provider()
    provider = present if isinstance(present, TracerProvider) else TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    if provider is not present:
        trace.set_tracer_provider(provider)
    yield kept
    kept.shutdown()
