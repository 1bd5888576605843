"""Can the Applier write its downstream: reachable, allowed, with room, and what will be slow?"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from tidelog.downstreams.target import Target
from tidelog_cli.doctor import ring
from tidelog_cli.doctor.clocks import skew
from tidelog_cli.doctor.databases import Database, Tables, opened
from tidelog_cli.doctor.finding import About, Finding, named

CHECK = "downstream"
NEEDED = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "INDEX")
ENDS_OTHERS = ("CONNECTION ADMIN", "CONNECTION_ADMIN", "SUPER")
PACKET = 16 << 20
"""A statement has some MiB of rows, and a row may have as much."""


async def check_downstream(
    target: Target, our_ms: int, loops: Sequence[ring.Loop]
) -> list[Finding]:
    """Raises ConfigError, Unavailable."""
    if target.scheme != "mysql":
        return [local(target)]
    schema = loops[0].mark_schema if loops else ring.MARK_SCHEMA
    async with opened(target) as database:
        about = About(CHECK, database.shown)
        version = await database.value("VERSION()")
        findings = [about.ok(f"it lets us in: {version}"), packet(database)]
        now_ms = await database.value("ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000)")
        findings += [skew(database.shown, float(now_ms), our_ms)] if now_ms else []
        findings += rights(database.shown, await database.grants())
        findings += slow_tables(database.shown, await database.tables())
        return findings + ring.marks(database.shown, await database.channels(schema), loops, schema)


def local(target: Target) -> Finding:
    """A file or directory on this machine, if the Applier runs here."""
    about = About(CHECK, target.shown)
    if target.scheme == "blackhole":
        return about.ok("nothing is written: a dry run")
    place = Path(target.path)
    there = place if place.exists() else place.parent
    if not there.is_dir() and not place.exists():
        return about.wrong(f"there is no directory {there}", f"mkdir -p {there}")
    if not os.access(there, os.W_OK):
        return about.wrong(
            f"{there} can't be written by this user", f"chown it, or chmod u+w {there}"
        )
    return about.ok("it can be written from here")


def packet(database: Database) -> Finding:
    about = About(CHECK, "max_allowed_packet")
    says = f"max_allowed_packet is {database.max_packet >> 10} KiB"
    if database.max_packet < PACKET:
        hint = f"SET GLOBAL max_allowed_packet = {PACKET << 2}, and in its configuration"
        return about.warning(f"{says}: a large row stops the Applier", hint)
    return about.ok(says)


def rights(where: str, grants: Sequence[str]) -> list[Finding]:
    """Of SHOW GRANTS."""
    about = About(CHECK, f"rights at {where}")
    everywhere = _privileges(grants, r"\*\.\*")
    anywhere = _privileges(grants, r".*")
    has_all = "ALL PRIVILEGES" in everywhere
    missing = [] if "ALL PRIVILEGES" in anywhere else [n for n in NEEDED if n not in anywhere]
    if missing:
        hint = (
            "GRANT ALL ON *.* TO the Applier's account, or of the feed's databases and tidb_binlog"
        )
        return [about.wrong(f"it may not {', '.join(missing)}", hint)]
    if not has_all and not all(need in everywhere for need in NEEDED):
        hint = "a feed that creates another database needs GRANT ALL ON *.*, or of it, beforehand"
        return [about.warning("it has its rights in some databases only", hint)]
    if not has_all and not any(right in everywhere for right in ENDS_OTHERS):
        says = "it may not end other accounts' connections: a takeover needs one account for both"
        return [about.warning(says, "use one account for all Appliers, or GRANT CONNECTION ADMIN")]
    return [about.ok("it may read, write and change every table")]


def _privileges(grants: Sequence[str], place: str) -> set[str]:
    found: set[str] = set()
    for grant in grants:
        told = re.match(rf"GRANT (.+) ON ({place}) TO ", grant.replace("`", ""))
        if told is not None:
            found |= {name.strip().upper() for name in told[1].split(",")}
    return found


def slow_tables(where: str, tables: Tables) -> list[Finding]:
    about = About("tables", where)
    findings = []
    if tables.untold:
        findings.append(
            about.unknown(f"it does not tell of {', '.join(tables.untold)}", "look there by hand")
        )
    if tables.triggers or tables.cascades:
        findings.append(
            about.warning(
                f"triggers or actions of foreign keys would notice rows that are replaced, in "
                f"{named([*tables.triggers, *tables.cascades])}: they are updated in place",
                "drop them downstream: what they did upstream comes as rows",
            )
        )
    if tables.keyless:
        findings.append(
            about.warning(
                f"without a unique key that is NOT NULL: {named(tables.keyless)}; one connection "
                "writes each, row by row",
                "give them a primary key, upstream first",
            )
        )
    return findings or [about.ok("every table has a key, and nothing notices replaced rows")]
