"""The Django app: it has no models; its tables are Holdfast's own, made by `manage.py holdfast migrate`."""

from __future__ import annotations

from django.apps import AppConfig


class HoldfastConfig(AppConfig):  # type: ignore[misc]
    name = "holdfast.contrib.django"
    label = "holdfast"
    verbose_name = "Holdfast"
