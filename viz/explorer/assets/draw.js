// Draw: the scene as SVG. Elements keep their place on the screen, or glide to their new one.

const MARKERS = ["inner", "input", "output"];
const LIVELY = 200;  // with more elements than these, nothing glides or fades: browsers would stutter
const ZOOM = { least: 0.05, most: 4, step: 1.25 };

class Canvas {
  constructor(root, on) {
    this.root = root;
    this.on = on;
    this.pan = { x: 0, y: 0 };
    this.zoom = 1;
    this.isWhole = true;  // until the reader moves or zooms
    this.shapes = new Map();
    this.layers = Object.fromEntries(["frames", "arcs", "labels", "nodes"].map((name) => [name, svg("g", { class: name })]));
    this.world = svg("g", { class: "world" }, ...Object.values(this.layers));
    const markers = MARKERS.map((role) => svg("marker", {
      id: `arrow-${role}`, class: role, viewBox: "0 0 10 10", refX: 9.5, refY: 5, markerWidth: 8, markerHeight: 8,
      markerUnits: "userSpaceOnUse", orient: "auto-start-reverse",
    }, svg("path", { d: "M0 1L10 5L0 9Z" })));
    root.append(svg("defs", {}, ...markers), this.world);
    this.listen();
  }

  // -- pan and zoom ----------------------------------------------------------------------------

  listen() {
    let drag = null;
    this.root.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      drag = { x: event.clientX, y: event.clientY, pan: { ...this.pan }, moved: false, id: event.pointerId };
    });
    this.root.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (!drag.moved && Math.hypot(dx, dy) < 4) return;
      if (!drag.moved) this.root.setPointerCapture(drag.id);
      drag.moved = true;
      this.on.hover(null);
      this.isWhole = false;
      this.pan = { x: drag.pan.x + dx, y: drag.pan.y + dy };
      this.transform();
    });
    const end = () => { this.wasDragged = Boolean(drag?.moved); drag = null; };
    this.root.addEventListener("pointerup", end);
    this.root.addEventListener("pointercancel", end);
    this.root.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = this.root.getBoundingClientRect();
      this.zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
  }

  zoomBy(factor, x = this.root.clientWidth / 2, y = this.root.clientHeight / 2) {
    const zoom = Math.min(ZOOM.most, Math.max(ZOOM.least, this.zoom * factor));
    this.isWhole = false;
    this.pan = { x: x - ((x - this.pan.x) * zoom) / this.zoom, y: y - ((y - this.pan.y) * zoom) / this.zoom };
    this.zoom = zoom;
    this.transform();
  }

  fit() {
    const box = this.extent;
    this.isWhole = true;
    const room = 40;
    const width = this.root.clientWidth - 2 * room, height = this.root.clientHeight - 2 * room;
    this.zoom = Math.min(1.5, Math.max(ZOOM.least, Math.min(width / box.width, height / box.height)));
    this.pan = {
      x: (this.root.clientWidth - box.width * this.zoom) / 2 - box.x * this.zoom,
      y: (this.root.clientHeight - box.height * this.zoom) / 2 - box.y * this.zoom,
    };
    this.transform();
  }

  // Moves no more than is needed for an element to be in view.
  show(element) {
    const margin = 60;
    const clamp = (start, size, room) => {
      if (size > room - 2 * margin) return room / 2 - (start + size / 2);
      return Math.max(0, margin - start) + Math.min(0, room - margin - start - size);
    };
    const dx = clamp(this.pan.x + element.x * this.zoom, element.width * this.zoom, this.root.clientWidth);
    const dy = clamp(this.pan.y + element.y * this.zoom, element.height * this.zoom, this.root.clientHeight);
    if (!dx && !dy) return;
    this.pan = { x: this.pan.x + dx, y: this.pan.y + dy };
    this.transform(true);
  }

  // Near enough to read what has been opened, as far as it fits.
  approach(frame) {
    const fits = Math.min((this.root.clientWidth - 80) / frame.width, (this.root.clientHeight - 80) / frame.height);
    const zoom = Math.min(1, fits);
    this.isWhole = false;
    if (zoom > this.zoom) {
      const x = this.pan.x + frame.x * this.zoom, y = this.pan.y + frame.y * this.zoom;
      this.zoom = zoom;
      this.pan = { x: x - frame.x * zoom, y: y - frame.y * zoom };
    }
    this.show(frame);
    this.transform(true);
  }

  transform(smoothly = false) {
    this.world.classList.toggle("smooth", smoothly && !this.isStill);
    this.world.style.transform = `translate(${this.pan.x}px, ${this.pan.y}px) scale(${this.zoom})`;
  }

  // -- drawing ---------------------------------------------------------------------------------

  // anchor: the element that stays where it is on the screen.
  render(scene, anchor) {
    const before = this.scene?.elements;
    const [old, now] = [before?.get(anchor), scene.elements.get(anchor)];
    if (old && now) {
      this.pan = { x: this.pan.x + (old.x - now.x) * this.zoom, y: this.pan.y + (old.y - now.y) * this.zoom };
      this.transform();
    }
    const shift = old && now ? { x: now.x - old.x, y: now.y - old.y } : { x: 0, y: 0 };
    this.scene = scene;
    this.shapes.clear();
    for (const layer of Object.values(this.layers)) layer.replaceChildren();
    const elements = [...scene.elements.values()];
    this.isStill = elements.length > LIVELY;
    this.root.classList.toggle("still", this.isStill);
    for (const element of elements) {
      const group = this.drawElement(element);
      this.shapes.set(element.key, group);
      this.layers[element.kind === "frame" ? "frames" : "nodes"].append(group);
      const from = before?.get(element.key);
      this.glide(group, from && { x: from.x + shift.x, y: from.y + shift.y }, element);
    }
    for (const segment of scene.segments) {
      segment.shape = svg("path", { class: `arc ${segment.role}`, d: segment.d, "marker-end": segment.isEnd ? `url(#arrow-${segment.role})` : null });
      this.layers.arcs.append(segment.shape);
    }
    for (const arc of scene.arcs) {
      if (!arc.label) continue;
      const [x, y] = arc.points.at(-1);
      arc.shape = svgText(arc.label, x - 14, y, TEXT.label, "label", "end");
      this.layers.labels.append(arc.shape);
    }
    const corners = [...elements.map((e) => [e.x + e.width, e.y + e.height]), ...scene.arcs.flatMap((arc) => arc.points)];
    const [right, bottom] = corners.reduce(([x, y], [cx, cy]) => [Math.max(x, cx), Math.max(y, cy)], [1, 1]);
    this.extent = { x: 0, y: 0, width: right, height: bottom };
  }

  glide(group, from, to) {
    const place = (at) => `translate(${at.x}px, ${at.y}px)`;
    if (this.isStill) { /* it is there at once */ }
    else if (!from) group.classList.add("appears");
    else if (from.x !== to.x || from.y !== to.y) {
      group.animate?.([{ transform: place(from) }, { transform: place(to) }], { duration: motion(), easing: "ease-in-out" });
    }
    group.style.transform = place(to);
  }

  drawElement(element) {
    const draw = { mark: markShape, box: boxShape, ellipsis: boxShape, frame: frameShape }[element.kind];
    const group = draw(element);
    group.id = `el-${element.key}`;
    group.dataset.key = element.key;
    group.setAttribute("tabindex", "-1");
    group.setAttribute("role", "button");
    group.addEventListener("click", (event) => { if (!this.wasDragged) this.on.click(element, event); });
    group.addEventListener("pointerenter", (event) => { if (!event.buttons) this.on.hover(element, event); });
    group.addEventListener("pointerleave", () => this.on.hover(null));
    return group;
  }
}

