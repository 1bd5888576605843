// Elements from what they are: names, attributes, children. Texts are texts, never markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const html = (name, attributes = {}, ...children) =>
  fill(document.createElement(name), attributes, children);

export const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

const shown = new WeakMap();

// Draws anew only where what is to be shown is another: selections and focus stay.
export function render(place, what, draw) {
  const key = JSON.stringify(what);
  if (shown.get(place) === key) return;
  shown.set(place, key);
  place.replaceChildren(...[draw()].flat().filter(Boolean));
}

// `commands` in a sentence become code.
export function sentence(text) {
  return text.split("`").map((part, at) => (at % 2 ? html("code", {}, part) : part));
}
