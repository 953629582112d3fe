"""A type that a route's answer has in the OpenAPI document.

    @router.get("/jobs", response_model=documented(JobPage))

The answer itself goes out as it is: it is neither read through nor cut to the type at run time, so that a field that a
newer release adds takes no page from anybody. That it has the type is what the tests see to.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class Documents:
    """At run time the type that it annotates, `answer` in the document."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler(source)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(TypeAdapter(self._answer).core_schema)  # only the document asks: a start does not wait for it


def documented(answer: Any) -> Any:
    """For `response_model`: the document says `answer`."""
    return Annotated[Any, Documents(answer)]