const motion = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 280);

// -- shapes ------------------------------------------------------------------------------------

const ROLE_NAMES = Object.keys(ROLE);

function markShape(element) {
  const { mark, shape } = element;
  const left = element.centreX - shape.width / 2;
  const group = svg("g", { class: `mark ${ROLE_NAMES[mark.node.role]}${mark.isCost ? " cost" : ""}${mark.isOutput ? " result" : ""}` });
  const radius = cornerOf(shape);
  group.append(svg("rect", { class: "shape", x: left, y: 0, width: shape.width, height: shape.height, rx: radius }));
  group.append(svgText(shape.inside, element.centreX, shape.height / 2, shape.size));
  if (element.under) group.append(svgText(element.under, element.centreX, shape.height + 9, TEXT.name, "under"));
  return withThumb(group, element.centreX, shape.height + (element.under ? 16 : 0) + 4);
}

function boxShape(element) {
  const isData = Boolean(element.box?.isData), hasCost = Boolean(element.box?.hasCost);
  const group = svg("g", { class: `box ${element.kind}${isData ? " data" : ""}${hasCost ? " cost" : ""}` });
  const { width, height } = element;
  if (!isData) group.append(svg("rect", { class: "behind", x: 4, y: 4, width, height, rx: 8 }));
  group.append(svg("rect", { class: "shape", x: 0, y: 0, width, height, rx: isData ? 3 : 8 }));
  const top = element.subtitle ? 17 : 20;
  group.append(svgText(element.title, width / 2, top, TEXT.title, "title"));
  if (element.subtitle) group.append(svgText(element.subtitle, width / 2, top + 16, TEXT.small, "subtitle"));
  group.append(svg("path", { class: "sign", d: `M${width - 13} 9h6m-3 -3v6` }));
  return withThumb(group, width / 2, (element.subtitle ? 44 : 36));
}

function frameShape(element) {
  const { width, height, box } = element;
  const group = svg("g", { class: `frame ${box.kind}${box.hasCost ? " cost" : ""}` });
  group.append(svg("rect", { class: "shape", x: 0, y: 0, width, height, rx: 10 }));
  group.append(svg("rect", { class: "bar", x: 0, y: 0, width, height: 24, rx: 10 }));
  group.append(svgText(frameTitle(element), 12, 13, TEXT.name, "title", "start"));
  group.append(svg("path", { class: "sign", d: `M${width - 20} 13h8` }));
  return group;
}

function withThumb(group, x, y) {
  const image = svg("image", { class: "thumb", preserveAspectRatio: "none" });
  Object.assign(image.dataset, { x, y });
  group.append(image, svg("text", { class: "thumb-number", x, y: y + 10, "text-anchor": "middle" }));
  return group;
}

function setThumb(group, value) {
  const image = group.querySelector(".thumb");
  if (!image) return;
  const isNumber = value?.heat.length === 1;
  image.classList.toggle("none", !value?.heat || isNumber);
  group.querySelector(".thumb-number").textContent = isNumber ? asNumber(value.mean, 3) : "";
  if (!value?.heat || isNumber) return;
  const [width, height] = thumbSize(value);
  image.setAttribute("href", heatPicture(value));
  for (const [key, number] of Object.entries({ x: image.dataset.x - width / 2, y: image.dataset.y, width, height })) image.setAttribute(key, number);
}
