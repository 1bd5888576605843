// How a node's state is told: a word, a shape and a colour, each enough alone.
import { svg } from "./elements.js";

const LOOKS = {
  online: { tone: "good", shape: "disc" },
  standby: { tone: "calm", shape: "half" },
  joining: { tone: "warn joining", shape: "ring" },
  pausing: { tone: "warn", shape: "bars" },
  paused: { tone: "warn", shape: "bars" },
  closing: { tone: "warn hollow", shape: "arrow" },
  offline: { tone: "calm", shape: "ring" },
  unreachable: { tone: "bad", shape: "cross" },
  stopped: { tone: "bad", shape: "cross" },
};

export function look(node) {
  const stands = node.says.some(([what]) => what === "error");
  let key = node.state;
  let word = node.state;
  if (node.unreachable) {
    key = "unreachable";
    word = node.state === "online" ? "unreachable" : `${node.state}, unreachable`;
  } else if (stands) {
    key = "stopped";
    word = node.state === "online" ? "in trouble" : `${node.state}, in trouble`;
  } else if (node.state === "online" && node.role === "standby") {
    key = "standby";
    word = "standby";
  }
  const { tone, shape } = LOOKS[key] || LOOKS.offline;
  return { word, tone, shape };
}

// Around (x, y), six units to each side.
export function mark(shape, x = 7, y = 7) {
  const at = { class: "mark" };
  switch (shape) {
    case "disc":
      return svg("circle", { ...at, cx: x, cy: y, r: 4.5 });
    case "ring":
      return svg("circle", { ...at, cx: x, cy: y, r: 4.5, "stroke-dasharray": "2.5 3" });
    case "half":
      return svg("g", {}, svg("circle", { ...at, cx: x, cy: y, r: 4.5 }),
        svg("path", { ...at, d: `M${x} ${y - 4.5}v9` }));
    case "bars":
      return svg("path", { ...at, d: `M${x - 3} ${y - 4.5}v9M${x + 3} ${y - 4.5}v9`, "stroke-width": 3 });
    case "arrow":
      return svg("path", { ...at, d: `M${x - 5} ${y}h9m-4-4 4 4-4 4` });
    default:
      return svg("path", { ...at, d: `M${x - 4} ${y - 4}l8 8m0-8l-8 8` });
  }
}

export function badge(node) {
  const { word, tone, shape } = look(node);
  const span = document.createElement("span");
  span.className = `state ${tone}`;
  span.append(svg("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, mark(shape)), word);
  return span;
}
