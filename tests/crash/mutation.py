"""A mistake made in the code: an edit of one function's source."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from typing import Any, NamedTuple

NTH = "nth "
"""Before who it is of, instead of a scenario: caught where the n-th I/O call fails."""


class Mutation(NamedTuple):
    """`old`, which stands once in the source of `owner.function`, becomes `new`."""

    name: str
    scenario: str
    owner: Any
    function: str
    old: str
    new: str

    def apply(self) -> Any:
        """The function with the mistake in it. Raises LookupError if the edit does not fit."""
        right = vars(self.owner)[self.function]
        source = textwrap.dedent(inspect.getsource(right))
        if source.count(self.old) != 1:
            raise LookupError(f"{self.name}: the edit of {self.function} does not fit any more")
        code = compile(
            source.replace(self.old, self.new),
            f"<{self.name}>",
            "exec",
            flags=__future__.annotations.compiler_flag,
        )
        found: dict[str, Any] = {}
        exec(code, right.__globals__, found)
        return found[self.function]
