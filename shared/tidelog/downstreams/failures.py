"""What a MySQL-speaking server's error numbers mean for us: the one table of them. Pure.

Only the number decides, never the text, which is in the server's language. The numbers are those of
MySQL, MariaDB and TiDB; where two of them gave one number two meanings, the milder course is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec


class Course(Enum):
    """What is done about a failure."""

    RETRY = "retry"
    """It passes by itself, or when somebody mends the server: connect anew and try until it works.
    Nothing of the failed transaction is there."""
    STOP = "stop"
    """Our account or the connection's settings are wrong. At the start the process ends with it;
    later it is tried again, because what was taken away may be given back."""
    POLICY = "skip-by-policy"
    """The server works and refuses this statement: `on-refused` says whether to stop at it or to
    skip the row."""


class Failure(msgspec.Struct, frozen=True):
    """`hint` tells an operator what to do; `about_data`: it is about a value, not a definition."""

    course: Course
    hint: str
    about_data: bool = False


_Table = dict[int, Failure]


def _of(course: Course, hint: str, codes: Iterable[int], *, data: bool = False) -> _Table:
    return dict.fromkeys(codes, Failure(course, hint, data))


_R, _S, _P = Course.RETRY, Course.STOP, Course.POLICY
OURS_FROM: Final = 1000
"""Below are the operating system's errors and the server's own of reading and writing files."""
PACKET_TOO_LARGE: Final = 1153
TOO_MUCH_AT_ONCE: Final = (1197, 8001, 8004, 8175)
"""The transaction is refused for its size, at whatever row it got there: no row is to blame."""
CLIENT: Final = range(2000, 2100)
"""The driver's numbers, for what it met on the way to the server."""

UNREACHABLE: Final = Failure(_R, "is the downstream running, and is its URL right?")
SERVER_FILES: Final = Failure(_R, "see the downstream's error log: it could not use a file")
REFUSED: Final = Failure(
    _P, "mend the downstream table, then start the Applier again; or set on-refused to skip"
)
TLS: Final = Failure(
    _S,
    "tls_ca of the downstream URL must be who signed the server's certificate, and that must name"
    " the host of the URL; tls=off goes without TLS",
)

TABLE: Final[_Table] = {
    # Who we are.
    **_of(
        _S,
        "check user and password of the downstream URL. A server that wants TLS or a"
        " certificate says the same: then add ?tls=on and tls_ca=FILE, or tls_cert=FILE",
        (1045, 1698),
    ),
    **_of(
        _S,
        "give the downstream's account rights to read and change the feed's tables and to create"
        " `tidb_binlog`: GRANT ALL ON *.*, or of these databases only",
        (1044, 1142, 1143, 1227, 1370, 8121),
    ),
    **_of(_S, "let the downstream's account in from this host: 'USER'@'%'", (1130,)),
    **_of(_S, "unlock the account, or give it a new password", (1820, 1862, 3118, 4151)),
    **_of(
        _S,
        "let the account log in by mysql_native_password, or by caching_sha2_password over TLS",
        (1251, 1275, 1524, 2049, 2054, 2059, 2061),
    ),
    **_of(_S, "the server wants TLS: add ?tls=on (and tls_ca=FILE) to the downstream URL", (3159,)),
    2026: TLS,
    # Not now.
    **_of(_R, "end its read_only, or name a writable server", (1223, 1290, 1792, 1836, 3032)),
    **_of(_R, "raise max_connections of the downstream, or of its account", (1040, 1203, 1226)),
    **_of(_R, "FLUSH HOSTS on the downstream, which counted failed connections", (1129,)),
    **_of(
        _R,
        "it goes on by itself: another session changed the same rows",
        (1020, 1213, 8005, 9007),
    ),
    **_of(
        _R,
        "it goes on by itself when the locks are gone: see SHOW PROCESSLIST of the downstream",
        (1205, 1206, 1637),
    ),
    **_of(
        _R,
        "it goes on by itself when there is room: free space on the downstream's disk",
        (1021, 1114, 3019),
    ),
    **_of(
        _R, "it goes on by itself when the downstream runs again", (1053, 1077, 1079, 1080, 1927)
    ),
    **_of(
        _R,
        "somebody ended the statement: see who kills, and the server's time limits",
        (1317, 1969, 3024, 3169, 4031),
    ),
    **_of(
        _R,
        "it goes on by itself when the downstream has memory and threads again: see its error log",
        (1037, 1038, 1041, 1135, 8176),
    ),
    **_of(_R, "see the downstream's error log", (1015, 1016, 1023, 1026, 1030, 1180, 3168)),
    **_of(_R, UNREACHABLE.hint, (1152, 1158, 1159, 1160, 1161, 1184)),
    **_of(_R, "it goes on by itself when its cluster takes writes", (1047, 3101)),
    **_of(
        _R,
        "it goes on by itself when its group takes writes: see its error log, and"
        " group_replication_transaction_size_limit",
        (3100,),
    ),
    **_of(
        _R,
        "it goes on by itself when the downstream's resource group has units again: see RU_PER_SEC",
        (8251, 8252),
    ),
    **_of(
        _R,
        "it goes on by itself when the downstream's TiDB cluster is well again",
        (1412, 8002, 8022, 8027, 8028, 8120, 9001, 9002, 9003, 9004, 9005, 9006, 9008, 9010),
    ),
    # This transaction.
    **_of(
        _P,
        "raise what the downstream lets one transaction have (max_binlog_cache_size; TiDB:"
        " txn-total-size-limit, tidb_mem_quota_query), or lower txn-batch, then start the Applier"
        " again",
        TOO_MUCH_AT_ONCE,
    ),
    # This statement.
    **_of(
        _P,
        "the row is larger than the downstream can hold: change it upstream, or set on-refused to"
        " skip",
        (1118, 1713, 8025),
    ),
    **_of(
        _P,
        "raise max_allowed_packet of the downstream above the row's size, then start the Applier"
        " again; or set on-refused to skip",
        (PACKET_TOO_LARGE, 1301),
    ),
    **_of(
        _P,
        "create it downstream as it is upstream, backfill it, or filter it out of the feed",
        (1049, 1054, 1146),
    ),
    **_of(
        _P,
        "another row downstream holds the value of a unique key: who else writes there?",
        (1062, 1586),
    ),
    **_of(
        _P,
        "the downstream's column is smaller than the upstream's: widen it, then start the Applier"
        " again; or set on-refused to skip",
        (1264, 1265, 1292, 1366, 1406),
        data=True,
    ),
}


def failure(code: int) -> Failure:
    """What an error number means. 0 = the driver had none: the connection."""
    known = TABLE.get(code)
    if known is not None:
        return known
    if code == 0 or code in CLIENT:
        return UNREACHABLE
    return SERVER_FILES if code < OURS_FROM else REFUSED
