// The last 15 minutes of a feed's lags and rates, as the registry has them; what comes is added.
const SPAN_MS = 15 * 60_000;
const SERIES = ["resolved", "published", "applied", "txns", "rows"];

export class History {
  constructor() {
    this.stepMs = 2000;
    this.feeds = new Map();
  }

  // A registry that was started again knows less of the past than this page.
  begin({ step_ms: stepMs, feeds }) {
    this.stepMs = stepMs;
    for (const [name, told] of Object.entries(feeds)) {
      const known = this.of(name);
      const since = told.at[0] ?? Infinity;
      const older = known.at.filter((at) => at < since).length;
      for (const key of ["at", ...SERIES]) told[key] = [...known[key].slice(0, older), ...told[key]];
      this.feeds.set(name, told);
    }
  }

  add(snapshot) {
    for (const feed of snapshot.feeds) {
      const known = this.of(feed.name);
      const last = known.at.at(-1) ?? 0;
      if (snapshot.at_ms - last < this.stepMs) continue;
      known.at.push(snapshot.at_ms);
      const now = { ...feed.lag_ms, txns: feed.txns_per_s, rows: feed.rows_per_s };
      for (const name of SERIES) known[name].push(now[name]);
      while (known.at[0] < snapshot.at_ms - SPAN_MS) {
        for (const name of ["at", ...SERIES]) known[name].shift();
      }
    }
    const here = new Set(snapshot.feeds.map((feed) => feed.name));
    for (const name of this.feeds.keys()) if (!here.has(name)) this.feeds.delete(name);
  }

  of(name) {
    if (!this.feeds.has(name)) {
      this.feeds.set(name, Object.fromEntries(["at", ...SERIES].map((key) => [key, []])));
    }
    return this.feeds.get(name);
  }
}

export { SPAN_MS };
