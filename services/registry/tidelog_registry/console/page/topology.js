// The picture: writers -> Pumps -> Drainers -> stream -> Appliers and applications. Wide it runs from
// left to right, narrow from top to bottom. The table of nodes says the same in words.
import { svg } from "./elements.js";
import { duration, rate } from "./format.js";
import { look, mark } from "./states.js";

const BOX = 62; // a box's height
const GAP = 14; // between boxes of one column
const HEAD = 26; // above each column
const MOST = 8; // boxes of a column; those in trouble first
const NARROW = 760;
const RAIL = 20; // of the narrow picture, left of the boxes

const INNER = 12; // between a box's edge and its texts
const APART = 8; // between its word and what is small, at least
const WIDEST = 210; // what a box may ask for; longer names are cut
const NAME = "600 13.5px";
const WORD = "12.5px";
const SMALL = "12px";

const canvas = document.createElement("canvas").getContext("2d");

function long(text, font) {
  canvas.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  return canvas.measureText(text).width;
}

const wordFont = (box) => (/^(warn|bad)/.test(box.tone) ? `600 ${WORD}` : WORD);

function cut(text, width, font) {
  if (long(text, font) <= width) return text;
  let short = text;
  while (short && long(`${short}…`, font) > width) short = short.slice(0, -1);
  return `${short}…`;
}

const troubled = (node) => ("warn bad".includes(look(node).tone.split(" ")[0]) ? 0 : 1);

function some(nodes) {
  if (nodes.length <= MOST) return { boxes: nodes.map(ofNode), more: 0 };
  const sorted = [...nodes].sort((a, b) => troubled(a) - troubled(b));
  return { boxes: sorted.slice(0, MOST - 1).map(ofNode), more: nodes.length - MOST + 1 };
}

function ofNode(node) {
  const { word, tone, shape } = look(node);
  return { id: node.id, name: node.id, word, tone, shape, small: facts(node), node };
}

function facts(node) {
  if (node.unreachable) return node.heard_ms === null ? "" : `last word ${duration(node.heard_ms)} ago`;
  if (node.kind === "pump") return node.open ? `${node.open} open` : "";
  if (node.role === "standby") return "";
  return node.lag_ms === null ? "" : `${duration(node.lag_ms)} behind`;
}

function outside(name, small) {
  return { name, word: small, tone: "outside", shape: null, small: "" };
}

function more(hidden, what) {
  return { name: `${hidden} more ${what}`, word: "see Nodes", tone: "outside", shape: null, small: "" };
}

// The columns, each a list of boxes, and the edges between them by index.
export function graph(snapshot, feed) {
  const of = (kind, name) => snapshot.nodes.filter((n) => n.kind === kind && (!name || n.feed === name));
  const pumps = of("pump").filter((n) => n.state !== "offline");
  const { boxes: pumpBoxes, more: morePumps } = some(pumps);
  if (morePumps) pumpBoxes.push(more(morePumps, "Pumps"));
  const drainers = some(feed ? of("drainer", feed.name) : []);
  const appliers = some(feed ? of("applier", feed.name) : []);
  const readers = [...appliers.boxes];
  if (appliers.more) readers.push(more(appliers.more, "Appliers"));
  const consumers = feed ? feed.consumers : [];
  for (const one of consumers.slice(0, MOST)) {
    readers.push({ name: one.name, word: "application", tone: "calm", shape: null, small: one.lag_ms === null ? "" : `${duration(one.lag_ms)} behind` });
  }
  if (consumers.length > MOST) readers.push(more(consumers.length - MOST, "applications"));
  const columns = [
    { head: "", boxes: [outside("Writers", "TiDB, clients")] },
    { head: "Pumps", boxes: pumpBoxes, small: "99 open" },
    { head: "Drainer", boxes: drainers.boxes, small: "999 ms behind" },
    { head: "Stream", boxes: feed ? [{ name: `changes.${feed.name}`, word: `${rate(feed.rows_per_s)} rows/s`, tone: "stream", shape: null, small: "" }] : [], word: "99.9 k rows/s" },
    { head: "Readers", boxes: readers, small: "999 ms behind" },
    { head: "", boxes: appliers.boxes.length ? [outside("Downstream", "database, files")] : [] },
  ];
  return { columns, edges: edges(columns, feed) };
}

