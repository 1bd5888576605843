"""Bugs that a test of the suites notices where the simulation cannot, or not as plainly: it fails
with the bug, saying `says` (a regular expression), and passes without it."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Noticed:
    """`node`: pytest's name of it, below `tests/`."""

    bug: str
    node: str
    says: str

    def caught_by(self, said: list[str]) -> str:
        """The line of pytest's that shows the bug, "" if none does."""
        return next((line for line in said if re.search(self.says, line)), "")


TESTS = (
    Noticed(
        "open-forgotten-at-start",
        "unit/pump/test_resolving.py::test_its_age_survives_a_restart_and_the_forcing_begins_anew",
        "oldest_open",
    ),
    Noticed(
        "repeated-prewrite-opened-anew",
        "unit/pump/test_sorter.py::test_a_repeated_prewrite_keeps_its_first_bound",
        "assert play",
    ),
    Noticed(
        "unconfirmed-commit-moves-w",
        "unit/pump/test_sorter.py::test_under_embedded_a_claim_waits_for_the_oracle",
        "one.high.wanted",
    ),
    Noticed(
        "late-copy-not-asked-about",
        "unit/pump/test_late.py::test_late_copies_are_shown_as_unverified_and_stop_nobody",
        "assert lines",
    ),
    Noticed(
        "purged-not-refused",
        "unit/pump/test_gc_sim.py::test_it_collects_under_load_and_a_drainer_that_keeps_up_gets_everything",
        "in await purged",
    ),
    Noticed(
        "gc-below-a-reader",
        "unit/pump/test_gc.py::test_what_goes_and_why_the_next_one_stays",
        "decision.going",
    ),
    Noticed(
        "gc-takes-rows-of-a-later-commit",
        "unit/pump/test_gc.py::test_what_goes_and_why_the_next_one_stays",
        "decision.going",
    ),
    Noticed(
        "verdict-forced-at-once",
        "unit/pump/test_resolving.py::test_a_verdict_is_never_forced_before_the_timeout[0]",
        "assert not early",
    ),
    Noticed(
        "second-commit-not-compared",
        "unit/pump/test_pump_sim.py::test_a_second_commit_is_a_duplicate_or_an_error",
        "InvariantBroken",
    ),
    Noticed(
        "commit-without-its-prewrite",
        "unit/pump/test_unpaired.py::test_one_that_another_pump_has_is_settled",
        "pending within",
    ),
    Noticed(
        "twins-both-emitted",
        "unit/drainer/test_merger.py::test_merges_like_a_sort",
        "assert out == sorted",
    ),
    Noticed(
        "same-commit-ts-first-wins",
        "unit/drainer/test_merger.py::test_two_transactions_of_one_commit_ts",
        "assert merger.take",
    ),
    Noticed(
        "published-without-the-lease",
        "unit/drainer/test_standby.py::test_the_second_says_who_leads_and_is_ready",
        "assert writers",
    ),
    Noticed(
        "position-of-the-newest-message",
        "unit/drainer/test_position.py::test_rows_without_their_marker_are_no_position",
        "start.prev_commit_ts",
    ),
    Noticed(
        "bucket-rolled-back-believed",
        "unit/drainer/test_membership.py::test_rolled_back_waits_a_lease_and_reads_again",
        "is Verdict.UNTRUSTED",
    ),
    Noticed(
        "crc-of-a-transaction-not-compared",
        "unit/drainer/test_inbound.py::test_a_wrong_crc_is_corruption",
        "DID NOT RAISE",
    ),
    Noticed(
        "piece-that-continues-nothing-dropped",
        "unit/drainer/test_inbound.py::test_a_piece_that_continues_nothing_moves_no_position",
        "DID NOT RAISE",
    ),
    Noticed(
        "window-done-with-its-first-lane",
        "unit/applier/test_flight.py::test_the_position_is_the_end_of_the_last_window_before_which_none_is_missing",
        "assert .flight.applied",
    ),
    Noticed(
        "keys-of-a-window-forgotten",
        "unit/plan/test_causality.py::test_rows_go_where_the_original_sends_them",
        "assert lane == lane_of",
    ),
    Noticed(
        "conflict-without-a-flush",
        "unit/plan/test_causality.py::test_the_seeds_example",
        "== CONFLICT",
    ),
    Noticed(
        "folded-without-the-old-key",
        "unit/plan/test_fold.py::test_folding_leaves_what_one_by_one_leaves",
        "assert apply_folded",
    ),
    Noticed(
        "relay-purged-too-early",
        "unit/relay/test_relay.py::test_purge_removes_what_is_applied_and_never_the_current_file",
        "log.purge",
    ),
    Noticed(
        "relay-read-past-its-whole-batches",
        "unit/relay/test_relay.py::test_a_batch_that_is_not_whole_is_cut_off",
        "log.truncated_bytes",
    ),
    Noticed(
        "gap-not-seen", "unit/drainer/test_change_assembler.py::test_a_gap_is_seen", "DID NOT RAISE"
    ),
    Noticed(
        "attempts-mixed",
        "unit/applier/test_assembler.py::test_rows_of_another_attempt_are_not_taken_for_those_that_are_lost",
        "DID NOT RAISE",
    ),
    Noticed(
        "commit-ts-before-the-ack",
        "unit/pump_client/test_two_phase.py::test_its_commit_ts_is_asked_for_after_the_ack",
        "assert not oracle.asked",
    ),
    Noticed(
        "doubt-taken-for-refusal",
        "unit/pump_client/test_client.py::test_an_unknown_outcome_is_said_and_rolled_back_everywhere",
        "NoPump",
    ),
    Noticed(
        "commit-to-the-last-tried",
        "unit/pump_client/test_client.py::test_a_silent_pump_costs_one_try_and_then_gets_a_rollback_after_the_commit",
        "before the Commit's ack",
    ),
    Noticed(
        "commit-before-its-decision",
        "unit/pump_client/test_transactions.py::test_a_client_that_died_answers_in_its_next_life",
        "assert ids == ",
    ),
    Noticed(
        "timestamps-above-the-bound",
        "unit/registry/test_allocator.py::test_no_timestamp_is_given_twice_or_after_a_larger_one",
        "assert last <= durable",
    ),
    Noticed(
        "oracle-below-the-pumps",
        "unit/registry/test_tso_sim.py::test_it_starts_above_every_pumps_high_ts_and_waits_for_a_silent_pump",
        "assert await given_within",
    ),
    Noticed(
        "timestamps-without-the-lease",
        "unit/registry/test_lease_sim.py::test_without_its_lease_a_registry_decides_nothing_and_then_goes_on",
        "DID NOT RAISE",
    ),
    Noticed(
        "joiner-not-waited-for",
        "unit/registry/test_joins.py::test_joining_is_recorded_before_a_drainer_is_asked_and_online_after_all_acked",
        "assert .e.member.state .* == .ONLINE.",
    ),
    Noticed(
        "safe-point-of-the-fastest",
        "unit/registry/test_cluster_sim.py::test_the_safe_point_waits_for_every_consumer_until_it_is_removed",
        "assert await safe_point.* == 700",
    ),
    Noticed(
        "sync-tried-again",
        "crash/test_nth_real.py::test_the_nth_system_call_fails[pwritev-5]",
        "assert failed ==",
    ),
    Noticed(
        "instance-kept-over-a-crash",
        "unit/kernel/test_supervisor.py::test_a_crash_restarts_the_child_and_all_after_it_with_fresh_instances[0]",
        "assert tree.log",
    ),
    Noticed(
        "fatal-restarted",
        "unit/kernel/test_supervisor.py::test_a_fatal_error_escalates_at_once",
        "LimitReached",
    ),
    Noticed(
        "mailbox-without-a-bound",
        "unit/kernel/test_mailbox.py::test_a_sender_waits_while_the_box_is_full_by_count_or_by_bytes",
        "assert not box.try_put",
    ),
    Noticed(
        "let-in-again-sent-away",
        "unit/registry/test_forgotten_orders.py"
        "::test_one_that_was_let_in_again_is_not_sent_away_by_the_next_registry",
        "it shall register",
    ),
    Noticed(
        "pd-stream-kept-after-silence",
        "unit/upstream/test_pd_oracle.py::test_whose_call_was_cancelled_leaves_no_answer_for_another",
        "assert await|fresh",
    ),
    Noticed(
        "pd-going-back-believed",
        "unit/upstream/test_pd_oracle.py::test_a_clock_that_goes_back_is_not_believed",
        "DID NOT RAISE",
    ),
    Noticed(
        "pd-of-another-cluster-believed",
        "unit/upstream/test_pd_oracle.py::test_another_cluster_gives_nothing",
        "DID NOT RAISE",
    ),
    Noticed(
        "pd-answer-without-its-count",
        "unit/upstream/test_pd_oracle.py::test_an_answer_to_another_count_is_none",
        "DID NOT RAISE",
    ),
    Noticed(
        "name-taken-for-a-text",
        "unit/downstreams/test_sqlite.py::test_an_index_on_a_column_that_is_left_out_is_left_out_too",
        "left_out, index = await",
    ),
    Noticed(
        "expired-lock-taken-for-committed",
        "unit/upstream/test_tikv_txn_status.py::test_a_lock_whose_time_is_over_is_rolled_back",
        "assert await bed.ask",
    ),
    Noticed(
        "living-lock-rolled-back",
        "unit/upstream/test_tikv_txn_status.py::test_a_lock_that_lives_is_waited_for",
        "assert await bed.ask",
    ),
    Noticed(
        "rollback-record-taken-for-a-commit",
        "unit/upstream/test_tikv_txn_status.py::test_what_is_decided_is_read_and_nothing_is_changed[False]",
        "assert await bed.ask",
    ),
    Noticed(
        "verdict-of-a-stale-region",
        "unit/upstream/test_tikv_txn_status.py::test_a_region_that_splits_is_followed_before_pd_hears_of_it",
        "assert await bed.ask",
    ),
    Noticed(
        "collected-record-taken-for-none",
        "unit/upstream/test_tikv_txn_status.py::test_where_versions_were_collected_a_missing_one_tells_nothing",
        "assert await bed.ask",
    ),
    Noticed(
        "passed-and-not-kept",
        "unit/drainer/test_overtaken.py::test_from_where_one_that_had_stood_by_passed_is_known_to_its_next_life",
        "the stop within 30 s",
    ),
    Noticed(
        "told-taken-for-passed",
        "unit/drainer/test_pending_ddls.py::test_of_a_writer_of_ours_whose_binlog_is_not_there_yet",
        r"assert ddls\(found\)",
    ),
    Noticed(
        "overtaken-ddl-taken-for-passed",
        "unit/drainer/test_pending_ddls.py::test_whose_binlog_comes_behind_that_of_a_newer_one",
        "each once, and ahead of the rows",
    ),
    Noticed(
        "replay-without-what-a-life-read",
        "unit/drainer/test_rewind.py"
        "::test_a_replay_does_not_lack_what_a_life_had_read_of_a_pump_and_not_published",
        "DID NOT RAISE Purged",
    ),
)
BY_BUG = {test.bug: test for test in TESTS}
