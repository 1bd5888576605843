"""What the sweep takes out of the index while others write it."""

from __future__ import annotations

from itertools import count

from tests.unit.pump.driven import QuietTrace
from tidelog.sim.index import SimIndex, SimIndexFile
from tidelog.sim.life import Life
from tidelog_pump.index import keys
from tidelog_pump.index.keys import State
from tidelog_pump.log.place import Place
from tidelog_pump.retention.sweep import PAGE, Sweep

OLD = [1000 + 10 * n for n in range(2 * PAGE + 100)]
LATE = Place(7, 0, 10, 5)


def test_what_is_put_between_two_steps_into_what_was_looked_at_stays() -> None:
    """A Prewrite of a transaction that began before all that is purged."""
    for when in count():
        store = SimIndex(SimIndexFile(), Life("p"), QuietTrace(lambda: 0.0))
        ended = keys.pack_transaction(State.COMMITTED, 5, Place(0, 0, 1, 1))
        store.write([(keys.transaction_key(start_ts), ended) for start_ts in OLD])
        sweep = Sweep(store, 1 << 40, 5, 1 << 40)
        late = {start_ts + 5 for start_ts in OLD[::97]}
        opened = keys.pack_transaction(State.OPEN, 0, LATE)
        steps = 0
        while not sweep.step():
            steps += 1
            if steps == when:
                store.write([(keys.transaction_key(start_ts), opened) for start_ts in late])
        if when > steps:
            break
        left = store.scan(b"p", keys.transaction_key(1 << 60), 2 * len(OLD))
        assert {keys.start_of(key) for key, _ in left} == (late if when else set())
    assert steps > 2
