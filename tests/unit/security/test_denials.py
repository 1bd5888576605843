"""What a NATS server denies, by its words."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tidelog.errors import Forbidden
from tidelog.real import denials
from tidelog.real.denials import Denials
from tidelog.security.access import NatsAccess

KEY = NatsAccess(nats_nkey_file="/keys/reader/nkey")


def publish(subject: str) -> str:
    return f'Permissions Violation for Publish to "{subject}"'


def subscribe(subject: str) -> str:
    return f'Permissions Violation for Subscription to "{subject}" using queue "q"'


def test_who_asked_is_found_by_the_subject_in_lower_case() -> None:
    found = Denials("reader", KEY)
    assert found.take(publish("tidelog.c.Pump.P1.write")) == "tidelog.c.pump.p1.write"
    assert found.take("Authorization Violation") == ""
    assert found.take(subscribe("S.x")) == ""
    found.check_subscription("S.y")
    with pytest.raises(Forbidden, match=r"reader may not subscribe to S\.x") as caught:
        found.check_subscription("S.x")
    assert KEY.nats_nkey_file in caught.value.hint
    found.check_subscription("S.x")  # told, and perhaps allowed since


def test_without_a_key_it_is_said_that_there_is_none() -> None:
    error = Denials("reader", NatsAccess()).error("publish", "s.x")
    assert error.hint.startswith("no nats-nkey-file is of an identity")


def test_what_is_remembered_has_a_bound_and_nothing_is_untold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(denials, "MOST", 2)
    found = Denials("reader", KEY)
    with capture_logs() as logs:
        for number in (0, 1, 0, 2, 2):
            found.log(publish(f"s.{number}"))
    assert [one["said"][-2] for one in logs] == ["0", "1", "2", "2"]
    for number in range(3):
        found.take(subscribe(f"s.{number}"))
    for number in range(2):
        with pytest.raises(Forbidden):
            found.check_subscription(f"s.{number}")
    found.check_subscription("s.2")
