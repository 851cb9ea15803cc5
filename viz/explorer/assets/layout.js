// Layout: every element gets its place, every wire its path. The inside of each frame is laid out first, then the
// level above with the resulting sizes.

const PAD = { side: 13, top: 30, bottom: 14 };
const GAP = { right: { along: 30, across: 18 }, up: { along: 30, across: 24 } };
const IN_TIME = 40;  // weight of straightness for wires from step to step, relative to others
const TEXT = { symbol: 15, name: 13, small: 10, title: 14, label: 12 };
const BESIDE = 0.3;  // and how much less one from a weight or from data
const LABELLED = 18;  // between arrows that carry labels
const THUMB = { width: 30, height: 16 };

function layoutScene(scene, showsValues) {
  const wiring = new Wiring(scene);
  for (const edge of scene.edges) if (edge.label) edge.target.labels = (edge.target.labels ?? 0) + 1;
  // Twice: the best ports of a closed box depend on the places of its neighbors.
  for (const isLast of [false, true]) {
    scene.arcs = [];
    const layout = new Layout(scene, wiring, showsValues);
    layout.frame(null);
    layout.settle(scene.roots, 0, 0);
    if (!isLast) layout.preferPorts();
  }
  return scene;
}

// The width and height of a small heat map.
function thumbSize(value) {
  if (!value || !value.heat) return [0, 0];
  const columns = value.columns, rows = rowsOf(value);
  const cell = Math.min(THUMB.width / columns, THUMB.height / rows);
  return [Math.max(8, Math.min(THUMB.width, columns * cell)), Math.max(5, Math.min(THUMB.height, rows * cell))];
}

class Layout {
  constructor(scene, wiring, showsValues) { Object.assign(this, { scene, wiring, showsValues }); }

  // -- sizes -----------------------------------------------------------------------------------

  measure(element) {
    if (element.kind === "mark") this.measureMark(element);
    else if (element.kind !== "frame") this.measureBox(element);
  }

  measureMark(element) {
    const { node, symbol } = element.mark;
    const isSquare = node.isLeaf || node.role === ROLE.label;
    const inside = isSquare ? (node.role === ROLE.fill ? symbol : node.name || symbol) : symbol;
    const lines = readMarkup(inside).length;
    const size = isSquare ? TEXT.name : plainText(inside).length > 6 ? 11 : TEXT.symbol;
    const width = widthOf(inside, size);
    const isSmall = node.role === ROLE.fill;
    const height = isSquare ? (isSmall ? 22 : 30) : Math.max(34, lines * size * 1.1 + 12, LABELLED * (element.labels ?? 0) + 4);
    const shape = {
      isSquare, inside, size, height,
      width: isSquare ? Math.max(height, width + 14) : width <= 22 && lines === 1 ? 34 : width + 22,
    };
    const under = !isSquare && node.name ? node.name : "";
    const thumb = this.showsValues && !isSmall && node.value?.heat ? THUMB.height + 5 : 0;
    element.shape = shape;
    element.under = under;
    element.width = Math.max(shape.width, under ? widthOf(under, TEXT.name) : 0, thumb ? THUMB.width : 0);
    element.height = shape.height + (under ? 16 : 0) + thumb;
    element.centreX = element.width / 2;
    element.centreY = shape.height / 2;
  }

  measureBox(element) {
    const { box } = element;
    if (element.kind === "ellipsis") {
      element.title = `${element.times.length} more`;
      Object.assign(element, { subtitle: "time steps", width: 92, height: 60 });
    } else {
      const time = this.timeOf(element);
      element.title = box.data && time !== null ? `${box.data}<sub>${time}</sub>` : box.kind === "time" ? `t = ${escapeText(box.title)}` : escapeText(box.title);
      element.subtitle = box.data ? "" : escapeText(box.subtitle);
      const thumb = this.showsValues ? THUMB.height + 6 : 0;
      element.width = Math.max(box.data ? 44 : 84, widthOf(element.title, TEXT.title, true) + 28, widthOf(element.subtitle, TEXT.small) + 20);
      element.height = (element.subtitle ? 48 : 38) + thumb;
    }
    this.spreadPorts(element);
  }

  timeOf(element) {
    for (let e = this.scene.elements.get(element.parent); e; e = this.scene.elements.get(e.parent)) if (e.box.kind === "time") return e.box.title;
    return null;
  }

