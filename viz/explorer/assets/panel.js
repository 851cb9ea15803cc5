// Panel: all information about the selected element.

const MODE_NAMES = { forward: "forward", backward: "backward", rop: "R-operator" };

class Panel {
  // go(id): selects a node wherever it is; app: state of the view.
  constructor(root, app) { Object.assign(this, { root, app }); }

  get model() { return this.app.model; }

  // -- names -----------------------------------------------------------------------------------

  // A node in one word: its name, or its symbol with its place in the order of execution.
  title(id) {
    const node = this.model.nodes[id];
    if (node.name) return node.name;
    for (const [mode, sign] of [["backward", "∂C/∂"], ["rop", "R"]]) {
      const of = this.model[mode]?.at.get(id);
      if (of === undefined || of === id) continue;
      const name = this.title(of);
      return mode === "rop" ? `${sign}{${name}}` : `${sign}${name}`;
    }
    if (node.role === ROLE.fill) return node.symbol;
    const place = this.app.stage.place.get(id) ?? id;
    return `${node.symbol}<sub>${place}</sub>`;
  }

  plain(id) { return plainText(this.title(id)); }

  // y = x × W, from the nodes that it actually reads.
  expression(id) {
    const node = this.model.nodes[id];
    const result = html("span", { class: "expression" });
    if (!node.inputs.length) { result.append(htmlText(node.symbol)); return result; }
    const isInfix = node.inputs.length > 1 && /^[+−\-×÷/@=<>≤≥·]+$/.test(plainText(node.symbol));
    if (!isInfix) result.append(htmlText(node.symbol), "(");
    node.inputs.forEach((source, i) => {
      if (i) result.append(isInfix ? " " : ", ", ...(isInfix ? [htmlText(node.symbol), " "] : []));
      result.append(this.link(source));
    });
    if (!isInfix) result.append(")");
    return result;
  }

  link(id) {
    return html("button", { class: "link", type: "button", onclick: () => this.app.go(id) }, htmlText(this.title(id)));
  }

  // -- what is shown -----------------------------------------------------------------------------

  show(element, id) {
    this.root.replaceChildren();
    this.values = [];
    this.undo = null;
    if (id !== null) this.showNode(id);
    else if (element) this.showBox(element);
    else this.showGraph();
    this.root.scrollTop = 0;
  }

  showGraph() {
    const { stage } = this.app;
    const operators = stage.order.filter((id) => !this.model.nodes[id].isLeaf).length;
    this.root.append(
      html("h2", {}, this.model.title),
      html("p", {}, `${stage.order.length} nodes, ${operators} of them operators.`),
      ...this.model.about.map((line) => html("p", { class: "muted" }, line)),
      html("p", { class: "muted" }, "Click a node or box, or press an arrow key; ? lists all keys."),
      ...(this.model.changes ? [html("p", { class: "muted" }, "Select a node to change it: scale an input or a weight, hold an operator at a value, cut an input. All values, gradients and tangents follow.")] : []),
      ...(this.model.changes ? [this.undoButton()] : []),
      legend(this.model.changes !== null),
    );
  }

  showBox(element) {
    const { app } = this;
    const name = element.kind === "ellipsis" ? `${element.title} time steps` : plainText(element.kind === "frame" ? frameTitle(element) : element.title);
    const operators = element.marks.filter((mark) => !mark.node.isLeaf).length;
    this.root.append(html("h2", {}, name), html("p", {}, `${operators} operators${element.box?.subtitle ? ` · ${element.box.subtitle}` : ""}`));
    this.root.append(html("button", { type: "button", class: "wide", onclick: () => app.toggle(element.key) },
      element.kind === "frame" ? "Close (Enter)" : element.kind === "ellipsis" ? "Show more steps (Enter)" : "Open (Enter)"));
    const results = element.box?.handsOn.length ? element.box.handsOn : [element.box?.main].filter(Boolean);
    for (const mark of results) {
      this.root.append(html("h3", {}, "hands on ", this.link(mark.id)));
      this.appendValues(mark.id);
    }
  }

  showNode(id) {
    const node = this.model.nodes[id];
    const isDerived = !this.app.stage.place.has(id);
    const row = (name, ...content) => [html("dt", {}, name), html("dd", {}, ...content)];
    this.root.append(html("h2", {}, htmlText(this.title(id))));
    if (isDerived) this.root.append(html("p", { class: "muted" }, "A node of a derivative's graph."));
    this.root.append(html("dl", {},
      ...row("op", node.op.name, " ", html("span", { class: "muted" }, htmlText(node.symbol))),
      ...row("formula", html("span", { class: "formula" }, node.op.formula)),
      ...(node.inputs.length ? row("here", this.expression(id)) : []),
      ...row("shape", node.shape.length ? asShape(node.shape) : "scalar", " ", html("span", { class: "muted" }, node.dtype)),
      ...row("made at", html("code", {}, node.origin)),
      ...(node.box === null ? [] : row("in", this.place(node.box))),
    ));
    this.appendValues(id);
    if (!isDerived) {
      this.appendChanges(id);
      this.appendNeighbours(id);
    }
  }

