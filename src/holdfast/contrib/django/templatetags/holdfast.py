"""`{% holdfast_console_url %}`: where the project has mounted the console."""

from __future__ import annotations

from django import template

from holdfast.contrib.django import project_settings

register = template.Library()


@register.simple_tag  # type: ignore[untyped-decorator]
def holdfast_console_url() -> str:
    """The address of HOLDFAST['CONSOLE_URL']; empty if there is none."""
    return project_settings().get("CONSOLE_URL", "")