  // The ports of a closed box are spread evenly along each side; in a time step, ports of upper layers are above.
  spreadPorts(element) {
    const sides = { left: [], right: [], top: [], bottom: [] };
    const isTime = this.isTime(element);
    for (const port of this.wiring.ports.get(element.key).values()) sides[port.side].push(port);
    for (const [side, ports] of Object.entries(sides)) {
      const isUpright = side === "left" || side === "right";
      const room = isUpright ? element.height : element.width;
      if (ports.length > 1) element[isUpright ? "height" : "width"] = Math.max(room, 14 * (ports.length + 1));
      const before = (a, b) => (a.wish === undefined ? (isTime ? b.level - a.level : 0) : a.wish - b.wish) || a.order - b.order;
      ports.sort(before).forEach((port, i) => {
        const part = (i + 1) / (ports.length + 1);
        port.x = isUpright ? (side === "left" ? 0 : element.width) : part * element.width;
        port.y = isUpright ? part * element.height : side === "top" ? 0 : element.height;
      });
    }
  }

  // -- one frame -------------------------------------------------------------------------------

  frame(frame) {
    const children = frame ? frame.children : this.scene.roots;
    for (const child of children) {
      if (child.kind === "frame") this.frame(child);
      this.measure(child);
    }
    const flow = flowOf(frame), isRight = flow === "right";
    const ports = frame ? [...this.wiring.ports.get(frame.key).values()] : [];
    const ranked = ports.filter((port) => isRight || port.side === "top" || port.side === "bottom");
    const items = [...children.map((child) => this.childItem(child, isRight)), ...ranked.map((port) => portItem(port, isRight, ranked.filter((other) => other.side === port.side).length))];
    const byElement = new Map(items.map((item) => [item.element ?? item.port, item]));
    const arcs = [], across = [];
    for (const arc of this.wiring.arcs.get(frame?.key ?? null).values()) {
      const a = this.endOf(arc.from, frame, byElement, isRight), b = this.endOf(arc.to, frame, byElement, isRight);
      if (!a.item || !b.item) { across.push({ arc, a, b }); continue; }
      const isFlipped = a.item.rank === "last" || b.item.rank === "first" || (!a.item.rank && !b.item.rank && b.item.order < a.item.order);
      const [low, high] = isFlipped ? [b, a] : [a, b];
      const room = arc.label ? widthOf(arc.label, TEXT.label) + 22 : 0;
      const weight = !frame && [a, b].every(({ child }) => child && this.isTime(child)) ? IN_TIME : a.child?.mark?.node.isLeaf ? BESIDE : undefined;
      arcs.push({ key: arc.key, low: low.item.key, high: high.item.key, lowAt: low.at, highAt: high.at, room, weight, isFlipped, arc, from: a, to: b });
    }
    this.keepTimeInOrder(children, arcs);
    const size = layered(items, arcs, GAP[flow]);
    this.turn(frame, items, size, isRight);
    this.placePorts(frame, ranked, byElement, size, isRight);
    for (const arc of arcs) if (arc.arc) this.trace(frame, arc, size, isRight);
    for (const { arc, a, b } of across) this.traceAcross(frame, arc, a, b);
    this.spreadArrows(frame, arcs, isRight);
  }

  childItem(child, isRight) {
    const along = isRight ? child.width : child.height, across = isRight ? child.height : child.width;
    const inset = child.kind === "mark" && isRight ? (child.width - child.shape.width) / 2 : 0;
    return { key: child.key, element: child, along, across, inset, order: child.first, pin: 0 };
  }

  // End of an arc: an item of the layout, and the offset from its center; no item for the side ports of a time step.
  endOf(end, frame, byElement, isRight) {
    if (frame && end.element === frame) return { item: byElement.get(end.port), at: 0, port: end.port };
    const item = byElement.get(end.element), child = end.element;
    const place = end.port ? (isRight ? end.port.y : end.port.x) : isRight ? child.centreY : child.centreX;
    return { item, at: place - item.across / 2, child, childPort: end.port };
  }

  isTime(child) { return child.kind === "ellipsis" || child.box?.kind === "time"; }

  keepTimeInOrder(children, arcs) {
    const place = (child) => (child.kind === "ellipsis" ? child.times[0] : child.box).first;
    const steps = children.filter((child) => this.isTime(child) && child.parent === null).sort((a, b) => place(a) - place(b));
    for (let i = 0; i + 1 < steps.length; i++) {
      arcs.push({ key: `time ${i}`, low: steps[i].key, high: steps[i + 1].key, lowAt: 0, highAt: 0, room: 0 });
    }
  }