  place(box) {
    const parts = [];
    for (let b = box; b !== null; b = this.model.boxes[b].parent) {
      const { kind, title, subtitle } = this.model.boxes[b];
      parts.unshift(kind === "time" ? `t = ${title}` : [title, subtitle].filter(Boolean).join(", "));
    }
    return parts.join(" › ");
  }

  appendValues(id) {
    const place = html("div", { class: "values" });
    this.values.push({ place, id });
    this.root.append(place);
    this.fillValues(place, id);
  }

  // The value of the mode comes first and large, with its rule.
  fillValues(place, id) {
    const node = this.model.nodes[id];
    const title = this.title(id);
    const cards = [
      ["forward", "value", "value"], ["backward", "gradient", `gradient ∂C/∂${title}`], ["rop", "tangent", `tangent R{${title}}`],
    ].map(([mode, ...rest]) => [mode, ...rest, this.model.valueOf(id, mode)]).filter(([, , , value]) => value);
    cards.sort(([a], [b]) => (b === this.app.mode) - (a === this.app.mode));
    place.replaceChildren();
    cards.forEach(([mode, kind, heading, value], i) => {
      const isFirst = mode === this.app.mode || (i === 0 && cards.length === 1);
      place.append(valueCard(htmlText(heading), value, node, kind, isFirst));
      if (mode === this.app.mode) this.appendRule(id, place);
    });
  }

  // Only the numbers anew: the controls keep the focus.
  renewValues() {
    for (const { place, id } of this.values) this.fillValues(place, id);
    if (this.undo) this.undo.hidden = !this.model.changes?.some;
  }

  // -- changes -----------------------------------------------------------------------------------

  appendChanges(id) {
    const { changes } = this.model;
    if (!changes || this.app.stageIndex) return;
    const controls = [...this.leafControls(id, changes), ...this.holdControls(id, changes), ...this.cutControls(id, changes)];
    if (controls.length) this.root.append(html("h3", {}, "change"), ...controls);
    this.root.append(this.undoButton());
  }

  undoButton() {
    this.undo = html("button", { type: "button", class: "wide", "data-what": "undo", onclick: () => this.app.undo() }, "Undo all changes");
    this.undo.hidden = !this.model.changes.some;
    return this.undo;
  }

  leafControls(id, changes) {
    if (!changes.canScale(id)) return [];
    const rows = [this.slider("times", "scale", changes.scaled.get(id) ?? 1, (factor) => changes.scale(id, factor))];
    const numbers = changes.numbersOf(id);
    if (numbers.length) {
      rows.push(html("div", { class: "numbers-in" }, ...numbers.map((x, i) => html("input", {
        type: "number", step: "0.1", value: shortNumber(x), "data-what": `number ${i}`, "aria-label": `number ${i + 1} of ${numbers.length}`,
        oninput: ({ target }) => { if (target.value !== "") { changes.setNumber(id, i, Number(target.value)); this.app.changed(); } },
      }))));
    }
    return rows;
  }

  holdControls(id, changes) {
    if (!changes.canHold(id)) return [];
    const held = changes.held.get(id);
    const slider = this.slider("hold at", "hold", held ?? 0, (value) => { box.checked = true; changes.hold(id, value); });
    const box = html("input", {
      type: "checkbox", checked: held !== undefined, "data-what": "held", "aria-label": "hold at a value",
      onchange: () => { changes.hold(id, box.checked ? Number(slider.querySelector("[type=number]").value) : null); this.app.changed(); },
    });
    slider.prepend(box);
    return [slider];
  }

  cutControls(id, changes) {
    const rows = this.model.nodes[id].inputs.map((source, slot) => [source, slot]).filter(([, slot]) => changes.canCut(id, slot));
    return rows.map(([source, slot]) => html("label", { class: "control" },
      html("input", {
        type: "checkbox", checked: changes.cut.has(`${id}.${slot}`), "data-what": `cut ${slot}`,
        onchange: ({ target }) => { changes.setCut(id, slot, target.checked); this.app.changed(); },
      }), html("span", {}, `cut input ${slot + 1}: `, htmlText(this.title(source)))));
  }

  slider(words, what, value, put) {
    const set = (from, to) => { to.value = from.value; put(Number(from.value)); this.app.changed(); };
    const range = html("input", { type: "range", min: -2, max: 2, step: 0.05, value: String(value), "data-what": what, "aria-label": words, oninput: () => set(range, number) });
    const number = html("input", { type: "number", step: 0.05, value: String(value), "aria-label": words, oninput: () => { if (number.value !== "") set(number, range); } });
    return html("div", { class: "control" }, html("span", {}, words), range, number);
  }

