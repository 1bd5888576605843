"""Typed errors on their way from a task to the driver: Spark carries a traceback's text only.

with errors_carried():          # in the task
    ...                         # raises Corrupt
...
except (PySparkException, Py4JError) as error:      # in the driver
    raise carried(error) or unexpected(error) from error
"""

from __future__ import annotations

import base64
import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from tidelog.bulk.told import Failed
from tidelog.errors import DiskFull, IoFailed, Stopped, TidelogError, Unavailable

_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_OF_JVM = re.compile(r"^: (.+)", re.MULTILINE)
"""What Py4J puts before it says nothing."""
_CARRIED = re.compile(r"<tidelog-error ([A-Za-z0-9+/=]+)>")


class TaskFailed(Exception):
    """Its text holds a typed error, whole, among whatever Spark puts around it."""

    def __init__(self, error: TidelogError) -> None:
        packed = base64.b64encode(msgspec.json.encode(Failed.of(error))).decode()
        super().__init__(f"{error} <tidelog-error {packed}>")


@contextmanager
def errors_carried() -> Iterator[None]:
    """Around what a task does. It is no function's decorator: that of a generator ends too soon."""
    try:
        yield
    except TidelogError as error:
        raise TaskFailed(error) from error
    except OSError as error:
        raise TaskFailed(of_system(error)) from error


def of_system(error: OSError) -> TidelogError:
    """A disk's fault, or one of the way to another machine, which may pass: an object store's have
    no number."""
    why = str(error) or type(error).__name__
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(why, hint="free space where the job writes, and give it again: it goes on")
    if error.errno is None or isinstance(error, ConnectionError | TimeoutError):
        return Unavailable(why)
    return IoFailed(why, hint="see to it, and give the job again: it goes on")


def unexpected(error: BaseException) -> TidelogError:
    """Of a job of Spark's that no typed error has ended, in a sentence. What our own code raises it
    would raise again; all else may pass: an executor that is lost, a worker without memory."""
    text = str(error).strip()
    raised = _RAISED.search(text)
    if raised is not None:
        return Stopped(f"a task failed by {raised[1]}", hint="the log has its traceback: report it")
    by_jvm = _OF_JVM.search(text)
    why = by_jvm[1] if by_jvm is not None else text.partition("\n")[0]
    return Unavailable(f"Spark could not do it: {why.strip()}")


def carried(error: BaseException) -> TidelogError | None:
    """The typed error that a task ended by, if this one came of it."""
    found = _CARRIED.search(str(error))
    if found is None:
        return None
    return msgspec.json.decode(base64.b64decode(found[1]), type=Failed).error()
