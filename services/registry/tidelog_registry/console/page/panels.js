// What stands in tables and lists.
import { html, render, sentence, svg } from "./elements.js";
import { count, duration, moment, rate } from "./format.js";
import { badge } from "./states.js";

const REASONS = {
  system: "tables of a system schema",
  filter: "tables that the feed's lists leave out",
  event_filter: "rows and DDLs that a rule ignores",
  ignored_txn: "transactions named by ignore-txn-commit-ts",
  sync_ddl: "DDLs, as sync-ddl is off",
  merged: "DDLs that would take away other sources' rows",
  loopback: "transactions that the other direction wrote",
  mark: "changes of the mark table",
  at_pump: "transactions the Pumps did not send: other tables only",
  rewritten: "published without clauses of its cluster",
  nothing_left: "all of it meant something to its cluster only",
  placement: "placement policies",
  ddl_policy: "skipped by its kind",
  ddl_order: "skipped by an operator",
  setval: "a sequence was moved",
  rolled_back: "DDLs that were rolled back",
  truncated: "changes of a table truncated or dropped since",
  early: "DDLs published already, with their first rows",
  empty: "transactions that change nothing",
  drop_column_first: "steps of dropping a column",
};

const KINDS = { pump: "Pump", drainer: "Drainer", applier: "Applier" };

const cell = (label, content, kind = "") => html("td", { class: kind, "data-label": label }, content);
const empty = (text) => html("p", { class: "empty" }, text);

function table(caption, heads, rows, kind = "") {
  return html(
    "div",
    { class: "scroll" },
    html(
      "table",
      { class: kind },
      html("caption", { class: "unseen" }, caption),
      html("thead", {}, html("tr", {}, heads.map(([text, how]) => html("th", { scope: "col", class: how ?? "" }, text)))),
      html("tbody", {}, rows),
    ),
  );
}

export function attention(place, list, snapshot) {
  const trouble = [
    ...(snapshot.bus ? [] : ["The registry has lost NATS: what it shows of the nodes is old."]),
    ...(snapshot.settled ? [] : ["The registry has lost its memory of the cluster; nodes are announcing themselves."]),
  ];
  const bad = snapshot.errors.length || trouble.length || snapshot.nodes.some((n) => n.unreachable);
  const some = snapshot.notes.length + snapshot.errors.length + trouble.length;
  const joining = snapshot.nodes.filter((n) => n.state === "joining").length;
  place.dataset.level = bad ? "bad" : some ? "warn" : "good";
  const title = some ? `${some} ${some === 1 ? "thing needs" : "things need"} attention` : joining ? `${joining} joining, nothing needs attention` : "Everything runs";
  const heading = place.querySelector("h2");
  if (heading.textContent !== title) heading.textContent = title;
  render(list, [trouble, snapshot.errors, snapshot.notes], () => [
    ...trouble.map((text) => html("li", {}, text)),
    ...snapshot.errors.map(([node, text]) => html("li", {}, html("b", {}, `${node}: `), ...sentence(text))),
    ...snapshot.notes.map((text) => html("li", {}, ...sentence(text))),
  ]);
  return [title, ...trouble, ...snapshot.errors.map((pair) => pair.join(": ")), ...snapshot.notes];
}

export function nodes(place, snapshot) {
  render(place, snapshot.nodes.map(({ heard_ms: _, ...node }) => node), () => {
    if (!snapshot.nodes.length) return empty("No node has registered yet.");
    const rows = snapshot.nodes.map((node) =>
      html(
        "tr",
        { "data-node": node.id, "data-kind": node.kind },
        cell("Node", node.id, "name"),
        cell("State", badge(node), "short state-cell"),
        cell("Kind", `${KINDS[node.kind] ?? node.kind}${node.role === "standby" ? ", standby" : ""}`, "short"),
        cell("Feed", node.feed, "short"),
        cell("Lag", node.lag_ms === null ? "" : duration(node.lag_ms), "number"),
        cell("Rate", busy(node), "number"),
        cell("Open Prewrites", node.kind === "pump" ? count(node.open) : "", "number"),
        cell("Says", says(node), "wide"),
      ),
    );
    const heads = [["Node"], ["State"], ["Kind"], ["Feed"], ["Lag", "number"], ["Rate", "number"], ["Open Prewrites", "number"], ["Says"]];
    return table("All nodes, their states and what they say", heads, rows, "stack");
  });
}

