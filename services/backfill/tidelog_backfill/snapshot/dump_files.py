"""A dump's files, unpacked, and what is wrong with one: it is damaged, which stays so, or it can't
be read now, which may pass."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import pyarrow as pa
from pyarrow import fs

from tidelog.errors import Corrupt, NotFound, TidelogError, Unavailable
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.snapshot.dump_lines import HINT

_CODECS = {"gz": "gzip", "zst": "zstd", "bz2": "bz2", "lz4": "lz4"}
"""By the end of a file's name."""
_Typed = Callable[[str, Exception], TidelogError]


@contextmanager
def errors(where: str) -> Iterator[None]:
    """Of files, as ours."""
    try:
        yield
    except (pa.ArrowInvalid, *NOT_READABLE) as error:
        raise _damaged(where, error) from error
    except FileNotFoundError as error:
        raise NotFound(f"{where} is not there: {error}") from error
    except OSError as error:
        raise _unread(where, error) from error


def opened(files: fs.FileSystem, path: str, where: str) -> IO[bytes]:
    """To be closed. Use it within `errors`; `where` names the file in those."""
    stream = files.open_input_stream(path, compression=None)
    codec = _CODECS.get(path.rpartition(".")[2])
    if codec is None:
        return io.BufferedReader(_Read(stream, where, _unread))
    packed = pa.PythonFile(_Read(stream, where, _unread), mode="r")
    return io.BufferedReader(_Read(pa.CompressedInputStream(packed, codec), where, _damaged))


def _damaged(where: str, error: Exception) -> TidelogError:
    return Corrupt(f"{where}: {error}", hint=HINT)


def _unread(where: str, error: Exception) -> TidelogError:
    return Unavailable(f"{where} can't be read: {error}")


class _Read(io.RawIOBase):
    """Arrow raises the same for a file that it can't read, and for one that it can't unpack: each
    is typed where it is known."""

    def __init__(self, stream: pa.NativeFile, where: str, typed: _Typed) -> None:
        self._stream = stream
        self._where = where
        self._typed = typed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._stream.read(len(buffer))
        except OSError as error:
            raise self._typed(self._where, error) from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()
