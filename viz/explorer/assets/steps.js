// Steps: execution in the order of the engine, at the drawn elements. A closed composite is one step; opening it
// is stepping into it.

const MODES = ["forward", "backward", "rop"];

class Steps {
  constructor(model, view, scene, mode) {
    Object.assign(this, { model, mode, scene });
    this.derivative = mode === "forward" ? null : model[mode];
    const order = mode === "backward" ? [...view.stage.order].reverse() : view.stage.order;
    this.list = [];
    this.stepsOf = new Map();
    for (const id of order) this.add(id, view);
  }

  add(id, view) {
    const node = this.model.nodes[id];
    if (this.derivative && !this.derivative.of.has(id)) return;
    if (node.isLeaf && (this.mode !== "backward" || node.role === ROLE.fill)) return;
    const mark = view.markOf(id);
    const element = mark && this.scene.of.get(mark.key);
    // Nodes folded into a node of another composite (o_t into the cost) would make that composite a step repeatedly.
    if (mark && mark.id !== id && view.boxOf(node) !== mark.box) return;
    // A weight is a separate step only where it is visible.
    if (!element || (node.isLeaf && (element.kind !== "mark" || element.mark.id !== id))) return;
    if (this.list.at(-1)?.key !== element.key) {
      if (!this.stepsOf.has(element.key)) this.stepsOf.set(element.key, []);
      this.stepsOf.get(element.key).push(this.list.length);
      this.list.push({ key: element.key, ids: [] });
    }
    this.list.at(-1).ids.push(id);
  }

  // "done", "current" or "todo" after step `at`; null is after all.
  status(element, at) {
    if (at === null) return "done";
    const steps = this.stepsOf.get(element.key);
    if (!steps) return element.kind === "mark" && element.mark.node.isLeaf && this.mode !== "backward" ? "done" : this.statusOfCopy(element, at);
    if (steps.includes(at)) return "current";
    return steps[0] < at ? "done" : "todo";
  }

  // A weight is drawn at each use; its step is that of the first use.
  statusOfCopy(element, at) {
    if (element.kind !== "mark") return "todo";
    const step = this.list.findIndex((s) => s.ids.includes(element.mark.id));
    return step < 0 || step > at ? "todo" : step === at ? "current" : "done";
  }

  indexOf(id) { return this.list.findIndex((step) => step.ids.includes(id)); }

  // The value, cotangent or tangent of a node in this mode.
  valueOf(id) { return this.model.valueOf(id, this.mode); }

  valueAt(element) {
    if (element.kind === "mark") return this.valueOf(element.mark.id);
    if (element.kind !== "box") return null;
    const members = [element.box.main, ...[...element.box.marks].reverse()];
    for (const mark of members) {
      const value = this.valueOf(mark.id);
      if (value) return value;
    }
    return null;
  }

  norms(view) {
    // With time steps, the scale covers only these: the derivative 1 of the cost would hide their differences.
    const all = [...view.marks.values()].filter((mark) => !mark.node.isLeaf);
    const inTime = view.times.length > 1 ? view.times.flatMap((box) => box.marks).filter((mark) => !mark.node.isLeaf) : all;
    return normScale(inTime.map((mark) => this.valueOf(mark.id)?.norm));
  }
}
