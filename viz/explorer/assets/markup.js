// Markup: names as in a paper. Python's markup (<i>, <sub>, <sup>, <font>, <br/>) is parsed here into
// lines of runs, so that no text of the data is ever taken for HTML.

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'" };
const cssVariable = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const FONTS = { text: cssVariable("font"), math: cssVariable("math-font") };
const measuring = document.createElement("canvas").getContext("2d");
const parsed = new Map(), widths = new Map();

function readMarkup(markup) {
  if (parsed.has(markup)) return parsed.get(markup);
  const lines = [[]];
  const open = [];
  for (const [, tag, attributes, text] of markup.matchAll(/<(\/?\w+)([^>]*)>|([^<]+)/g).map((m) => [0, m[1], m[2], m[3]])) {
    if (text !== undefined) {
      const plain = text.replace(/&(#?\w+);/g, (all, name) => ENTITIES[name] ?? all);
      lines.at(-1).push({ text: plain, ...Object.assign({}, ...open) });
    } else if (tag === "br") lines.push([]);
    else if (tag.startsWith("/")) open.pop();
    else open.push(styleOf(tag, attributes));
  }
  parsed.set(markup, lines);
  return lines;
}

function styleOf(tag, attributes) {
  if (tag === "i") return { italic: true };
  if (tag === "sub" || tag === "sup") return { shift: tag === "sub" ? 0.28 : -0.42, small: 0.72 };
  if (tag === "font") return attributes.includes("face") ? { math: true } : { small: 0.66, muted: true };
  return {};
}

const plainText = (markup) => readMarkup(markup).map((line) => line.map((run) => run.text).join("")).join(" ");

function sizeOf(run, size) { return size * (run.small ?? 1) * (run.math ? 1.12 : 1); }

function widthOf(markup, size, bold = false) {
  const key = `${size}|${bold}|${markup}`;
  if (widths.has(key)) return widths.get(key);
  let widest = 0;
  for (const line of readMarkup(markup)) {
    let width = 0;
    for (const run of line) {
      measuring.font = `${run.italic ? "italic " : ""}${bold ? "bold " : ""}${sizeOf(run, size)}px ${run.math ? FONTS.math : FONTS.text}`;
      width += measuring.measureText(run.text).width;
    }
    widest = Math.max(widest, width);
  }
  widths.set(key, widest);
  return widest;
}

// An SVG <text> whose lines are centered at (x, y).
function svgText(markup, x, y, size, className = "", anchor = "middle") {
  const text = svg("text", { x, y, class: className, "text-anchor": anchor, "font-size": size });
  const lines = readMarkup(markup);
  lines.forEach((line, i) => {
    let shift = 0;
    line.forEach((run, j) => {
      const span = svg("tspan", { style: `font-size:${sizeOf(run, size)}px` });
      if (j === 0 && lines.length > 1) span.setAttribute("x", x);
      const wanted = (run.shift ?? 0) * size;
      const down = j === 0 ? (i === 0 ? 0.35 - (lines.length - 1) * 0.55 : 1.1) * size : 0;
      if (down || wanted !== shift) span.setAttribute("dy", down + wanted - shift);
      shift = wanted;
      if (run.italic) span.setAttribute("font-style", "italic");
      if (run.math) span.setAttribute("class", "math");
      span.textContent = run.text;
      text.append(span);
    });
  });
  return text;
}

// The same as HTML.
function htmlText(markup) {
  const result = html("span");
  readMarkup(markup).forEach((line, i) => {
    if (i) result.append(" ");
    for (const run of line) {
      const name = run.shift ? (run.shift > 0 ? "sub" : "sup") : run.italic ? "i" : "span";
      const part = html(name, { class: [run.math && "math", run.muted && "muted", run.italic && "italic"].filter(Boolean).join(" ") });
      part.textContent = run.text;
      result.append(part);
    }
  });
  return result;
}

// -- elements ----------------------------------------------------------------------------------

function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function html(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== "" && value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
