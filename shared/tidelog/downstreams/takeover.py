"""Who may write a MySQL-speaking downstream (design section 9): the connection that holds the
feed's lock, and the lanes whose row in `tidb_binlog.worker` has the newest epoch.

MySQL and MariaDB tell who holds a lock, so a takeover ends that connection. TiDB has such locks
for the whole cluster (since 6.2) and does not tell: there the takeover waits until the other one
lets go. Where servers share a database but not their locks (Galera), the epoch alone decides.
"""

from __future__ import annotations

from hashlib import sha256

import structlog

from tidelog.downstream import Checkpoint, TakenOver
from tidelog.downstreams import state_tables
from tidelog.downstreams.literals import quote
from tidelog.downstreams.mysql_session import MysqlSession, StatementRefused
from tidelog.downstreams.state_tables import CONTROL, lock_name
from tidelog.errors import Refused, Unavailable

log = structlog.get_logger()

WAIT_ROUNDS = 20
"""So often a lock is asked for, each time for a second, before somebody else has to help."""
GONE_ROUNDS = 600
"""So often a killed connection is looked for, 50 ms each."""
KILL_DENIED, NO_SUCH_THREAD = 1095, 1094


async def take_lock(
    session: MysqlSession, feed: str, worker: int = CONTROL, *, tells_holder: bool
) -> None:
    """Have the lock of a writer, whoever holds it now. Its holder is gone then: what it had begun
    is rolled back. Raises Unavailable."""
    lock = quote(lock_name(feed, worker))
    for _ in range(WAIT_ROUNDS):
        holder = await _holder(session, lock) if tells_holder else 0
        if holder:
            await _kill(session, holder, feed)
            await _until_gone(session, holder)
        ((got,),) = await session.rows(f"SELECT GET_LOCK({lock}, 1)")
        if got == 1:
            return
    raise Unavailable(
        f"another connection to {session.where} holds the lock {lock_name(feed, worker)}",
        hint="end the other Applier of this feed, or KILL its connection: see SHOW PROCESSLIST",
    )


async def refuse_held(session: MysqlSession, feed: str) -> None:
    """Raises Refused while a living connection writes for the feed. (TiDB does not tell.)"""
    holder = await _holder(session, quote(lock_name(feed, CONTROL)))
    if holder:
        raise Refused(
            f"another Applier writes {session.where} (connection {holder})",
            hint="it needs no recovery while that one lives: end that one first",
        )


async def _holder(session: MysqlSession, lock: str) -> int:
    """The connection that holds it; 0 = nobody, or this one."""
    ((found, mine),) = await session.rows(f"SELECT IS_USED_LOCK({lock}), CONNECTION_ID()")
    return 0 if found is None or int(found) == int(mine) else int(found)


async def _kill(session: MysqlSession, connection: int, feed: str) -> None:
    log.warning("another connection writes for this feed: ended", feed=feed, connection=connection)
    try:
        await session.run(f"KILL {connection}")
    except StatementRefused as error:
        if error.code == KILL_DENIED:
            raise Unavailable(
                f"connection {connection} of another account holds the feed's lock, and"
                f" {session.where} may not end it",
                hint="connect with the other Applier's account, or GRANT CONNECTION ADMIN (MySQL:"
                " CONNECTION_ADMIN) ON *.*, or end the other Applier",
            ) from error
        if error.code != NO_SUCH_THREAD:
            raise


async def _until_gone(session: MysqlSession, connection: int) -> None:
    """What was killed may still roll back, or finish its part of a DDL. Raises Unavailable."""
    for _ in range(GONE_ROUNDS):
        alive = await session.rows(
            f"SELECT SLEEP(0.05) FROM information_schema.PROCESSLIST WHERE ID = {connection}"
        )
        if not alive:
            return
    raise Unavailable(
        f"connection {connection} was killed and has not ended yet",
        hint="it rolls back, or ends a DDL: wait, and see SHOW PROCESSLIST of the downstream",
    )


async def draw_life(session: MysqlSession) -> int:
    """A number that no other Applier has: below 2^56, so that a row can count on from it."""
    ((drawn,),) = await session.rows("SELECT UUID()")
    return int.from_bytes(sha256(str(drawn).encode()).digest()[:7])


async def raise_epoch(
    session: MysqlSession, feed: str, lanes: int, stored: Checkpoint | None, life: int
) -> int:
    """A new epoch for all writers of the feed: whoever has an older one changes nothing any more.
    Waits for their transactions that are under way. `life`: of who raises it, for `check_epoch`.
    Raises Unavailable: then it may be raised."""
    await session.run("BEGIN")
    rows = await session.rows(state_tables.epochs(feed))
    known = [int(epoch) for _, epoch in rows] + [stored.epoch if stored is not None else 0]
    epoch = max(known) + 1
    for sql in state_tables.raise_epochs(feed, epoch, lanes, life):
        await session.run(sql)
    await session.run("COMMIT")
    return epoch


async def lanes_known(session: MysqlSession, feed: str) -> list[int]:
    """Lanes that have ever written for the feed."""
    rows = await session.rows(state_tables.workers(feed))
    return [int(worker) for (worker,) in rows if int(worker) != CONTROL]


async def check_epoch(
    session: MysqlSession, feed: str, worker: int, epoch: int, life: int | None = None
) -> None:
    """Raises TakenOver if somebody has taken over since `epoch`. Of the control connection, `life`
    is let in that raised it itself, did not hear of it, and so has counted nothing since."""
    rows = await session.rows(state_tables.epoch_of(feed, worker))
    if rows and int(rows[0][0]) > epoch and int(rows[0][1]) != life:
        raise TakenOver(f"another Applier has taken over the feed {feed} in {session.where}")
