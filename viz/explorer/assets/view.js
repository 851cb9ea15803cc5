// View: the drawn part of a stage. A mark is a node in its place; a leaf has one mark at each place of use,
// so that few wires cross. Boxes are composites; an ellipsis represents time steps that are not shown.

class View {
  constructor(model, stage, style) {
    Object.assign(this, { model, stage, style, marks: new Map(), links: [], copies: new Map(), owners: new Map() });
    this.drawn = stage.drawn[style];
    this.isDrawn = new Set(this.drawn.map((drawn) => drawn.id));
    this.dissolve();
    this.placeMarks();
    this.fillBoxes();
    this.findOwners();
    this.findFresh();
  }

  node(id) { return this.model.nodes[id]; }

  // A composite of a single operator is drawn as that operator, unless it is a time step.
  dissolve() {
    const operators = new Map();
    for (const { id } of this.drawn) {
      if (!this.node(id).isLeaf) for (const box of this.boxesAround(this.node(id).box)) operators.set(box, (operators.get(box) ?? 0) + 1);
    }
    this.kept = new Set([...operators].filter(([box, count]) => count > 1 || this.model.boxes[box].kind === "time").map(([box]) => box));
  }

  // A box and those around it, innermost first.
  * boxesAround(box) {
    for (let b = box; b !== null; b = this.model.boxes[b].parent) yield b;
  }

  boxOf(node) {
    for (const box of this.boxesAround(node.box)) if (this.kept.has(box)) return box;
    return null;
  }

  parentOf(box) {
    for (const other of this.boxesAround(this.model.boxes[box].parent)) if (this.kept.has(other)) return other;
    return null;
  }

  placeMarks() {
    const uses = new Map();
    for (const { id, operands } of this.drawn) {
      operands.forEach(({ source, label }, slot) => {
        if (!uses.has(source)) uses.set(source, []);
        uses.get(source).push({ consumer: id, slot, label });
      });
    }
    for (const { id, symbol } of this.drawn) {
      const node = this.node(id);
      if (!node.isLeaf) this.addMark(`n${node.stem}`, id, symbol, this.boxOf(node));
    }
    for (const { id, symbol } of this.drawn) {
      if (this.node(id).isLeaf) this.placeLeaf(id, symbol, uses.get(id) ?? []);
    }
    for (const [source, list] of uses) {
      for (const use of list) {
        const to = `n${this.node(use.consumer).stem}`;
        this.links.push({ from: use.from ?? `n${this.node(source).stem}`, to, value: source, label: use.label });
      }
    }
  }

  // Data for one composite is before it, visible while the composite is closed; everything else is inside.
  placeLeaf(id, symbol, uses) {
    const node = this.node(id);
    const places = new Set(uses.map((use) => this.boxOf(this.node(use.consumer))));
    const isData = node.role === ROLE.input || (node.role === ROLE.constant && node.name);
    const [only] = places;
    // A leaf counts as made just before its first use: places must not depend on the order of declarations.
    const index = Math.min(...uses.map((use) => this.stage.place.get(use.consumer))) - 0.5;
    if (isData && places.size === 1) {
      this.addMark(`n${node.stem}`, id, symbol, only === null ? null : this.placeOfData(node, only), index);
      if (only !== null) this.marks.get(`n${node.stem}`).before = only;
      return;
    }
    if (!uses.length) return void this.addMark(`n${node.stem}`, id, symbol, this.boxOf(node));
    const counts = new Map();
    for (const use of uses) counts.set(this.boxOf(this.node(use.consumer)), (counts.get(this.boxOf(this.node(use.consumer))) ?? 0) + 1);
    for (const use of uses) {
      const box = this.boxOf(this.node(use.consumer));
      const apart = node.role === ROLE.fill || (!isData && counts.get(box) > 2);
      use.from = apart ? `n${node.stem}>${this.node(use.consumer).stem}.${use.slot}` : places.size > 1 ? `n${node.stem}@${box}` : `n${node.stem}`;
      if (!this.marks.has(use.from)) this.addMark(use.from, id, symbol, box, this.stage.place.get(use.consumer) - 0.5);
    }
  }

  // Initial states (h_0) are before the first time step, other data below the composite that reads it.
  placeOfData(node, box) {
    const around = [...this.boxesAround(box)].filter((b) => this.kept.has(b));
    const isState = /^\D+0(\(\d+\))?$/.test(plainText(node.name)) && this.model.boxes[around.at(-1)].kind === "time";
    return isState ? null : this.parentOf(box);
  }

  addMark(key, id, symbol, box, index = this.stage.place.get(id)) {
    const node = this.node(id);
    const isOutput = this.stage.outputs.has(id);
    const mark = { key, id, node, symbol, box, index, isOutput, isCost: isOutput && !node.shape.length && !node.isLeaf };
    this.marks.set(key, mark);
    if (!this.copies.has(id)) this.copies.set(id, []);
    this.copies.get(id).push(mark);
  }

  fillBoxes() {
    this.boxes = new Map();
    for (const mark of this.marks.values()) {
      for (let id = mark.box; id !== null; id = this.parentOf(id)) {
        if (!this.boxes.has(id)) this.boxes.set(id, { ...this.model.boxes[id], parent: this.parentOf(id), marks: [], first: Infinity });
        const box = this.boxes.get(id);
        box.marks.push(mark);
      }
    }
    for (const box of this.boxes.values()) this.describe(box);
    for (const mark of this.marks.values()) {
      if (mark.before === undefined) continue;
      const outermost = mark.box === null ? [...this.boxesAround(mark.before)].filter((b) => this.kept.has(b)).at(-1) : mark.before;
      mark.index = Math.min(mark.index, this.boxes.get(outermost).first - 0.5);
    }
    this.times = [...this.boxes.values()].filter((box) => box.kind === "time" && box.parent === null);
    this.times.sort(this.times.every((box) => box.order !== null) ? (a, b) => a.order - b.order : (a, b) => a.first - b.first);
    this.timePlace = new Map(this.times.map((box, i) => [box.id, i]));
  }

