"""A small transactional source database that writes binlogs like TiDB, and tells the truth after.

For tests, the simulator, benchmarks and `tidelog demo`.
"""

from tidelog.workload.compare import Verdict, compare
from tidelog.workload.config import WorkloadConfig
from tidelog.workload.ledger import Committed, Ledger, digest
from tidelog.workload.workload import Workload

__all__ = ["Committed", "Ledger", "Verdict", "Workload", "WorkloadConfig", "compare", "digest"]
