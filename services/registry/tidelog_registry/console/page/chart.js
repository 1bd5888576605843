// One line over 15 minutes, drawn by hand. Charts of a group share their moment under the pointer.
import { html, svg } from "./elements.js";
import { moment } from "./format.js";
import { SPAN_MS } from "./history.js";

const HEIGHT = 136;
const PAD = { left: 44, right: 6, top: 8, bottom: 20 };
const GAP_STEPS = 3; // a line is broken where nothing was told for so long

// Lags range from a millisecond to days: a line of the grid is about ten times the one below.
const DECADES = [1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 864_000_000, 8_640_000_000];

export function logScale(ceiling) {
  const top = Math.max(4, DECADES.findIndex((one) => one >= ceiling));
  const ticks = DECADES.slice(0, top + 1).reverse();
  const spread = Math.log10(ticks[0]);
  return { ticks, at: (value) => Math.log10(Math.max(1, value)) / spread };
}

export function linearScale(ceiling) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(4, ceiling) / 4));
  const step = [1, 2, 2.5, 5, 10].map((by) => by * unit).find((by) => by * 4 >= ceiling) ?? unit * 10;
  const ticks = [4, 3, 2, 1, 0].map((by) => by * step);
  return { ticks, at: (value) => value / ticks[0] };
}

export class Group {
  constructor() {
    this.charts = [];
    this.moment = null; // where the cursor is, in ms
  }

  add(chart) {
    this.charts.push(chart);
    return chart;
  }

  look(at) {
    this.moment = at;
    for (const chart of this.charts) chart.draw();
  }
}

export class Chart {
  constructor(place, group, { title, about, label, format, unit = "", filled = false }) {
    Object.assign(this, { group, label, format, unit, filled });
    this.data = { at: [], values: [], now: 0, value: null, scale: linearScale(1), stepMs: 2000 };
    this.value = html("span", { class: "value" });
    this.note = html("span", { class: "about" }, about);
    this.about = about;
    this.said = html("span", { class: "unseen", "aria-live": "polite" });
    this.canvas = svg("svg", { "aria-hidden": "true" });
    this.figure = html(
      "figure",
      { class: "chart", tabindex: "0", role: "group", "aria-label": title },
      html("figcaption", {}, html("span", { class: "title" }, title), this.value, this.note),
      this.canvas,
      this.said,
    );
    this.title = title;
    place.append(this.figure);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.listen();
  }

  listen() {
    this.canvas.addEventListener("pointermove", (event) => {
      const box = this.canvas.getBoundingClientRect();
      const share = (event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right);
      this.group.look(this.data.now - SPAN_MS * (1 - Math.min(1, Math.max(0, share))));
    });
    this.canvas.addEventListener("pointerleave", () => this.group.look(null));
    this.figure.addEventListener("blur", () => this.group.look(null));
    this.figure.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -10_000, ArrowRight: 10_000, PageUp: -60_000, PageDown: 60_000 }[event.key];
      if (event.key === "Escape") this.group.look(null);
      else if (step) {
        event.preventDefault();
        const { now } = this.data;
        const from = this.group.moment ?? now;
        this.group.look(Math.min(now, Math.max(now - SPAN_MS, from + step)));
        this.said.textContent = `${this.value.textContent}, ${this.note.textContent}`;
      }
    });
  }

  show(data) {
    this.data = data;
    this.draw();
  }

  // The newest sample at or before the cursor, unless nothing was told there.
  picked() {
    const { at, values, stepMs } = this.data;
    const wanted = this.group.moment;
    if (wanted === null) return null;
    let index = at.length - 1;
    while (index >= 0 && at[index] > wanted) index -= 1;
    if (index < 0 || wanted - at[index] > GAP_STEPS * stepMs) return { at: wanted, value: null };
    return { at: at[index], value: values[index] };
  }

  draw() {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight || HEIGHT;
    if (!width || !this.data.now) return;
    const { scale, now, value } = this.data;
    const picked = this.picked();
    this.value.textContent = this.text(picked ? picked.value : value);
    this.note.textContent = picked ? `at ${moment(picked.at)}` : this.about;
    this.figure.setAttribute("aria-label", `${this.title}: ${this.text(value)}. Arrow keys read the last 15 minutes.`);
    this.canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const x = (at) => PAD.left + (width - PAD.left - PAD.right) * (1 - (now - at) / SPAN_MS);
    const y = (one) => height - PAD.bottom - (height - PAD.bottom - PAD.top) * Math.min(1, scale.at(one));
    this.canvas.replaceChildren(...this.grid(width, height, x, y), ...this.lines(x, y, height), ...this.cursor(picked, x, y, height));
  }

  text(value) {
    return value === null || value === undefined ? "not known" : this.format(value) + this.unit;
  }

  grid(width, height, x, y) {
    const { ticks } = this.data.scale;
    const sparse = height < 120 ? 2 : 1;
    const rows = ticks.map((tick, at) => {
      const last = at === ticks.length - 1;
      const level = Math.round(y(tick)) + 0.5;
      const shown = at % sparse === 0 || last;
      return [
        svg("line", { class: last ? "base" : "grid", x1: PAD.left, x2: width - PAD.right, y1: level, y2: level }),
        shown ? svg("text", { x: PAD.left - 8, y: level + 4, "text-anchor": "end" }, this.label(tick)) : null,
      ];
    });
    const times = [15, 10, 5, 0].map((ago) =>
      svg("text", { x: x(this.data.now - ago * 60_000), y: height - 4, "text-anchor": ago === 15 ? "start" : ago ? "middle" : "end" }, ago ? `−${ago} min` : "now"));
    return [...rows.flat().filter(Boolean), ...times];
  }

  lines(x, y, height) {
    const parts = [];
    let part = [];
    const { at, values, stepMs, now } = this.data;
    at.forEach((when, index) => {
      const value = values[index];
      const gap = index > 0 && when - at[index - 1] > GAP_STEPS * stepMs;
      if ((value === null || gap) && part.length) {
        parts.push(part);
        part = [];
      }
      if (value !== null && when >= now - SPAN_MS) part.push([x(when).toFixed(1), y(value).toFixed(1)]);
    });
    if (part.length) parts.push(part);
    const base = height - PAD.bottom;
    return parts.flatMap((points) => {
      const line = `M${points.map((point) => point.join(" ")).join("L")}${points.length === 1 ? "h0.1" : ""}`;
      const area = `${line}L${points.at(-1)[0]} ${base}L${points[0][0]} ${base}Z`;
      return [this.filled ? svg("path", { class: "area", d: area }) : null, svg("path", { class: "line", d: line })];
    }).filter(Boolean);
  }

  cursor(picked, x, y, height) {
    if (!picked) return [];
    const at = x(picked.at);
    return [
      svg("line", { class: "cursor", x1: at, x2: at, y1: PAD.top, y2: height - PAD.bottom }),
      picked.value === null ? null : svg("circle", { class: "point", cx: at, cy: y(picked.value), r: 4.5 }),
    ].filter(Boolean);
  }
}
