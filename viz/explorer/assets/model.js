// Model: the page's data as objects. See payload.py for the tables they are read from.

const ROLE = { operator: 0, input: 1, parameter: 2, constant: 3, label: 4, fill: 5 };

function readModel(data) {
  const text = (place) => (place < 0 ? "" : data.texts[place]);
  const values = data.values.map(([min, mean, max, norm, columns, heat, numbers]) =>
    ({ min, mean, max, norm, columns, heat, numbers }));
  const boxes = data.boxes.map(([parent, kind, title, subtitle], id) => ({
    id, kind, parent: parent < 0 ? null : parent,
    title: typeof title === "object" ? String(title.number) : text(title),
    order: typeof title === "object" ? title.number : null,
    subtitle: text(subtitle),
  }));
  const ops = data.ops.map(([name, formula]) => ({ name: text(name), formula: text(formula) }));
  const nodes = data.nodes.map(([op, name, symbol, shape, dtype, origin, box, inputs, role, value, stem, plain], id) => ({
    id, op: ops[op], name: text(name), symbol: text(symbol), shape, dtype: text(dtype), origin: text(origin),
    box: box < 0 ? null : box, inputs, role, value: value < 0 ? null : values[value], stem, plain: text(plain),
    isLeaf: role !== ROLE.operator && role !== ROLE.label,
  }));
  const stages = data.stages.map((stage) => ({
    name: stage.name, order: stage.order, gone: stage.gone,
    outputs: new Set(stage.outputs), fresh: new Set(stage.fresh),
    place: new Map(stage.order.map((id, i) => [id, i])),
    drawn: { compact: readCompact(stage.compact, text), full: stage.order.map((id) => asItIs(nodes[id])) },
  }));
  const changes = data.changes ? new Changes(data.changes) : null;
  return new Model({
    title: data.title, about: data.about, boxes, nodes, stages, changes,
    backward: readDerivative(data.backward, nodes), rop: readDerivative(data.rop, nodes),
  });
}

class Model {
  constructor(parts) { Object.assign(this, parts); }

  // Value of a node, or its gradient or tangent, after what the reader has changed; null if it has none.
  valueOf(id, mode = "forward") {
    if (this.changes?.some) return this.changes.value(mode, id);
    const found = mode === "forward" ? id : this[mode]?.of.get(id);
    return found === undefined ? null : this.nodes[found].value;
  }
}

function asItIs(node) {
  return { id: node.id, symbol: node.symbol, operands: node.inputs.map((source) => ({ source, label: "" })) };
}

function readCompact(rows, text) {
  return rows.map(([id, symbol, ...rest]) => {
    const operands = [];
    for (let i = 0; i < rest.length; i += 2) operands.push({ source: rest[i], label: text(rest[i + 1]) });
    return { id, symbol: text(symbol), operands };
  });
}

// of: from a node to its derivative. at: back; one derivative may be that of several nodes (y and a label on it), and
// is described by the one that has a name, else by the last.
function readDerivative(derivative, nodes) {
  if (!derivative) return null;
  const of = new Map(), at = new Map();
  for (let i = 0; i < derivative.of.length; i += 2) {
    const [id, found] = derivative.of.slice(i, i + 2);
    of.set(id, found);
    if (nodes[id].name || !nodes[at.get(found)]?.name) at.set(found, id);
  }
  return { of, at, made: new Map(derivative.made.map(([id, ...made]) => [id, made])) };
}

// Formats a number; values that JSON cannot hold are strings.
function asNumber(x, digits = 4) {
  if (typeof x !== "number") return { inf: "∞", "-inf": "−∞" }[x] || x;
  if (Number.isInteger(x) && Math.abs(x) < 1e6) return String(x).replace("-", "−");
  const isFar = Math.abs(x) < 1e-3 || Math.abs(x) >= 1e6;
  const [mantissa, exponent] = (isFar ? x.toExponential(digits - 1) : x.toPrecision(digits)).split("e");
  const short = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  const power = exponent ? `·10${[...String(Number(exponent))].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("")}` : "";
  return short.replace("-", "−") + power;
}

const asShape = (shape) => shape.join(" × ");
