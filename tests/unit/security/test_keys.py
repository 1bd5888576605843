"""Keys as `tidelog keys` makes and keeps them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import nkeys
import pytest

from tidelog.errors import BadInput, ConfigError, Corrupt
from tidelog.real.disk import RealDisk
from tidelog.real.nats_access import inbox_prefix
from tidelog.real.nkey import public_key_of
from tidelog.security.access import NatsAccess, inbox_of
from tidelog.security.identities import IDENTITIES
from tidelog_cli import keys


def made(directory: Path, **more: list[str]) -> dict[str, keys.Key]:
    return {key.name: key for key in asyncio.run(keys.make(directory, "default", **more))}


def test_each_identity_has_a_key_that_only_its_owner_reads(tmp_path: Path) -> None:
    found = made(tmp_path / "keys")
    assert list(found) == list(IDENTITIES)
    assert len({key.public for key in found.values()}) == len(IDENTITIES)
    for key in found.values():
        assert os.stat(key.file).st_mode & 0o777 == 0o600
        assert os.stat(Path(key.file).parent).st_mode & 0o777 == 0o700
        assert public_key_of(key.file) == key.public
        assert inbox_prefix(NatsAccess(nats_nkey_file=key.file)) == key.inbox


def test_a_cluster_that_subjects_can_t_name_is_refused(tmp_path: Path) -> None:
    for cluster in ("a.b c", "a*", ""):
        with pytest.raises(BadInput, match="is no cluster"):
            asyncio.run(keys.make(tmp_path / "keys", cluster))
    assert not (tmp_path / "keys").exists()


def test_what_is_there_stays(tmp_path: Path) -> None:
    first = made(tmp_path)
    auth = keys.auth_file(tmp_path)
    before = auth.read_text(), auth.stat().st_mtime_ns
    second = made(tmp_path)
    assert [key.public for key in second.values()] == [key.public for key in first.values()]
    assert not any(key.made for key in second.values())
    assert (auth.read_text(), auth.stat().st_mtime_ns) == before


def test_a_rotated_one_is_another_one_and_the_others_stay(tmp_path: Path) -> None:
    first = made(tmp_path)
    second = made(tmp_path, rotate=["pump"])
    changed = {name for name in first if first[name].public != second[name].public}
    assert changed == {"pump"}
    text = keys.auth_file(tmp_path).read_text()
    assert second["pump"].public in text
    assert first["pump"].public not in text


def test_one_more_of_an_identity_is_kept_and_goes_with_its_directory(tmp_path: Path) -> None:
    made(tmp_path, more=["subscriber-billing"])
    again = made(tmp_path)["subscriber-billing"]
    assert inbox_of(again.public) in keys.auth_file(tmp_path).read_text()
    Path(again.file).unlink()
    assert "subscriber-billing" not in made(tmp_path)
    assert again.public not in keys.auth_file(tmp_path).read_text()


def test_one_that_is_taken_back_leaves_neither_seed_nor_permission(tmp_path: Path) -> None:
    first = made(tmp_path, more=["subscriber-billing", "writer-shop"])
    second = made(tmp_path, remove=["subscriber-billing"])
    assert first.keys() - second.keys() == {"subscriber-billing"}
    assert first["subscriber-billing"].public not in keys.auth_file(tmp_path).read_text()
    assert not Path(first["subscriber-billing"].file).exists()
    third = made(tmp_path, more=["subscriber-billing"])
    assert third["subscriber-billing"].public != first["subscriber-billing"].public
    assert third["writer-shop"].public == first["writer-shop"].public


def test_a_removal_that_died_is_given_again_and_nothing_is_permitted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["subscriber-a", "subscriber-b"]
    made(tmp_path, more=names)

    async def dies(*_: object) -> None:
        raise OSError("the power is gone")

    with monkeypatch.context() as once:
        once.setattr(RealDisk, "write_file", dies)
        with pytest.raises(OSError, match="power"):
            made(tmp_path, remove=names)
    assert not set(names) & set(made(tmp_path, remove=names))
    assert "subscriber-" not in keys.auth_file(tmp_path).read_text()
    assert not set(names) & set(made(tmp_path))


@pytest.mark.parametrize("name", ["subscriber", "subscriber-nobody", "writer-shop", "nobody"])
def test_only_what_was_added_before_is_taken_back(tmp_path: Path, name: str) -> None:
    first = made(tmp_path, more=["subscriber-billing"])
    with pytest.raises(BadInput):
        made(tmp_path, more=["writer-shop"], remove=[name])
    assert {name: key.public for name, key in made(tmp_path).items()} == {
        name: key.public for name, key in first.items()
    }


@pytest.mark.parametrize("name", ["nobody", "subscriber-../x", "subscriber-a.b", "subscriber-*"])
def test_what_is_no_identity_gets_no_key(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput):
        made(tmp_path, more=[name])
    with pytest.raises(BadInput):
        made(tmp_path, rotate=[name])


def test_a_broken_seed_is_named_and_not_shown(tmp_path: Path) -> None:
    made(tmp_path)
    path = Path(keys.seed_file(tmp_path, "pump"))
    path.write_text("SUCANARY")
    with pytest.raises(Corrupt) as raised:
        made(tmp_path)
    assert str(path) in str(raised.value)
    assert "CANARY" not in str(raised.value)
    with pytest.raises(ConfigError) as refused:
        public_key_of(str(path))
    assert "CANARY" not in str(refused.value)


def test_a_seed_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}/none can't be read") as refused:
        public_key_of(str(tmp_path / "none"))
    assert "tidelog keys" in refused.value.hint


def test_a_seed_of_an_account_is_no_users(tmp_path: Path) -> None:
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_ACCOUNT)
    (tmp_path / "nkey").write_bytes(seed)
    with pytest.raises(ConfigError, match="holds no seed of a user") as refused:
        public_key_of(str(tmp_path / "nkey"))
    assert "begins with SU" in refused.value.hint