  describe(box) {
    box.marks.sort((a, b) => a.index - b.index);
    const inside = new Set(box.marks.map((mark) => mark.key));
    const entering = this.links.filter((link) => inside.has(link.to) && !inside.has(link.from));
    box.handsOn = [...new Set(this.links.filter((link) => inside.has(link.from) && !inside.has(link.to)).map((link) => link.from))]
      .map((key) => this.marks.get(key)).filter((mark) => !mark.node.isLeaf);
    const operators = box.marks.filter((mark) => !mark.node.isLeaf);
    box.first = (operators[0] ?? box.marks[0]).index;
    box.main = box.marks.find((mark) => mark.isCost) ?? box.handsOn.at(-1) ?? operators.at(-1) ?? box.marks.at(-1);
    box.hasCost = box.marks.some((mark) => mark.isCost);
    const data = new Set(box.marks.filter((mark) => mark.node.role === ROLE.input).map((mark) => mark.id));
    box.isData = data.size > 0 && !entering.length && !box.marks.some((mark) => mark.node.role === ROLE.parameter);
    box.data = box.isData && data.size === 1 ? this.node([...data][0]).name : "";
  }

  // In compact style: the drawn nodes that a folded node belongs to, in order.
  findOwners() {
    for (const { id } of this.drawn) {
      const pending = [...this.node(id).inputs];
      while (pending.length) {
        const source = pending.pop();
        if (this.isDrawn.has(source)) continue;
        if (!this.owners.has(source)) this.owners.set(source, []);
        if (this.owners.get(source).at(-1) === id) continue;
        this.owners.get(source).push(id);
        pending.push(...this.node(source).inputs);
      }
    }
  }

  // [node, position] of each input of a mark, or of what is folded into it, that is this node.
  readersOf(mark, source) {
    const found = [], pending = [mark.id];
    while (pending.length) {
      const id = pending.pop();
      this.node(id).inputs.forEach((input, slot) => {
        if (input === source) found.push([id, slot]);
        else if (!this.isDrawn.has(input)) pending.push(input);
      });
    }
    return found;
  }

  // Marks that show something new: themselves, or what is folded into them.
  findFresh() {
    this.fresh = new Set();
    for (const id of this.stage.fresh) {
      for (const mark of this.marksOf(id)) this.fresh.add(mark.key);
    }
  }

  // The marks that show a node, or what it is folded into.
  marksOf(id) { return (this.isDrawn.has(id) ? [id] : this.owners.get(id) ?? []).flatMap((shown) => this.copies.get(shown) ?? []); }

  markOf(id) { return this.marksOf(id)[0] ?? null; }

  // -- what can be seen ------------------------------------------------------------------------

  // open: ids of open boxes; shown: ids of time steps that are shown.
  visible(open, shown) {
    const elements = new Map(), of = new Map();
    const ellipses = this.ellipses(shown);
    const add = (key, kind, parent, marks, rest) => {
      if (!elements.has(key)) elements.set(key, { key, kind, parent, marks, children: [], ...rest });
      return elements.get(key);
    };
    for (const mark of this.marks.values()) {
      const path = [];
      for (let id = mark.box; id !== null; id = this.parentOf(id)) path.unshift(this.boxes.get(id));
      let parent = null, found = null;
      for (const box of path) {
        const ellipsis = ellipses.get(box.id);
        if (ellipsis) found = add(ellipsis.key, "ellipsis", parent, ellipsis.marks, ellipsis);
        else {
          const isOpen = open.has(box.id);
          const element = add(`b${box.id}`, isOpen ? "frame" : "box", parent, box.marks, { box, first: box.first });
          if (isOpen) parent = element.key; else found = element;
        }
        if (found) break;
      }
      found ??= add(mark.key, "mark", parent, [mark], { mark, first: mark.index });
      of.set(mark.key, found);
    }
    const roots = [];
    for (const element of elements.values()) (element.parent ? elements.get(element.parent).children : roots).push(element);
    return { elements, roots, of, edges: this.edges(of) };
  }

  ellipses(shown) {
    const found = new Map();
    let run = null;
    for (const box of this.times) {
      if (shown.has(box.id)) { run = null; continue; }
      run ??= { times: [], marks: [], first: box.first };
      run.times.push(box);
      run.marks.push(...box.marks);
      run.key = `e${run.times[0].id}`;
      found.set(box.id, run);
    }
    return found;
  }

  edges(of) {
    const found = new Map();
    for (const link of this.links) {
      const source = of.get(link.from), target = of.get(link.to);
      if (source === target) continue;
      const label = target.kind === "mark" ? link.label : "";
      const key = `${link.from}|${source.key}|${target.key}|${label}`;
      if (found.has(key)) { found.get(key).links.push(link); continue; }
      const head = target.mark, to = this.marks.get(link.to);
      const role = this.node(link.value).role === ROLE.input || source.box?.isData ? "input" : head?.isOutput || (target.box?.hasCost && !this.node(link.value).isLeaf) ? "output" : "inner";
      found.set(key, { key, wire: link.from, source, target, label, role, links: [link], order: to.index, level: to.box === null ? Infinity : this.boxes.get(to.box).first });
    }
    return [...found.values()];
  }
}