  // The nodes that the op's own rule built here, with their values: how the derivative comes about.
  appendRule(id, place) {
    const { mode } = this.app;
    const made = mode === "forward" ? null : this.model[mode]?.made.get(id);
    if (!made?.length) return;
    const table = html("table", { class: "rule" });
    for (const step of made) {
      const value = this.model.changes?.some ? null : this.model.nodes[step].value;
      table.append(html("tr", {},
        html("td", {}, this.link(step), " = ", this.expression(step)),
        html("td", { class: "number" }, value ? shortValue(value) : ""),
        html("td", {}, value?.heat ? html("img", { src: heatPicture(value), class: "tiny", alt: "" }) : null)));
    }
    place.append(html("h3", {}, mode === "backward" ? "its rule, backward" : "its rule for R{·}"), table);
  }

  appendNeighbours(id) {
    const { stage, view } = this.app;
    const consumers = stage.order.filter((other) => this.model.nodes[other].inputs.includes(id));
    const folded = [...view.owners].filter(([, owners]) => owners.includes(id)).map(([source]) => source);
    this.appendLinks("inputs", this.model.nodes[id].inputs);
    this.appendLinks("consumers", consumers);
    this.appendLinks("folded into this", folded.filter((source) => stage.place.has(source)));
  }

  appendLinks(title, ids) {
    if (!ids.length) return;
    const most = 24;
    const list = html("p", { class: "links" }, ...ids.slice(0, most).map((id) => this.link(id)));
    if (ids.length > most) list.append(` and ${ids.length - most} more`);
    this.root.append(html("h3", {}, title), list);
  }
}

const shortValue = (value) => (value.columns === 1 && value.heat.length === 1 ? asNumber(value.mean) : `‖·‖ ${asNumber(value.norm, 3)}`);

// A value in numbers and colors. `kind` identifies it for programs that read the page.
function valueCard(title, value, node, kind, isLarge) {
  const isScalar = !node.shape.length;
  const card = html("section", { class: isLarge ? "value active" : "value aside", "data-kind": kind }, html("h3", {}, title));
  if (isScalar) {
    card.append(html("p", { class: "scalar", "data-what": "scalar" }, asNumber(value.numbers[0] ?? value.mean, 6)));
    return card;
  }
  if (value.heat) {
    const columns = value.columns, rows = rowsOf(value), cell = isLarge ? Math.min(26, 250 / columns, 150 / rows) : Math.min(16, 90 / columns, 80 / rows);
    card.append(html("img", { class: "heat", src: heatPicture(value), style: `width:${columns * cell}px;height:${rows * cell}px`, alt: `heat map, ${rows} by ${columns} cells` }));
  }
  const numbers = [["min", value.min], ["mean", value.mean], ["max", value.max], ["norm", value.norm]];
  card.append(html("dl", { class: "numbers" }, ...numbers.map(([name, x]) =>
    html("div", {}, html("dt", {}, name), html("dd", { "data-what": name }, asNumber(x, 6))))));
  if (value.numbers.length) card.append(html("p", { class: "list", "data-what": "numbers" }, value.numbers.map((x) => asNumber(x)).join(",  ")));
  return card;
}

function legend(isChangeable) {
  const rows = [
    ["square leaf", "data (blue rim), parameters, constants"], ["square label", "label: a name for the reader"],
    ["round", "operator"], ["round cost", "cost"], ["box", "composite: click to open"],
    ["line input", "from raw input"], ["line output", "to an output"],
    ...(isChangeable ? [["round changed", "changed by you"]] : []),
  ];
  return html("ul", { class: "legend" }, ...rows.map(([name, meaning]) => html("li", {}, html("span", { class: `key ${name}` }), meaning)));
}

// -- under the pointer -----------------------------------------------------------------------------

function tooltip(app, element) {
  if (element.kind !== "mark") {
    const count = element.marks.filter((mark) => !mark.node.isLeaf).length;
    return html("div", {}, html("b", {}, element.kind === "ellipsis" ? `${element.title} time steps` : plainText(element.title ?? frameTitle(element))), ` · ${count} operators · click to ${element.kind === "frame" ? "close" : "open"}`);
  }
  const { node } = element.mark;
  const lines = html("div", {},
    html("div", {}, html("b", {}, htmlText(app.panel.title(node.id))), " ", html("span", { class: "muted" }, `${node.op.name}  ${asShape(node.shape) || "scalar"}  ${node.dtype}`)),
    html("div", { class: "formula" }, node.op.formula));
  for (const [mode, name] of [["forward", "value"], ["backward", "∂C/∂·"], ["rop", "R{·}"]]) {
    const value = app.model.valueOf(node.id, mode);
    if (value) lines.append(html("div", {}, `${name} `, told(value)));
  }
  lines.append(html("div", { class: "muted" }, `made at ${node.origin}`));
  return lines;
}

function told(value) {
  if (value.heat.length === 1) return asNumber(value.mean);
  return `${asNumber(value.min)} … ${asNumber(value.max)}, mean ${asNumber(value.mean)}, ‖·‖ ${asNumber(value.norm)}`;
}
