// Wires: an edge between two elements, cut at the border of every frame that it crosses. Where it crosses is a port;
// a value with several readers inside a frame enters by one port, and branches after it.

const OPPOSITE = { left: "right", right: "left", top: "bottom", bottom: "top" };

// Time steps are filled from bottom to top; all else runs from left to right.
const flowOf = (frame) => (frame?.box.kind === "time" ? "up" : "right");

const MANY = 4;

class Wiring {
  constructor(scene) {
    this.scene = scene;
    this.ports = new Map([...scene.elements.keys()].map((key) => [key, new Map()]));
    this.arcs = new Map([[null, new Map()]]);
    for (const element of scene.elements.values()) if (element.kind === "frame") this.arcs.set(element.key, new Map());
    this.bundle(scene.edges);
    for (const edge of scene.edges) this.lay(edge);
  }

  // A reader of many values (the cost, those of all time steps) gets them by one line; so does a closed composite, and
  // values from one closed composite to another.
  bundle(edges) {
    const pairOf = (edge) => `${edge.source.key}|${edge.target.key}`;
    const isClosed = (element) => element.kind === "box" || element.kind === "ellipsis";
    const readers = countBy(edges, (edge) => edge.links[0].to), pairs = countBy(edges, pairOf);
    const entries = new Map();
    for (const edge of edges) {
      const isPair = pairs.get(pairOf(edge)) > MANY && isClosed(edge.source) && isClosed(edge.target);
      edge.exit = isPair ? pairOf(edge) : edge.wire;
      edge.entry = readers.get(edge.links[0].to) > MANY ? `to ${edge.links[0].to}` : edge.exit;
      entries.set(edge.target.key, (entries.get(edge.target.key) ?? new Set()).add(edge.entry));
    }
    for (const edge of edges) {
      if (isClosed(edge.target) && entries.get(edge.target.key).size > 2 * MANY) edge.entry = `into ${edge.target.key}`;
    }
  }

  // The element, and the frames around it, up to the outermost.
  chain(element) {
    const list = [];
    for (let e = element; e; e = this.scene.elements.get(e.parent)) list.push(e);
    return list;
  }

  lay(edge) {
    const up = this.chain(edge.source), down = this.chain(edge.target);
    while (up.length && down.length && up.at(-1) === down.at(-1)) { up.pop(); down.pop(); }
    const meeting = this.scene.elements.get(up.at(-1).parent) ?? null;
    const isBack = down.at(-1).first < up.at(-1).first;
    const outwards = up.map((element) => this.end(edge, element, "out", this.side(meeting, element, isBack)));
    const inwards = down.map((element) => this.end(edge, element, "in", OPPOSITE[this.side(meeting, element, isBack)]));
    for (let i = 0; i + 1 < outwards.length; i++) this.arc(up[i + 1], outwards[i], outwards[i + 1], edge);
    this.arc(meeting, outwards.at(-1), inwards.at(-1), edge);
    for (let i = inwards.length - 2; i >= 0; i--) this.arc(down[i + 1], inwards[i + 1], inwards[i], edge);
  }

  // Side at which a value leaves an element: along the flow of the common frame of source and target.
  side(meeting, element, isBack) {
    const parent = this.scene.elements.get(element.parent) ?? null;
    const flow = flowOf(parent) === "right" ? "right" : flowOf(meeting);
    const side = flow === "right" ? "right" : "top";
    return isBack ? OPPOSITE[side] : side;
  }

  end(edge, element, way, side) {
    if (element.kind === "mark") return { element, port: null, key: element.key };
    const key = `${way}|${way === "in" || element.kind === "ellipsis" ? edge.entry : edge.exit}|${side}`;
    const ports = this.ports.get(element.key);
    if (!ports.has(key)) ports.set(key, { key, side, way, order: edge.order, x: 0, y: 0 });
    const port = ports.get(key);
    port.order = Math.min(port.order, edge.order);
    port.level = Math.max(port.level ?? -1, edge.level);
    return { element, port, key: `${element.key}:${key}` };
  }

  arc(frame, from, to, edge) {
    const arcs = this.arcs.get(frame?.key ?? null);
    const isLast = to.element === edge.target && to.element !== frame;
    const label = isLast ? edge.label : "";
    const key = `${from.key}→${to.key}|${label}`;
    if (!arcs.has(key)) arcs.set(key, { key: `${frame?.key ?? ""}/${key}`, from, to, label, isLast, role: edge.role, edges: [] });
    arcs.get(key).edges.push(edge);
  }
}