function edges(columns, feed) {
  const found = [];
  const add = (from, to, perS, unit, cutOff = false) => found.push({ from, to, perS, unit, cutOff });
  columns[1].boxes.forEach((box, at) => {
    const perS = box.node?.per_s.binlogs;
    const away = Boolean(box.node?.unreachable);
    const closed = box.node && (box.node.state !== "online" || away);
    if (!closed) add([0, 0], [1, at], perS, "binlogs/s");
    columns[2].boxes.forEach((drainer, to) => {
      if (drainer.node.role === "leads") add([1, at], [2, to], null, "", away || drainer.node.unreachable);
    });
  });
  columns[2].boxes.forEach((box, at) => {
    if (columns[3].boxes.length && box.node.role === "leads") add([2, at], [3, 0], feed.txns_per_s, "txns/s", box.node.unreachable);
  });
  columns[4].boxes.forEach((box, at) => {
    if (!columns[3].boxes.length || box.node?.role === "standby") return;
    const away = Boolean(box.node?.unreachable);
    add([3, 0], [4, at], box.node ? box.node.per_s.rows : null, "rows/s", away);
    if (box.node && columns[5].boxes.length) add([4, at], [5, 0], null, "", away);
  });
  return found;
}

export function draw(snapshot, feed, width) {
  const found = graph(snapshot, feed);
  const picture = width < NARROW ? narrow(found, width) : wide(found, width);
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", describe(found));
  return picture;
}

function describe({ columns }) {
  return columns
    .filter((column) => column.boxes.length)
    .map((column) => `${column.head ? `${column.head}: ` : ""}${column.boxes.map((box) => `${box.name} ${box.word}`).join(", ")}`)
    .join(". ");
}

// What a column's boxes need for their names and words, and to say `small` besides. Numbers change
// each second, so room is left for long ones: nothing moves.
function needs({ boxes, small, word }) {
  const least = Math.max(0, ...boxes.flatMap((box) => [long(box.name, NAME), (box.shape ? 20 : 0) + long(box.word, wordFont(box))]));
  const most = small ? 20 + long("online", WORD) + APART + long(small, SMALL) : word ? long(word, WORD) : 0;
  return [least, Math.max(least, most)].map((one) => Math.min(WIDEST, one + 2 * INNER + 4));
}

// Names and words come first, what is small then; the rest is shared out evenly.
function widths(used, room) {
  const asked = used.map(needs);
  const sum = (at) => asked.reduce((all, one) => all + one[at], 0);
  const [least, most] = [sum(0), sum(1)];
  if (most <= room) return asked.map((one) => one[1] + (room - most) / used.length);
  const share = most > least ? Math.max(0, room - least) / (most - least) : 0;
  return asked.map((one) => one[0] * Math.min(1, room / least) + share * (one[1] - one[0]));
}

