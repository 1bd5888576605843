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
places = sorted({row.place for row in counts})
colours = {name: f"hsl({67 * n},60%,45%)" for n, name in enumerate(places)}
legend = [f'<tspan fill="{colours[name]}">{escape(name)} </tspan>' for name in places]
if not counts:
    legend = [escape(f"no changes in {log}")]
    print(f"no changes in {log}")
first = min((row[0] for row in counts), default=0)
height: Counter[int] = Counter()
bars = []
for at, name, count in counts:
    height[at] += count
    told = f"{datetime.fromtimestamp(at * 60, UTC):%Y-%m-%d %H:%M} {name}: {count}"
    where = f'x="{at - first}" y="{-height[at]}" width="0.9" height="{count}"'
    bars.append(f'<rect {where} fill="{colours[name]}"><title>{escape(told)}</title></rect>')
    print(told)
top = max(height.values(), default=0)
frame = f"0 {-top} {max(height, default=first) - first + 1} {top}"
bars = [f'<svg y="20" height="320" viewBox="{frame}" preserveAspectRatio="none">', *bars]
start = '<svg xmlns="http://www.w3.org/2000/svg" width="960" height="340"><text y="15">'
Path(chart).write_text("\n".join([start, *legend, "</text>", *bars, "</svg></svg>"]))
