"""`manage.py order 17`: what a view would do."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import connection, transaction

from holdfast import enqueue
from shop.jobs import PlaceOrder


class Command(BaseCommand):
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("number", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            enqueue(connection, PlaceOrder, options["number"])
