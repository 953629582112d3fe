"""Where somebody outside answers what a job waits for, with nothing but an address that was signed for it.

`ctx.callback_url(key)` makes the address. It opens this one wait, until it expires, and nothing else.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from holdfast.http.answers.acts import CallbackTaken
from holdfast.http.answers.documented import documented
from holdfast.http.guard import BODY_BYTES_MAX, allow_body
from holdfast.http.json_body import json_complaint
from holdfast.http.problem import Problem
from holdfast.kernel.compose.waiting import answer
from holdfast.kernel.kernel import Kernel

router = APIRouter(tags=["callbacks"])


@router.post("/api/callbacks/{queue}", status_code=202, response_model=documented(CallbackTaken))
async def take_callback(
    request: Request,
    queue: str,
    key: Annotated[str, Query(description="What the job waits for.")],
    expires: Annotated[int, Query(description="Until when the address is good, in milliseconds since the epoch.")],
    signature: Annotated[str, Query(description="Of the queue, the key and `expires`.", max_length=128)],
) -> dict[str, Any]:
    """The body, any JSON, is the answer. The first one stands; the same again is accepted and changes nothing."""
    kernel = _kernel_of(request, queue)
    if kernel is None or not kernel.callbacks.is_signed(queue, key, expires, signature):
        raise Problem(403, "FORBIDDEN", "The signature of this address does not fit.")
    if kernel.now() > expires:
        raise Problem(410, "CALLBACK_EXPIRED", "This address has expired; ask for a new one.")
    allow_body(request, BODY_BYTES_MAX)
    body = await request.body()
    if (complaint := json_complaint(body)) is not None:  # the guard has looked only where the type says JSON
        raise Problem(422, "INVALID_INPUT", f"The body {complaint}.", field="body")
    return {"delivered": await answer(kernel, key, body.decode("utf-8", "replace") or "null")}


def _kernel_of(request: Request, queue: str) -> Kernel | None:
    kernels: list[Kernel] = [one.kernel for one in request.app.state.systems]
    return next((kernel for kernel in kernels if queue in kernel.registry.queues), None)
