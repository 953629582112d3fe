"""`manage.py holdfast ...`: every command of `holdfast`, on the project's app and database."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from holdfast.contrib.django import database_url, project_settings


class Command(BaseCommand):  # type: ignore[misc]
    help = "Run a command of Holdfast (worker, migrate, jobs list, ...) on this project's app and database."

    def run_from_argv(self, argv: list[str]) -> None:
        """Everything after the name belongs to Holdfast, options included."""
        self.execute(*argv[2:], no_color=False, force_color=False, skip_checks=True)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser: CommandParser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.add_argument("args", nargs="*")
        return parser

    def handle(self, *args: str, **options: object) -> None:
        given = project_settings()
        os.environ["DATABASE_URL"] = database_url()
        if "APP" in given:
            os.environ.setdefault("HOLDFAST_APP", given["APP"])
        from holdfast.__main__ import main

        sys.argv = ["holdfast", *args]
        main()
