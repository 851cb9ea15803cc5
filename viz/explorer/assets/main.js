// Main: state of the view, and all actions on it.

const FEW = 90;          // maximum number of elements of a graph without time steps that are opened at the start
const SHOWN_TIMES = 7;   // time steps that are shown of a longer sequence
const MORE_TIMES = 10;   // and how many more at each asking

class App {
  constructor(model) {
    Object.assign(this, { model, stageIndex: 0, mode: "forward", at: null, selected: null, id: null, showsValues: true });
    this.parts = Object.fromEntries([...document.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.panel = new Panel(this.parts.panel, this);
    this.canvas = new Canvas(this.parts.picture, { click: (element, event) => this.clicked(element, event), hover: (element, event) => this.hovered(element, event) });
    this.style = "compact";
    this.fillBars();
    this.begin();
    this.canvas.fit();
    listenToKeys(this);
    listenToSearch(this);
    document.documentElement.dataset.ready = "yes";
  }

  get stage() { return this.model.stages[this.stageIndex]; }

  // -- the picture -------------------------------------------------------------------------------

  begin() {
    this.view = new View(this.model, this.stage, this.style);
    const ids = this.view.times.map((box) => box.id);
    const tail = ids.length > SHOWN_TIMES + 4 ? 2 : SHOWN_TIMES + 4;
    this.shown = new Set(ids.length > SHOWN_TIMES + 4 ? [...ids.slice(0, SHOWN_TIMES - tail), ...ids.slice(-tail)] : ids);
    const isSmall = !this.view.times.length && this.view.marks.size <= FEW;
    this.open = new Set(isSmall ? this.view.boxes.keys() : this.view.times.map((box) => box.id));
    this.draw(null);
  }

  draw(anchor) {
    this.scene = layoutScene(this.view.visible(this.open, this.shown), this.showsValues);
    this.canvas.render(this.scene, anchor);
    this.count();
    if (this.selected && !this.scene.elements.has(this.selected)) this.selected = null;
    this.decorate();
  }

  // Steps anew, at the node that was the current one.
  count() {
    const current = this.at === null || this.at < 0 ? undefined : this.steps.list[this.at];
    this.steps = new Steps(this.model, this.view, this.scene, this.mode);
    this.scale = this.mode === "forward" ? null : this.steps.norms(this.view);
    if (current) this.at = Math.max(0, this.steps.indexOf(current.ids[0]));
  }

  decorate(renewsPanel = true) {
    const { canvas, scene, steps, scale } = this;
    const current = this.at !== null && this.at >= 0 ? steps.list[this.at]?.key : null;
    const changed = new Set((this.model.changes?.nodes ?? []).flatMap((id) => this.view.marksOf(id)));
    for (const element of scene.elements.values()) {
      const group = canvas.shapes.get(element.key);
      const status = element.kind === "frame" ? "done" : steps.status(element, this.at);
      const value = status === "todo" ? null : steps.valueAt(element);
      group.classList.toggle("todo", status === "todo");
      group.classList.toggle("current", element.key === current || (status === "current" && element.kind === "mark"));
      group.classList.toggle("selected", element.key === this.selected);
      group.classList.toggle("changed", element.kind !== "frame" && element.marks.some((mark) => changed.has(mark)));
      group.classList.toggle("fresh", element.kind !== "frame" && element.marks.some((mark) => this.view.fresh.has(mark.key)));
      group.setAttribute("tabindex", element.key === this.selected ? "0" : "-1");
      group.setAttribute("aria-label", this.spoken(element));
      if (element.kind !== "mark") group.setAttribute("aria-expanded", String(element.kind === "frame"));
      setThumb(group, this.showsValues && element.mark?.node.role !== ROLE.fill ? value : null);
      this.colour(group, element, value);
    }
    for (const arc of [...scene.segments, ...scene.arcs.filter((arc) => arc.shape)]) {
      const touches = (key) => arc.edges.some((edge) => edge.source.key === key || edge.target.key === key);
      const flows = (key) => arc.edges.some((edge) => (this.mode === "backward" ? edge.source : edge.target).key === key);
      arc.shape.classList.toggle("related", this.selected !== null && touches(this.selected));
      arc.shape.classList.toggle("cut", arc.edges.every((edge) => edge.links.every((link) => this.isCut(link))));
      arc.shape.classList.toggle("flows", current !== null && flows(current));
      arc.shape.classList.toggle("todo", this.at !== null && arc.edges.every((edge) => [edge.source, edge.target].some((end) => steps.status(end, this.at) === "todo")));
    }
    if (renewsPanel) this.panel.show(scene.elements.get(this.selected) ?? null, this.id);
    this.tellBars(scale);
  }

  isCut(link) {
    const { changes } = this.model;
    if (!changes?.cut.size) return false;
    const readers = this.view.readersOf(this.view.marks.get(link.to), link.value);
    return readers.length > 0 && readers.every(([id, slot]) => changes.cut.has(`${id}.${slot}`));
  }

  // After a change by the reader: the picture, and the numbers of the panel.
  changed() {
    try { this.model.changes.run(); } catch (error) {  // a page that forbids to compile programs
      this.model.changes = null;
      this.say(`values cannot be computed here: ${error.message}`);
      return this.decorate();
    }
    this.count();
    this.decorate(false);
    this.panel.renewValues();
  }

  undo() {
    this.model.changes.reset();
    this.count();
    this.decorate();
    this.say("all changes undone");
  }

  // In derivative modes: the norm, from pale to strong.
  colour(group, element, value) {
    const place = this.scale?.some && value ? this.scale.place(value.norm) : null;
    const isFilled = place !== null && element.kind !== "frame" && !element.box?.isData && (element.kind !== "mark" || element.mark.node.role === ROLE.operator);
    group.classList.toggle("heated", isFilled);
    group.classList.toggle("rimmed", place !== null && !isFilled && element.kind === "mark");
    group.style.setProperty("--heat", place === null ? "" : heatColour(place));
    group.style.setProperty("--heat-ink", place === null ? "" : inkOn(place));
  }

  spoken(element) {
    if (element.kind === "ellipsis") return `${element.title} time steps, folded`;
    if (element.kind !== "mark") return `${plainText(element.kind === "frame" ? frameTitle(element) : element.title)}, composite`;
    const { node } = element.mark;
    return `${plainText(node.name) || node.op.name}, ${node.op.name}, shape ${asShape(node.shape) || "scalar"}${node.box === null ? "" : `, ${this.panel.place(node.box)}`}`;
  }

  // -- opening and closing -----------------------------------------------------------------------

  toggle(key) {
    const element = this.scene.elements.get(key);
    if (!element || element.kind === "mark") return;
    let anchor = key;
    if (element.kind === "ellipsis") {
      element.times.slice(0, MORE_TIMES).forEach((box) => { this.shown.add(box.id); this.open.add(box.id); });
      this.selected = anchor = `b${element.times[0].id}`;
    } else if (element.kind === "frame") this.open.delete(element.box.id);
    else this.open.add(element.box.id);
    this.draw(anchor === key ? key : this.scene.roots.find((root) => root.first < element.first && root.kind !== "ellipsis")?.key ?? null);
    if (element.kind === "box") this.canvas.approach(this.scene.elements.get(key));
    this.say(`${this.spoken(this.scene.elements.get(this.selected ?? key) ?? element)}, ${element.kind === "frame" ? "closed" : "opened"}`);
    this.focus();
  }

  openAll() {
    const marks = [...this.view.marks.values()].filter((mark) => this.view.times.every((box) => this.shown.has(box.id) || !box.marks.includes(mark)));
    if (marks.length > 3000) return this.say(`${marks.length} nodes are too many to open at once`);
    this.open = new Set(this.view.boxes.keys());
    this.draw(this.selected);
    this.canvas.fit();
  }

  closeAll() {
    this.open = new Set();
    this.draw(null);
    this.canvas.fit();
  }

  // Opens what is around a mark, so that it can be seen.
  reveal(mark) {
    let isNew = false;
    for (let id = mark.box; id !== null; id = this.view.parentOf(id)) {
      if (!this.open.has(id)) { this.open.add(id); isNew = true; }
      if (this.view.timePlace.has(id) && !this.shown.has(id)) { this.shown.add(id); isNew = true; }
    }
    if (isNew) this.draw(this.selected);
  }

  // -- selecting -----------------------------------------------------------------------------------

  select(key, id = undefined) {
    const element = this.scene.elements.get(key);
    this.selected = element ? key : null;
    this.id = id !== undefined ? id : element?.kind === "mark" ? element.mark.id : null;
    this.decorate();
    if (element && element.kind !== "frame") this.canvas.show(element);
    if (element) this.say(this.spoken(element));
    this.focus();
  }

  // Goes to a node; a node that is not drawn is shown only in the panel.
  go(id) {
    const mark = this.stage.place.has(id) ? this.view.markOf(id) : null;
    if (!mark) { this.id = id; return this.panel.show(null, id); }
    this.reveal(mark);
    this.select(mark.key, id);
  }

  focus() { (this.canvas.shapes.get(this.selected) ?? this.parts.picture).focus({ preventScroll: true }); }

  clicked(element, event) {
    event.stopPropagation();
    const onBar = element.kind === "frame" && (event.target.classList.contains("bar") || event.target.closest(".title, .sign"));
    if (element.kind === "box" || element.kind === "ellipsis" || onBar) {
      this.selected = element.key;
      this.id = null;
      this.toggle(element.key);
    } else if (element.kind === "frame") this.select(null);
    else this.select(element.key);
  }

  hovered(element, event) {
    const { tip } = this.parts;
    tip.hidden = !element || element.kind === "frame";
    if (tip.hidden) return;
    tip.replaceChildren(tooltip(this, element));
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 12))}px`;
    tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18}px`;
  }

  // Along an edge in this direction if there is one, else to the nearest element there.
  move(dx, dy) {
    const all = [...this.scene.elements.values()].filter((element) => element.kind !== "frame");
    const from = this.scene.elements.get(this.selected);
    if (!from) return this.select(all.reduce((a, b) => (b.first < a.first ? b : a)).key);
    const centre = (e) => [e.x + e.width / 2, e.y + e.height / 2];
    const [x, y] = from.kind === "frame" ? [from.x, from.y] : centre(from);
    const linked = new Set(this.scene.edges.flatMap(({ source, target }) => source === from ? [target] : target === from ? [source] : []));
    const best = (list) => {
      const scored = list.filter((e) => e !== from).map((e) => {
        const [ex, ey] = centre(e), along = (ex - x) * dx + (ey - y) * dy, aside = Math.abs((ex - x) * dy) + Math.abs((ey - y) * dx);
        return { e, along, score: along + 2 * aside };
      }).filter(({ along, score }) => along > 4 && score < 4 * along + 60);
      return scored.sort((a, b) => a.score - b.score)[0]?.e;
    };
    const found = best(linked.size ? [...linked] : []) ?? best(all);
    if (found) this.select(found.key);
  }

  // -- steps, modes, passes --------------------------------------------------------------------------

  step(by) {
    const last = this.steps.list.length - 1;
    if (last < 0) return;
    if (this.at === null) return this.stepTo(by > 0 ? 0 : last);
    const next = this.at + by;
    this.stepTo(next > last ? null : Math.max(-1, next));
  }

  stepTo(at) {
    this.at = this.steps.list.length ? at : null;
    const step = at === null || at < 0 ? null : this.steps.list[at];
    if (!step) return this.decorate();
    const element = this.scene.elements.get(step.key);
    this.selected = step.key;
    this.id = element.kind === "mark" ? element.mark.id : null;
    this.decorate();
    this.canvas.show(element);
    this.say(`step ${at + 1} of ${this.steps.list.length}: ${this.spoken(element)}`);
    this.focus();
  }

  nextMode() {
    const there = MODES.filter((mode) => mode === "forward" || this.model[mode]);
    this.toMode(there[(there.indexOf(this.mode) + 1) % there.length]);
  }

  toMode(mode) {
    if (mode === this.mode) return;
    this.mode = mode;
    this.at = this.at === null ? null : -1;
    if (mode !== "forward" && this.stageIndex) return this.toStage(0);  // derivatives are those of the graph as written
    this.count();
    this.decorate();
    this.say(`mode ${MODE_NAMES[mode]}`);
  }

  toStage(index) {
    if (index < 0 || index >= this.model.stages.length) return;
    const stem = this.id === null ? null : this.model.nodes[this.id].stem;
    this.stageIndex = index;
    if (index && this.mode !== "forward") { this.mode = "forward"; this.at = null; }
    this.renew(stem);
    this.say(`after pass ${this.stage.name}: ${this.stage.order.length} nodes, ${this.stage.fresh.size} new`);
  }

  renew(stem) {
    const anchor = this.selected ?? this.scene.roots[0]?.key ?? null;
    this.view = new View(this.model, this.stage, this.style);
    this.id = this.stage.order.find((id) => this.model.nodes[id].stem === stem) ?? null;
    this.at = null;
    this.draw(anchor);
    if (this.canvas.isWhole) this.canvas.fit();
  }

  toggleStyle() {
    this.style = this.style === "full" ? "compact" : "full";
    this.renew(this.id === null ? null : this.model.nodes[this.id].stem);
    this.canvas.fit();
  }

  toggleValues() { this.showsValues = !this.showsValues; this.draw(this.selected ?? this.scene.roots[0]?.key); }

  // -- bars ------------------------------------------------------------------------------------------

  fillBars() {
    const { parts, model } = this;
    parts.title.textContent = model.title;
    parts.modes.replaceChildren(...MODES.map((mode) => html("button", {
      type: "button", role: "radio", "data-mode": mode, disabled: mode !== "forward" && !model[mode],
      title: mode === "forward" || model[mode] ? "" : mode === "backward" ? "there is no scalar cost among the outputs" : "there is nothing to push forward",
      onclick: () => this.toMode(mode),
    }, MODE_NAMES[mode])));
    parts.passes.max = model.stages.length - 1;
    parts.passes.closest(".group").hidden = model.stages.length < 2;
    parts.passes.addEventListener("input", () => this.toStage(Number(parts.passes.value)));
    parts.steps.addEventListener("input", () => this.stepTo(Number(parts.steps.value) >= this.steps.list.length ? null : Number(parts.steps.value)));
    const actions = {
      first: () => this.stepTo(-1), back: () => this.step(-1), on: () => this.step(1), last: () => this.stepTo(null), play: () => this.play(),
      style: () => this.toggleStyle(), values: () => this.toggleValues(), theme: () => this.toggleTheme(), help: () => this.toggleHelp(),
      zoomIn: () => this.canvas.zoomBy(ZOOM.step), zoomOut: () => this.canvas.zoomBy(1 / ZOOM.step), fit: () => this.canvas.fit(),
    };
    for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", actions[button.dataset.do]);
    parts.help.querySelector("div").append(helpContent());
    parts.picture.addEventListener("click", () => { if (!this.canvas.wasDragged) this.select(null); });
  }

  tellBars(scale) {
    const { parts, steps, stage } = this;
    for (const button of parts.modes.children) button.setAttribute("aria-checked", String(button.dataset.mode === this.mode));
    parts.passes.value = this.stageIndex;
    parts.pass.textContent = this.stageIndex ? `after ${stage.name}` : stage.name;
    parts.passNews.textContent = `${stage.order.length} nodes${this.stageIndex ? `, ${stage.fresh.size} new, ${stage.gone} gone` : ""}`;
    parts.steps.min = -1;
    parts.steps.max = steps.list.length;
    parts.steps.value = this.at ?? steps.list.length;
    const current = this.at !== null && this.at >= 0 ? this.scene.elements.get(steps.list[this.at].key) : null;
    parts.stepName.replaceChildren(this.at === null ? "after all steps" : current ? `step ${this.at + 1} of ${steps.list.length}: ` : `before the first of ${steps.list.length} steps`);
    if (current) parts.stepName.append(current.kind === "mark" ? htmlText(this.panel.title(current.mark.id)) : plainText(current.title));
    parts.styleName.textContent = this.style;
    parts.values.setAttribute("aria-pressed", String(this.showsValues));
    parts.scale.hidden = !scale?.some;
    if (scale?.some) {
      parts.scaleTitle.textContent = this.mode === "backward" ? "‖∂cost/∂node‖" : "‖R{node}‖";
      parts.scaleLow.textContent = asNumber(scale.low, 2);
      parts.scaleHigh.textContent = asNumber(scale.high, 2);
    }
  }

  play() {
    if (this.timer) { clearInterval(this.timer); this.timer = null; }
    else {
      if (this.at === null) this.stepTo(-1);
      this.timer = setInterval(() => { this.step(1); if (this.at === null) this.play(); }, 500);
    }
    this.parts.play.setAttribute("aria-pressed", String(Boolean(this.timer)));
  }

  toggleTheme() {
    const isDark = channels(cssVariable("background")).every((channel) => channel < 128);
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
    forgetColours();
    this.decorate();
  }

  toggleHelp() { const { help } = this.parts; if (help.open) help.close(); else help.showModal(); }

  escape() {
    if (this.parts.help.open) this.parts.help.close();
    else this.select(null);
  }

  say(text) { this.parts.live.textContent = text; }
}

const app = new App(readModel(JSON.parse(document.getElementById("data").textContent)));