  // From along and across to x and y.
  turn(frame, items, size, isRight) {
    const pad = frame ? PAD : { side: 0, top: 0, bottom: 0 };
    for (const item of items) {
      const start = isRight ? item.start : size.along - item.start - item.along;
      const cross = item.centre - item.across / 2;
      item.x = pad.side + (isRight ? start : cross);
      item.y = pad.top + (isRight ? cross : start);
      if (item.element) Object.assign(item.element, { x: item.x, y: item.y });
    }
    if (frame) {
      const title = widthOf(frameTitle(frame), TEXT.title, true) + 44;
      frame.width = Math.max(title, (isRight ? size.along : size.across) + 2 * PAD.side);
      frame.height = (isRight ? size.across : size.along) + PAD.top + PAD.bottom;
    }
  }

  placePorts(frame, ranked, byElement, size, isRight) {
    for (const port of ranked) {
      const item = byElement.get(port);
      if (port.side === "left" || port.side === "right") {
        port.x = port.side === "left" ? 0 : frame.width;
        port.y = item.y + item.across / 2;
      } else {
        const slots = ranked.filter((other) => other.side === port.side);
        port.x = isRight ? item.x + 6 + 10 * slots.indexOf(port) : item.x + item.across / 2;
        port.y = port.side === "top" ? 0 : frame.height;
      }
    }
  }

  // -- paths -----------------------------------------------------------------------------------

  trace(frame, { arc, points, via, isFlipped, from, to }, size, isRight) {
    const pad = frame ? PAD : { side: 0, top: 0 };
    let path = points.map(([along, across]) => isRight ? [pad.side + along, pad.top + across] : [pad.side + across, pad.top + size.along - along]);
    if (isFlipped) path.reverse();
    let elbow = "";
    for (const [end, isStart] of [[from, true], [to, false]]) {
      if (!end.port) continue;
      const corner = isRight && (end.port.side === "top" || end.port.side === "bottom");
      if (corner) elbow = isStart ? "start" : "end";
      path = isStart ? [[end.port.x, end.port.y], ...path.slice(corner ? 2 : 1)] : [...path.slice(0, corner ? -2 : -1), [end.port.x, end.port.y]];
    }
    this.scene.arcs.push(Object.assign(arc, { frame, path, elbow, isRight }));
    const places = new Set(via.flatMap((dummy) => [dummy.centre]));
    arc.via = path.map(([px, py]) => places.has((isRight ? py - pad.top : px - pad.side)));
  }

  // Into or out of a time step from its side: straight to the element there.
  traceAcross(frame, arc, a, b) {
    const spot = (end, other) => {
      const { child, childPort } = end;
      if (childPort) return [child.x + childPort.x, child.y + childPort.y];
      const inset = (child.width - child.shape.width) / 2;
      const isLeft = other.port.side === "left";
      return [child.x + (isLeft ? inset : child.width - inset), child.y + child.centreY];
    };
    const [inner, outer] = a.port ? [b, a] : [a, b];
    const place = spot(inner, outer);
    const port = outer.port;
    port.spots = [...(port.spots ?? []), place[1]];
    port.x = port.side === "left" ? 0 : frame.width;
    port.y = mean(port.spots);
    const ends = [[port.x, port.y], place];
    this.scene.arcs.push(Object.assign(arc, { frame, path: a.port ? ends : ends.reverse(), elbow: "", isRight: true, port, portIsFirst: Boolean(a.port) }));
  }

  // Several arrows into one circle end side by side.
  spreadArrows(frame, arcs, isRight) {
    const ends = new Map();
    for (const { arc } of arcs) {
      if (!arc || arc.to.element.kind !== "mark" || !isRight) continue;
      const key = arc.to.element.key;
      ends.set(key, [...(ends.get(key) ?? []), arc]);
    }
    for (const group of ends.values()) {
      if (group.length < 2) continue;
      const { shape } = group[0].to.element;
      const step = Math.min(group.some((arc) => arc.label) ? LABELLED : 8, (shape.height * 0.72) / (group.length - 1));
      const from = (arc) => arc.path[Math.max(0, arc.path.length - 3)][1];
      group.sort((a, b) => from(a) - from(b)).forEach((arc, i) => {
        const off = (i - (group.length - 1) / 2) * step, radius = cornerOf(shape);
        const over = Math.max(0, Math.abs(off) - (shape.height / 2 - radius));
        const bend = radius - Math.sqrt(Math.max(0, radius * radius - over * over));
        const [ex, ey] = arc.path.at(-1), towards = Math.sign(ex - arc.path.at(-2)[0]) || 1;
        // The straight piece before the arrow moves with it.
        for (let k = arc.path.length - 2; k > 0 && Math.abs(arc.path[k][1] - ey) < 0.5 && !arc.via[k]; k--) arc.path[k] = [arc.path[k][0], ey + off];
        arc.path[arc.path.length - 1] = [ex + bend * towards, ey + off];
      });
    }
  }

