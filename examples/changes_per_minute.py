"""A log on a disk as a chart: how many changes each table had in each minute (UTC).

python examples/changes_per_minute.py /data/applier/relay changes.svg
python examples/changes_per_minute.py /data/pump-1 changes.svg file:jobs.json
"""

import sys
from collections import Counter
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from tidelog_backfill.source import TidelogSource

# %% A session; `# %%` begins a cell, as notebooks have them.
log, chart, history = [*sys.argv[1:], ""][:3]
builder = SparkSession.builder.config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()
spark.dataSource.register(TidelogSource)

# %% The changes as rows. A commit_ts is milliseconds since 1970, and 18 bits more.
changes = spark.read.format("tidelog").option("ddl-history", history).load(log)
minute = sql.expr("shiftright(commit_ts, 18) div 60000").alias("minute")
place = sql.concat_ws(".", "db", "table").alias("place")
counts = changes.groupBy(minute, place).count().orderBy("minute", "place").collect()

# %% A bar per minute, a colour per table; in the frame a unit across is a minute, down a change.
colours = {t: f"hsl({67 * n},60%,45%)" for n, t in enumerate(sorted({r.place for r in counts}))}
none = [f"no changes in {escape(log)}"]
legend = [f'<tspan fill="{colours[name]}">{escape(name)} </tspan>' for name in colours]
height = Counter({min((row[0] for row in counts), default=0): 0})
bars, told = [], []
for at, name, count in counts:
    height[at] += count
    told.append(f"{datetime.fromtimestamp(at * 60, UTC):%Y-%m-%d %H:%M} {name}: {count}")
    where = f'x="{at - min(height)}" y="{-height[at]}" width="0.9" height="{count}"'
    bars.append(f'<rect {where} fill="{colours[name]}"><title>{escape(told[-1])}</title></rect>')
print("\n".join(told or none))
frame = f"0 {-max(height.values())} {max(height) - min(height) + 1} {max(height.values())}"
bars = [f'<svg y="20" height="320" viewBox="{frame}" preserveAspectRatio="none">', *bars]
start = '<svg xmlns="http://www.w3.org/2000/svg" width="960" height="340"><text y="15">'
Path(chart).write_text("\n".join([start, *(legend or none), "</text>", *bars, "</svg></svg>"]))
