"""`manage.py visit`: who is let into the console, and what the admin shows, over ASGI."""

import asyncio
from typing import Any

import httpx
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand
from django.test import Client


class Command(BaseCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        User.objects.create_user("bob", password="b")
        User.objects.create_superuser("ann", password="a")
        cookies = {name: self.sign_in(name) for name in ("bob", "ann")}
        asyncio.run(self.visit(cookies))

    def sign_in(self, name: str) -> str:
        client = Client()
        client.force_login(User.objects.get(username=name))
        return str(client.cookies["sessionid"].value)

    async def visit(self, cookies: dict[str, str]) -> None:
        from site_asgi import application, jobs

        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:

            async def ask(path: str, user: str | None) -> httpx.Response:
                headers = {} if user is None else {"Cookie": f"sessionid={cookies[user]}"}
                return await client.get(path, headers=headers)

            statuses = [(await ask("/jobs/api/ops/jobs", user)).status_code for user in (None, "bob", "ann")]
            admin = await ask("/admin/", "ann")
            link = "admin-links-to" if 'href="/jobs/"' in admin.text else "no-link"
            session = (await ask("/jobs/api/session", "ann")).json()
            print(*statuses, link, "/jobs/", session["sub"], admin.status_code)
        await jobs.close()