  // Preferred place of each port: level with the other ends of its wires, outside of its frame.
  preferPorts() {
    const wishes = new Map();
    const inwards = (arc) => [arc.from, arc.to].some((end) => end.element === arc.frame);
    for (const arc of [...this.scene.arcs].sort((a, b) => inwards(a) - inwards(b))) {
      const { from, to, points, frame } = arc;
      for (const [end, other, place] of [[from, to, points.at(-1)], [to, from, points[0]]]) {
        if (!end.port || end.element === frame) continue;
        const wish = (other.element === frame && wishes.get(other.port)) || [end.port.side === "left" || end.port.side === "right" ? place[1] : place[0]];
        wishes.set(end.port, [...(wishes.get(end.port) ?? []), ...wish]);
      }
    }
    for (const [port, places] of wishes) port.wish = Math.round(mean(places) / 4);
    for (const ports of this.wiring.ports.values()) for (const port of ports.values()) port.spots = undefined;
  }

  // Absolute places, and paths as SVG.
  settle(elements, x, y) {
    for (const element of elements) {
      element.x += x;
      element.y += y;
      if (element.kind === "frame") this.settle(element.children, element.x, element.y);
    }
    if (elements !== this.scene.roots) return;
    const segments = new Map();
    for (const arc of this.scene.arcs) {
      if (arc.port) arc.path[arc.portIsFirst ? 0 : 1] = [arc.port.x, arc.port.y];
      arc.points = arc.path.map(([px, py]) => [px + (arc.frame?.x ?? 0), py + (arc.frame?.y ?? 0)]);
      // Wires of one bundle share most of their way: each piece is drawn once.
      const pieces = pathPieces(arc.points, arc.elbow, arc.isRight);
      pieces.forEach((d, i) => {
        const isEnd = i === pieces.length - 1 && arc.isLast;
        const key = `${arc.role}${isEnd ? "→" : ""}${d}`;
        if (!segments.has(key)) segments.set(key, { d, role: arc.role, isEnd, edges: [] });
        segments.get(key).edges.push(...arc.edges);
      });
    }
    this.scene.segments = [...segments.values()];
  }
}

const cornerOf = (shape) => (shape.isSquare ? 3 : Math.min(shape.height, shape.width, 44) / 2);

function portItem(port, isRight, beside) {
  const isFirst = port.side === "left" || port.side === "bottom";
  const corner = isRight && (port.side === "top" || port.side === "bottom");
  const pin = corner ? (port.side === "bottom" ? 1 : -1) : 0;
  return { key: port.key, port, along: corner ? 10 * beside + 6 : 4, across: corner ? 2 : 12, order: port.order, rank: isFirst ? "first" : "last", pin };
}

function frameTitle({ box }) {
  if (box.kind === "time") return `t = ${escapeText(box.title)}`;
  return escapeText([box.title, box.subtitle].filter(Boolean).join(", "));
}

const escapeText = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

// The pieces of a path between its points; straight ones are joined.
function pathPieces(points, elbow, isRight) {
  const round = (x) => Math.round(x * 10) / 10;
  const pieces = [];
  let start = points[0];
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = start, [x1, y1] = points[i];
    let d = "";
    const isElbow = (elbow === "start" && i === 1) || (elbow === "end" && i === points.length - 1);
    if (isElbow) {
      const r = Math.min(16, Math.abs(x1 - x0) / 2, Math.abs(y1 - y0) / 2);
      const sx = Math.sign(x1 - x0) * r, sy = Math.sign(y1 - y0) * r;
      d += elbow === "start"
        ? `L${[x0, y1 - sy].map(round)}Q${[x0, y1, x0 + sx, y1].map(round)}L${[x1, y1].map(round)}`
        : `L${[x1 - sx, y0].map(round)}Q${[x1, y0, x1, y0 + sy].map(round)}L${[x1, y1].map(round)}`;
    } else if (Math.abs(isRight ? y1 - y0 : x1 - x0) < 0.5) {
      const next = points[i + 1];
      const goesOn = next && !(elbow === "end" && i + 1 === points.length - 1) && Math.abs(isRight ? next[1] - y0 : next[0] - x0) < 0.5;
      if (goesOn || Math.hypot(x1 - x0, y1 - y0) < 0.1) continue;
      d += `L${[x1, y1].map(round)}`;
    } else if (isRight) d += `C${[(x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1].map(round)}`;
    else d += `C${[x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1].map(round)}`;
    pieces.push(`M${start.map(round)}${d}`);
    start = points[i];
  }
  return pieces;
}