function wide({ columns, edges: lines }, width) {
  const used = columns.filter((column) => column.boxes.length);
  const space = Math.min(88, Math.max(34, width * 0.048));
  const room = widths(used, width - space * (used.length - 1));
  const tallest = Math.max(1, ...used.map((column) => column.boxes.length));
  const height = HEAD + tallest * (BOX + GAP) - GAP + 4;
  let x = 2;
  const drawn = [];
  for (const [at, column] of used.entries()) {
    column.w = room[at] - 4;
    const tall = column.boxes.length * (BOX + GAP) - GAP;
    const top = HEAD + (height - 4 - HEAD - tall) / 2;
    drawn.push(svg("text", { class: "head", x: x + 1, y: top - 10 }, column.head));
    column.boxes.forEach((box, row) => Object.assign(box, { x, y: top + row * (BOX + GAP), w: column.w }));
    x += room[at] + space;
  }
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}` });
  const labels = [];
  for (const line of lines) {
    const from = columns[line.from[0]].boxes[line.from[1]];
    const to = columns[line.to[0]].boxes[line.to[1]];
    const [x1, y1, x2, y2] = [from.x + from.w, from.y + BOX / 2, to.x, to.y + BOX / 2];
    const bend = (x2 - x1) / 2;
    picture.append(svg("path", { class: edgeClass(line), "stroke-width": thick(line), d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` }));
    if (line.perS !== null && line.perS !== undefined && line.unit) {
      labels.push(svg("text", { class: "rate", x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 6, "text-anchor": "middle" }, speed(line, x2 - x1 - 6)));
    }
  }
  for (const column of used) for (const box of column.boxes) drawn.push(node(box));
  picture.append(...labels, ...drawn);
  return picture;
}

function speed({ perS, unit }, room) {
  const whole = `${rate(perS)} ${unit}`;
  return long(whole, SMALL) <= room ? whole : `${rate(perS)}/s`;
}

function narrow({ columns, edges: lines }, width) {
  const picture = svg("svg", {});
  const drawn = [];
  let y = 0;
  let before = null;
  for (const column of columns.filter((one) => one.boxes.length)) {
    const incoming = lines.filter((line) => columns[line.to[0]] === column);
    if (before !== null) {
      const known = incoming.filter((line) => line.perS !== null && line.perS !== undefined);
      const sum = known.reduce((all, line) => all + line.perS, 0);
      const text = known.length ? `${rate(sum)} ${known[0].unit}` : "";
      drawn.push(svg("text", { class: "rate", x: RAIL + 2, y: y + 17 }, text));
      y += 28;
    }
    for (const box of column.boxes) {
      Object.assign(box, { x: RAIL, y, w: width - RAIL - 2 });
      const level = y + BOX / 2;
      const off = Boolean(box.node?.unreachable);
      drawn.push(svg("path", { class: `edge ${off ? "cut" : "idle"}`, "stroke-width": 2, d: `M6 ${level}H${RAIL}` }), node(box));
      y += BOX + 8;
    }
    y -= 8;
    before = column;
  }
  const first = columns[0].boxes[0];
  const last = columns.filter((one) => one.boxes.length).at(-1).boxes.at(-1);
  picture.append(svg("path", { class: "edge idle", "stroke-width": 2, d: `M6 ${first.y + BOX / 2}V${last.y + BOX / 2}` }), ...drawn);
  picture.setAttribute("viewBox", `0 0 ${width} ${y + 2}`);
  return picture;
}

function edgeClass(line) {
  if (line.cutOff) return "edge cut";
  return line.perS ? "edge" : "edge idle";
}

const thick = (line) => (line.perS ? Math.min(4.5, 1.75 + Math.log10(1 + line.perS) * 0.6) : 1.75);

function node(box) {
  const { x, y, w } = box;
  const inner = w - 2 * INNER;
  const title = svg("title", {}, [box.name, box.word, box.small].filter(Boolean).join(", "));
  const parts = [
    title,
    svg("rect", { class: "box", x, y, width: w, height: BOX, rx: 10 }),
    svg("text", { class: "name", x: x + INNER, y: y + 25 }, cut(box.name, inner, NAME)),
  ];
  const at = box.shape ? x + INNER + 20 : x + INNER;
  if (box.shape) parts.push(mark(box.shape, x + 18, y + 42));
  parts.push(svg("text", { class: "word", x: at, y: y + 46 }, cut(box.word, inner - (at - x - INNER), wordFont(box))));
  const taken = at + long(box.word, wordFont(box));
  if (box.small && taken + APART + long(box.small, SMALL) <= x + w - INNER) {
    parts.push(svg("text", { class: "small", x: x + w - INNER, y: y + 46, "text-anchor": "end" }, box.small));
  }
  return svg("g", { class: `node ${box.tone}`, "data-node": box.id }, ...parts);
}
