"""What is asked of bytes before they are decoded does not fail where they are no binlog."""

from __future__ import annotations

from tidelog.decode.decoder import job_of
from tidelog_proto.binlog_pb2 import Binlog


def test_bytes_that_are_no_binlog_have_no_ddl_job() -> None:
    assert job_of(b"\xff\xff") == 0
    assert job_of(Binlog(start_ts=5).SerializeToString()) == 0
    assert job_of(Binlog(ddl_job_id=7).SerializeToString()) == 7
