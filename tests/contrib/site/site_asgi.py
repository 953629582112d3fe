"""Django, with the console beside it."""

from django.core.asgi import get_asgi_application
from starlette.applications import Starlette
from starlette.routing import Mount

django_application = get_asgi_application()

from shop.jobs import app  # noqa: E402

from holdfast import console  # noqa: E402
from holdfast.contrib.django import database_url, staff_guard  # noqa: E402

jobs = console(app, guard=staff_guard, database=database_url())
application = Starlette(routes=[Mount("/jobs", jobs), Mount("/", django_application)])
