// Keys: everything that a pointer can do, and the search.

const KEYS = [
  ["← → ↑ ↓", "move the selection along edges"], ["Enter", "open or close a composite, show more time steps"],
  ["n or space, p", "one step on, one step back"], ["Home, End", "before the first step, after the last"],
  ["m", "mode: forward, backward, R-operator"], ["[ ]", "pass before, pass after"],
  ["o, c", "open all that fits, close all"], ["s, v", "style full or compact, heat maps on or off"],
  ["+ − 0", "zoom in, out, show all"], ["/", "search: name, op, symbol, place"],
  ["Esc", "leave search, help, selection"], ["?", "this help"],
];

function listenToKeys(app) {
  const actions = {
    ArrowLeft: () => app.move(-1, 0), ArrowRight: () => app.move(1, 0), ArrowUp: () => app.move(0, -1), ArrowDown: () => app.move(0, 1),
    Enter: () => app.selected && app.toggle(app.selected),
    n: () => app.step(1), " ": () => app.step(1), p: () => app.step(-1), Home: () => app.stepTo(-1), End: () => app.stepTo(null),
    m: () => app.nextMode(), "[": () => app.toStage(app.stageIndex - 1), "]": () => app.toStage(app.stageIndex + 1),
    o: () => app.openAll(), c: () => app.closeAll(), s: () => app.toggleStyle(), v: () => app.toggleValues(),
    "+": () => app.canvas.zoomBy(ZOOM.step), "=": () => app.canvas.zoomBy(ZOOM.step), "-": () => app.canvas.zoomBy(1 / ZOOM.step), 0: () => app.canvas.fit(),
    "/": () => app.parts.search.focus(), "?": () => app.toggleHelp(), Escape: () => app.escape(),
  };
  document.addEventListener("keydown", (event) => {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyped = target.matches("[type=number], [type=search]"), isControl = /^(Arrow|Home|End|Page| )/.test(event.key);
    if (target.matches("input") && event.key !== "Escape" && (isTyped || isControl)) return;
    // Buttons and links handle Enter and space.
    if (target.matches("button") && (event.key === "Enter" || event.key === " ")) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function helpContent() {
  return html("dl", {}, ...KEYS.flatMap(([keys, meaning]) => [html("dt", {}, keys), html("dd", {}, meaning)]));
}

// Nodes of the stage whose name, op, symbol or place holds every word, with or without underscores.
function search(app, query) {
  const bare = (text) => text.toLowerCase().replaceAll("_", "");
  const words = bare(query).split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  for (const id of app.stage.order) {
    const node = app.model.nodes[id];
    const name = bare(node.plain);
    const last = name.split(".").at(-1);
    const text = bare([node.plain, plainText(node.name), node.op.name, plainText(node.symbol), node.box === null ? "" : app.panel.place(node.box).replaceAll(" = ", "="), node.origin].join(" "));
    if (!words.every((word) => text.includes(word))) continue;
    const rank = name === words[0] || last === words[0] ? 0 : last.startsWith(words[0]) ? 1 : node.op.name.toLowerCase().startsWith(words[0]) ? 2 : 3;
    found.push({ id, rank });
  }
  return found.sort((a, b) => a.rank - b.rank).map(({ id }) => id);
}

function listenToSearch(app) {
  const { search: field, results } = app.parts;
  let found = [], at = 0;
  const show = () => {
    results.replaceChildren(...found.slice(0, 12).map((id, i) => html("li", {
      role: "option", id: `found-${i}`, "aria-selected": String(i === at), onpointerdown: (event) => { event.preventDefault(); choose(i); },
    }, htmlText(app.panel.title(id)), html("span", { class: "muted" }, ` ${app.model.nodes[id].op.name} ${app.model.nodes[id].box === null ? "" : app.panel.place(app.model.nodes[id].box)}`))));
    if (found.length > 12) results.append(html("li", { class: "muted" }, `${found.length} found`));
    results.hidden = !found.length;
    field.setAttribute("aria-expanded", String(Boolean(found.length)));
    field.setAttribute("aria-activedescendant", found.length ? `found-${at}` : "");
  };
  const choose = (i) => {
    if (!found.length) return;
    const id = found[i];
    leave();
    app.go(id);
  };
  const leave = () => { found = []; field.value = ""; show(); app.focus(); };
  field.addEventListener("input", () => { found = search(app, field.value); at = 0; show(); });
  field.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps && found.length) { at = (at + steps[event.key] + Math.min(12, found.length)) % Math.min(12, found.length); show(); }
    else if (event.key === "Enter") choose(at);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  field.addEventListener("blur", () => { found = []; show(); });
}
