// Heat maps: letters of 64 levels, as pictures of a few pixels that the page enlarges.

const LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
let scales = null;
let pictures = new Map();

const channels = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));

// A color on a scale of evenly spaced stops.
function between(stops, place) {
  const along = Math.min(1, Math.max(0, place)) * (stops.length - 1);
  const left = Math.min(Math.floor(along), stops.length - 2);
  return stops[left].map((a, i) => Math.round(a + (stops[left + 1][i] - a) * (along - left)));
}

function colourScales() {
  if (!scales) {
    const stops = (name) => cssVariable(name).split(",").map((colour) => channels(colour.trim()));
    scales = { diverging: stops("diverging"), sequence: stops("sequence"), muted: channels(cssVariable("muted")) };
  }
  return scales;
}

function forgetColours() { scales = null; pictures = new Map(); }

const rowsOf = (value) => Math.max(1, value.heat.length / Math.max(1, value.columns));

// The heat map of a value as the address of a picture, one pixel for each cell.
function heatPicture(value) {
  if (pictures.has(value)) return pictures.get(value);
  const { diverging, muted } = colourScales();
  const columns = Math.max(1, value.columns), rows = rowsOf(value);
  const canvas = html("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  [...value.heat].forEach((letter, i) => {
    const level = LEVELS.indexOf(letter);
    const colour = level < 0 ? muted : between(diverging, (level - 32) / 62 + 0.5);
    image.data.set([...colour, 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
  const address = canvas.toDataURL();
  pictures.set(value, address);
  return address;
}

// Logarithmic position of a norm between the minimum and maximum of a derivative.
function normScale(norms) {
  const found = norms.filter((norm) => typeof norm === "number" && norm > 0);
  const low = Math.log(Math.min(...found)), high = Math.log(Math.max(...found));
  return {
    low: Math.exp(low), high: Math.exp(high), some: found.length > 0,
    place: (norm) => (typeof norm !== "number" || norm <= 0 ? 0 : high > low ? (Math.log(norm) - low) / (high - low) : 1),
  };
}

function heatColour(place) { return `rgb(${between(colourScales().sequence, place).join(",")})`; }

function inkOn(place) {
  const [r, g, b] = between(colourScales().sequence, place);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#111111" : "#ffffff";
}
