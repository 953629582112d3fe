"""The instance of a job's class: one for all of its jobs, in every thread of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import BadDeclaration


class SharedInstance:
    """Refuses attributes that a stage sets, once the instance is declared: another job, or nobody, would see them."""

    if not TYPE_CHECKING:  # a type checker that sees it would take any attribute

        def __setattr__(self, name: str, value: object) -> None:
            if "_holdfast_shared" in vars(self) and not name.startswith("_"):
                raise BadDeclaration(
                    f"'{type(self).__name__}' sets self.{name}, but all jobs of a class share one instance, and the "
                    f"next stage may run elsewhere: return it from the stage. What is no job's own may be self._{name}."
                )
            object.__setattr__(self, name, value)
