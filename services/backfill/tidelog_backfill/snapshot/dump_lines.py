"""A dump file's lines, and the one error that names file and line. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.errors import Corrupt

HINT = "dump the table once more, or mend the file; no row of it is passed by"


class Lines:
    """Iterate over the lines that rows begin with; `number` is the one that was given last."""

    def __init__(self, lines: Iterable[str], name: str) -> None:
        self._lines = iter(lines)
        self._name = name
        self._read = 0
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        while line := self.next():
            yield line

    def next(self) -> str:
        """The line behind, that other rows may begin with; empty at the file's end."""
        line = self.more()
        self.number = self._read
        return line

    def more(self) -> str:
        """The line behind, of the same row; empty at the file's end."""
        line = next(self._lines, "")
        self._read += bool(line)
        return line

    def unreadable(self, at: int) -> Corrupt:
        """From a character (from 0) of the line that was read last."""
        return self._corrupt(self._read, f"can't be read from character {at + 1} on")

    def corrupt(self, what: str) -> Corrupt:
        """What is wrong with the line that was given last."""
        return self._corrupt(self.number, what)

    def _corrupt(self, number: int, what: str) -> Corrupt:
        return Corrupt(f"{self._name}: line {number} {what}", hint=HINT)
