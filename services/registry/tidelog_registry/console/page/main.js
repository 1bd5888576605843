// The page: takes what the registry tells each second and shows it.
import { Chart, Group, linearScale, logScale } from "./chart.js";
import { html, render } from "./elements.js";
import { count, duration, rate } from "./format.js";
import { History } from "./history.js";
import { Link } from "./link.js";
import * as panels from "./panels.js";
import { draw } from "./topology.js";

const at = (id) => document.getElementById(id);
const past = new History();
const lagGroup = new Group();
const rateGroup = lagGroup; // one moment under the pointer, everywhere
const LAGS = [
  ["resolved", "Resolved", "what all Pumps can be read up to"],
  ["published", "Published", "what is in the stream"],
  ["applied", "Applied", "what every downstream holds"],
];
const RATES = [
  ["txns", "Transactions a second", "in the stream"],
  ["rows", "Rows a second", "in the stream"],
];
const UNITS = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"], [1, "ms"]];
const lagLabel = (ms) => {
  const [size, unit] = UNITS.find(([one]) => ms >= one);
  return `${ms / size} ${unit}`;
};
const charts = new Map([
  ...LAGS.map(([name, title, about]) => [name, lagGroup.add(new Chart(at("lags"), lagGroup, { title, about, label: lagLabel, format: duration }))]),
  ...RATES.map(([name, title, about]) => [name, rateGroup.add(new Chart(at("rates"), rateGroup, { title, about, label: count, format: rate, filled: true }))]),
]);

let snapshot = null;
let chosen = feedOfHash();
let told = "";

// "" for a text that nobody encoded: the page is shown whatever stands behind its address.
function feedOfHash() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

// The one that was chosen, else the one that was shown first: another that comes changes nothing.
function feedNow() {
  const feed = snapshot.feeds.find((one) => one.name === chosen) ?? snapshot.feeds[0] ?? null;
  chosen ||= feed?.name ?? "";
  return feed;
}

function show() {
  if (!snapshot) return;
  const feed = feedNow();
  at("cluster").textContent = snapshot.cluster;
  document.title = `Tidelog ${snapshot.cluster}`;
  tell(panels.attention(document.querySelector(".attention"), at("attention"), snapshot));
  showFeeds(feed);
  showTopology(feed);
  panels.nodes(at("nodes"), snapshot);
  at("more-nodes").hidden = !snapshot.more_nodes;
  at("more-nodes").textContent = `${snapshot.more_nodes} more nodes are not shown: tidelog nodes`;
  if (feed) {
    showCharts(feed);
    panels.tables(at("tables"), feed);
    panels.ddls(at("ddls"), feed);
    panels.leftOut(at("left"), feed);
  }
  panels.jobs(at("jobs-card"), at("jobs"), snapshot);
}

// Read out only what is new, and only when something is.
function tell(lines) {
  const now = lines.join(". ");
  if (told && now !== told) {
    const before = new Set(told.split(". "));
    at("told").textContent = lines.filter((line) => !before.has(line)).join(". ");
  }
  told = now;
}

function showFeeds(feed) {
  const place = at("feeds");
  place.hidden = snapshot.feeds.length < 2;
  render(place, snapshot.feeds.map((one) => one.name), () => [
    html("legend", { class: "unseen" }, "Feed"),
    ...snapshot.feeds.map(({ name }) => {
      const input = html("input", { type: "radio", name: "feed", value: name });
      input.addEventListener("change", () => {
        chosen = name;
        history.replaceState(null, "", `#${encodeURIComponent(name)}`);
        show();
      });
      return html("label", {}, input, html("span", {}, name));
    }),
  ]);
  for (const input of place.querySelectorAll("input")) input.checked = input.value === feed?.name;
}

function showTopology(feed) {
  const place = at("topology");
  const width = Math.floor(place.clientWidth);
  if (!width) return;
  const nodes = snapshot.nodes.map(({ position: _, ...node }) => node);
  render(place, [width, nodes, feed?.name, feed?.rows_per_s, feed?.txns_per_s, feed?.consumers], () => draw(snapshot, feed, width));
}

function showCharts(feed) {
  const known = past.of(feed.name);
  const top = (names) => Math.max(0, ...names.flatMap((name) => known[name]).filter((one) => one !== null));
  const lagScale = logScale(top(LAGS.map(([name]) => name)));
  for (const [name, chart] of charts) {
    const isLag = name in feed.lag_ms;
    const value = isLag ? feed.lag_ms[name] : feed[`${name}_per_s`];
    const scale = isLag ? lagScale : linearScale(top([name]));
    chart.show({ at: known.at, values: known[name], now: snapshot.at_ms, value, scale, stepMs: past.stepMs });
  }
}

function showLink(state, why) {
  document.body.dataset.link = state;
  const link = at("link");
  if (link.dataset.state === state && state === "live") return;
  if (link.dataset.state === "live" || state === "live") {
    at("told").textContent = state === "live" ? "Connected" : `Connection lost, ${why}`;
  }
  link.dataset.state = state;
  at("link-text").textContent = state === "live" ? "Live" : `Connection lost: ${why}`;
}

new Link({
  onHistory: (told) => past.begin(told),
  onSnapshot: (next) => {
    snapshot = next;
    past.add(snapshot);
    show();
  },
  onState: showLink,
});
new ResizeObserver(show).observe(at("topology"));
addEventListener("hashchange", () => {
  chosen = feedOfHash();
  show();
});
