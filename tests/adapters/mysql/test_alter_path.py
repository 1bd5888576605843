"""Any table that is altered on a real MariaDB is then what it would be had it been created so."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.adapters.mysql.mysql_rig import UNSYNCED, Rig, run
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import column, ddl, table
from tidelog.downstreams.definitions import Definitions
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.downstreams.target import Target
from tidelog.schema.structure import ColumnStructure, KeyPart, KeyStructure, TableStructure


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("alter"), *UNSYNCED) as found:
        yield found


NAMES = ("a", "B", "select", "of `it`", "it's", "x" * 64, "ü", "b'1'", "1", "c\\", " d")
TEXTS = st.sampled_from(
    ("", "a", "it's", "\\", "\\'", '"', "b'1", "CURRENT_TIMESTAMP", "line\nline")
)
COLLATIONS = st.sampled_from(
    (
        ("utf8mb4", "utf8mb4_bin"),
        ("utf8mb4", "utf8mb4_general_ci"),
        ("latin1", "latin1_bin"),
        ("utf8", "utf8_bin"),
    )
)
NOW = {"default": "CURRENT_TIMESTAMP", "default_is_expr": True}


@st.composite
def typed(draw: st.DrawFn) -> ColumnStructure:
    """A column without name and id."""
    kind = draw(
        st.sampled_from(
            ("int", "int", "int", "text", "long", "enum", "time", "bit", "number", "json", "bytes")
        )
    )
    nullable = draw(st.booleans())
    comment = draw(TEXTS)
    more = {"nullable": nullable, "comment": comment}
    charset, collation = draw(COLLATIONS)
    said = {"charset": charset, "collation": collation}
    match kind:
        case "int":
            return column(
                "",
                draw(st.sampled_from(("int(11)", "bigint(20) unsigned"))),
                default=draw(st.sampled_from((None, "7"))),
                origin_default="3",
                **more,
            )
        case "text":
            return column("", "varchar(20)", default=draw(st.none() | TEXTS), **said, **more)
        case "long":
            return column("", "text", **said, **more)
        case "enum":
            return column(
                "",
                "enum('a','it''s','\\','b\\''c')".replace("\\''", "\\"),
                default="a",
                **said,
                **more,
            )
        case "time":
            return column("", "datetime", on_update_now=draw(st.booleans()), **NOW, **more)
        case "bit":
            return column(
                "", "bit(9)", default="b'101'", default_is_expr=True, origin_default="b'11'", **more
            )
        case "number":
            return column(
                "", "decimal(10,2)", default=draw(st.sampled_from((None, "-1.50"))), **more
            )
        case "json":
            return column("", "json", **more)
    return column("", "varbinary(20)", default=draw(st.sampled_from((None, "", "a\\"))), **more)


KEYABLE = ("int", "bigint", "varchar", "enum", "datetime", "bit", "decimal", "varbinary", "text")


@st.composite
def keyed(draw: st.DrawFn, columns: list[ColumnStructure]) -> tuple[KeyStructure, ...]:
    keys: list[KeyStructure] = []
    fit = [one for one in columns if one.base in KEYABLE]
    with_primary: bool = draw(st.booleans())
    if fit and with_primary:
        some = draw(
            st.lists(st.sampled_from(fit), min_size=1, max_size=2, unique_by=lambda c: c.name)
        )
        parts = tuple(KeyPart(c.name, 5 if c.base == "text" else 0) for c in some)
        if all(not c.nullable for c in some):
            keys.append(KeyStructure("PRIMARY", parts, True, True))
    for name in draw(
        st.lists(st.sampled_from(("k", "it's", "u`k", "key")), unique=True, max_size=3)
    ):
        if not fit:
            break
        some = draw(
            st.lists(st.sampled_from(fit), min_size=1, max_size=2, unique_by=lambda c: c.name)
        )
        parts = tuple(KeyPart(c.name, 3 if c.base in ("text", "varchar") else 0) for c in some)
        if draw(st.booleans()):
            parts = (*parts, KeyPart("", 0, "1 + 1"))
        keys.append(KeyStructure(name, parts, draw(st.booleans())))
    return tuple(keys)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[TableStructure, TableStructure]:
    names = draw(st.permutations(NAMES))
    before = [
        msgspec.structs.replace(one, name=names[i], id=i + 1)
        for i, one in enumerate(draw(st.lists(typed(), min_size=1, max_size=4)))
    ]
    after: list[ColumnStructure] = []
    spare = iter(names[len(before) :])
    for one in draw(st.permutations(before)):
        fate = draw(st.sampled_from(("keep", "keep", "rename", "drop", "change")))
        if fate == "rename":
            one = msgspec.structs.replace(one, name=next(spare))
        elif fate == "change":
            new = draw(typed())
            one = msgspec.structs.replace(new, name=one.name, id=one.id)
        if fate != "drop":
            after.append(one)
    for number, new in enumerate(draw(st.lists(typed(), min_size=int(not after), max_size=2))):
        at = draw(st.integers(0, len(after)))
        after.insert(at, msgspec.structs.replace(new, name=next(spare), id=20 + number))
    tables = [
        msgspec.structs.replace(
            table("t", *columns, number=10), keys=draw(keyed(columns)), comment=draw(TEXTS)
        )
        for columns in (before, after)
    ]
    if draw(st.booleans()):
        tables = [_counting(one) for one in tables]
    return tables[0], tables[1]


def _counting(one: TableStructure) -> TableStructure:
    """With AUTO_INCREMENT, whether a key of the table allows it or not."""
    first = next((c.id for c in one.columns if c.base == "bigint"), 0)
    columns = tuple(
        msgspec.structs.replace(c, auto_increment=True, default=None, nullable=False)
        if c.id == first
        else c
        for c in one.columns
    )
    return msgspec.structs.replace(one, columns=columns)


def test_an_altered_table_is_what_it_would_be_if_created_so(server: MariaDb) -> None:
    url = f"mysql://root@{server.host}:{server.port}/"

    async def definitions(*names: str) -> list[list[str]]:
        session = await MysqlSession.connect(Target.parse(url))
        found = [await Definitions(session).read(("d", name)) for name in names]
        await session.close()
        return [[line.strip(" ,") for line in one.splitlines()] for one in found]

    def in_order(lines: list[str]) -> list[str]:
        """Keys in any order: the server has its own."""
        columns = [one for one in lines if one.startswith("`")]
        return columns + sorted(one for one in lines if not one.startswith("`"))

    @settings(
        max_examples=100,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(pairs())
    def check(pair: tuple[TableStructure, TableStructure]) -> None:
        before, after = pair

        async def scenario(rig: Rig) -> None:
            await rig.ddl(ddl("create_table", (None, before)))
            made = msgspec.structs.replace(after, name="made")
            notes = await rig.ddl(ddl("create_table", (None, made)))
            altered = await rig.ddl(ddl("multi_schema_change", (before, after)))
            assert not [one for one in (*notes, *altered) if "refused" in one]
            one, other = await definitions("t", "made")
            assert in_order(one) == in_order(other)

        run(server, scenario)

    check()