function busy(node) {
  const { binlogs, rows } = node.per_s;
  if (binlogs !== undefined) return `${rate(binlogs)} binlogs/s`;
  return rows === undefined || node.role === "standby" ? "" : `${rate(rows)} rows/s`;
}

function says(node) {
  if (!node.says.length) return null;
  return html("div", { class: "says" }, node.says.map(([what, text]) =>
    html("span", { class: what === "error" ? "error" : "" }, html("b", {}, `${what}: `), ...sentence(text))));
}

export function tables(place, feed) {
  render(place, [feed.tables, feed.others], () => {
    if (!feed.tables.length) return empty("No rows were published since the registry began to listen.");
    const most = Math.max(1, ...feed.tables.map((one) => one.rows_per_s), feed.others?.rows_per_s ?? 0);
    const line = (name, one, quiet) =>
      html("tr", { class: quiet }, cell("Table", name, "name"), cell("", bar(one.rows_per_s / most), "share"),
        cell("Rows a second", rate(one.rows_per_s), "number"), cell("Rows", count(one.rows), "number"));
    const rows = feed.tables.map((one) => line(one.name, one));
    const { others } = feed;
    if (others) rows.push(line(`${others.at_least ? "at least " : ""}${others.tables} other tables`, others, "quiet"));
    return table(`Rows by table of feed ${feed.name}`, [["Table"], ["", "share"], ["Rows/s", "number"], ["Rows seen", "number"]], rows);
  });
}

function bar(share) {
  return svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 100, height: 8, rx: 2 }),
    svg("rect", { class: "fill", width: Math.max(share ? 1 : 0, 100 * share).toFixed(1), height: 8, rx: 2 }));
}

export function ddls(place, feed) {
  render(place, [feed.ddls, feed.older_ddls], () => {
    const older = Object.entries(feed.older_ddls).map(([why, many]) => html("p", { class: "empty" }, `${count(many)} older: ${why}`));
    if (!feed.ddls.length) return [empty("None since the registry began to listen."), ...older];
    const items = feed.ddls.slice(0, 6).map((ddl) =>
      html("li", {},
        html("div", { class: "row" },
          html("span", { class: `tag ${ddl.why ? "warn" : ""}` }, ddl.why === "" ? "published" : ddl.why === "rewritten" ? "rewritten" : `skipped: ${ddl.why}`),
          html("b", {}, ddl.kind.replaceAll("_", " ")),
          ddl.db ? html("span", { class: "quiet" }, ddl.db) : null,
          html("time", { class: "quiet", datetime: new Date(ddl.at_ms).toISOString(), title: `commit_ts ${ddl.commit_ts}` }, moment(ddl.at_ms))),
        html("code", { class: "query", title: ddl.query }, ddl.query),
        ddl.why && REASONS[ddl.why] ? html("span", { class: "quiet" }, REASONS[ddl.why]) : null,
        ddl.removed.length ? html("span", { class: "quiet" }, `without: ${ddl.removed.join("; ")}`) : null));
    return [html("ul", { class: "list" }, items), ...older];
  });
}

export function leftOut(place, feed) {
  render(place, [feed.left_out, feed.duplicates], () => {
    const found = Object.entries(feed.left_out);
    if (feed.duplicates) found.push(["duplicates", feed.duplicates]);
    if (!found.length) return empty("Nothing.");
    const rows = found.map(([why, many]) =>
      html("tr", {}, cell("Reason", why, "name"),
        cell("What", why === "duplicates" ? "second copies of transactions, from another Pump" : REASONS[why] ?? "", "quiet"),
        cell("Count", count(many), "number")));
    return table(`What feed ${feed.name} left out, by reason`, [["Reason"], ["What"], ["Count", "number"]], rows);
  });
}

export function jobs(card, place, snapshot) {
  card.hidden = !snapshot.jobs.length;
  render(place, snapshot.jobs, () =>
    html("ul", { class: "list" }, snapshot.jobs.map((job) =>
      html("li", {},
        html("div", { class: "row" }, html("span", { class: `tag ${job.state === "failed" ? "bad" : ""}` }, job.state),
          html("b", {}, `${job.kind} ${job.id}`), html("span", { class: "quiet" }, `${job.stage || ""} ${job.rows ? `${count(job.rows)} rows` : ""}`)),
        job.state === "running" && job.total ? html("progress", { max: job.total, value: job.done, "aria-label": `${job.kind} ${job.id}, ${job.stage}` }) : null,
        job.error ? html("span", { class: "says error" }, job.error) : null))));
}
