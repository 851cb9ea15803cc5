// Changes: values computed in the page after a reader has changed something. See changes.py for the data.

// Whole numbers wrap where they are stored, as in NumPy; those of 64 bits are doubles.
const ARRAYS = {
  float32: Float32Array, bool: Uint8Array, int8: Int8Array, int16: Int16Array, int32: Int32Array, uint8: Uint8Array, uint16: Uint16Array,
  uint32: Uint32Array,
};

const HELPERS = {
  mod(x, y) {
    const rest = x % y;
    return rest !== 0 && rest < 0 !== y < 0 ? rest + y : rest;
  },
  modWhole: (x, y) => (y === 0 ? 0 : HELPERS.mod(x, y)),
  // A float as a whole number; one that is too large becomes the nearest.
  whole: (x, least, most, ofNaN) => (Number.isNaN(x) ? ofNaN : Math.min(Math.max(Math.trunc(x), least), most)),
  // Math.pow(1, y) is NaN for a y that is NaN or infinite.
  pow: (x, y) => (x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : Math.pow(x, y)),
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  round(x) {
    const below = Math.floor(x), rest = x - below;
    return rest < 0.5 || (rest === 0.5 && below % 2 === 0) ? below : below + 1;
  },
  erf(x) {
    if (Math.abs(x) > 6) return Math.sign(x);
    let term = x, sum = x;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) sum += term *= (2 * x * x) / (2 * n + 1);
    return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
  },
};

class Changes {
  constructor(data) {
    Object.assign(this, { data, scaled: new Map(), numbers: new Map(), held: new Map(), cut: new Set(), computed: null });
    this.arrays = data.buffers.map(([dtype, size]) => new (ARRAYS[dtype] ?? Float64Array)(size));
    this.leaves = new Map(data.leaves.filter(([id]) => id >= 0).map(([id, view, text]) => [id, { view, given: this.decoded(view, text) }]));
    for (const [id, view, text] of data.leaves) if (id < 0) this.write(view, this.decoded(view, text));
    this.free = new Map(data.free.map(([id, ...views]) => [id, views]));
    this.joined = new Map(data.joined.map(([id, slot, view]) => [`${id}.${slot}`, view]));
    this.results = Object.fromEntries(Object.entries(data.results).map(([mode, rows]) => [mode, new Map(rows)]));
  }

  get some() { return this.scaled.size + this.numbers.size + this.held.size + this.cut.size > 0; }

  get nodes() { return [...this.scaled.keys(), ...this.numbers.keys(), ...this.held.keys(), ...[...this.cut].map((key) => parseInt(key, 10))]; }

  // -- what a reader does ------------------------------------------------------------------------

  canScale(id) { return this.leaves.has(id); }
  canHold(id) { return this.free.has(id); }
  canCut(id, slot) { return this.joined.has(`${id}.${slot}`); }

  scale(id, factor) { this.put(this.scaled, id, factor, 1); }
  hold(id, value) { this.put(this.held, id, value, null); }

  setNumber(id, place, number) {
    const { given } = this.leaves.get(id), list = this.numbersOf(id);
    list[place] = number === shortNumber(given[place]) ? given[place] : number;
    this.put(this.numbers, id, list.every((x, i) => x === given[i]) ? null : list, null);
  }

  setCut(id, slot, isCut) {
    this.cut[isCut ? "add" : "delete"](`${id}.${slot}`);
    this.computed = null;
  }

  reset() {
    for (const kept of [this.scaled, this.numbers, this.held, this.cut]) kept.clear();
    this.computed = null;
  }

  put(map, id, value, usual) {
    if (value === usual) map.delete(id);
    else map.set(id, value);
    this.computed = null;
  }

  // The numbers of a small leaf before scaling; an empty list for a larger one.
  numbersOf(id) {
    const given = this.leaves.get(id)?.given ?? [];
    return given.length > this.data.few ? [] : [...(this.numbers.get(id) ?? given)];
  }

  // -- values ------------------------------------------------------------------------------------

  // Value, gradient or tangent of a node after all changes; null if it has none.
  value(mode, id) {
    const view = this.results[mode].get(id);
    if (!view) return null;
    if (!this.computed) this.run();
    const key = `${mode}.${id}`;
    if (!this.computed.has(key)) this.computed.set(key, summary(this.read(view), view[2], this.data));
    return this.computed.get(key);
  }

  run() {
    for (const [id, { view, given }] of this.leaves) {
      const factor = this.scaled.get(id) ?? 1, numbers = this.numbers.get(id) ?? given;
      this.write(view, factor === 1 ? numbers : numbers.map((x) => factor * x));
    }
    for (const [id, [own, other]] of this.free) {
      this.write(own, [this.held.has(id) ? 0 : 1]);
      this.write(other, [this.held.get(id) ?? 0]);
    }
    for (const [key, view] of this.joined) this.write(view, [this.cut.has(key) ? 0 : 1]);
    this.forms ??= this.data.forms.map((text) => new Function("m", "a", "h", text));
    for (const call of this.data.calls) this.forms[call[0]](this.arrays, call, HELPERS);
    this.computed = new Map();
  }

  decoded([number], text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return Array.from(new (this.data.buffers[number][0] === "float32" ? Float32Array : Float64Array)(bytes.buffer));
  }

  write(view, numbers) { this.eachPlace(view, (array, place, i) => { array[place] = numbers[i]; }); }

  read(view) {
    const found = [];
    this.eachPlace(view, (array, place) => found.push(array[place]));
    return found;
  }

  eachPlace([number, offset, shape, strides], visit) {
    let count = 0;
    const walk = (axis, place) => {
      if (axis === shape.length) return visit(this.arrays[number], place, count++);
      for (let i = 0; i < shape[axis]; i++) walk(axis + 1, place + i * strides[axis]);
    };
    walk(0, offset);
  }
}

const shortNumber = (x) => Number(x.toPrecision(6));

// The facts of an array, as values.py computes them.
function summary(array, shape, { side, few }) {
  if (!array.length) return { min: 0, mean: 0, max: 0, norm: 0, columns: 0, heat: "", numbers: [] };
  let min = Infinity, max = -Infinity, sum = 0, squares = 0;
  for (const x of array) { min = Math.min(min, x); max = Math.max(max, x); sum += x; squares += x * x; }
  const columns = shape.at(-1) ?? 1, table = [];
  for (let i = 0; i < array.length; i += columns) table.push(array.slice(i, i + columns));
  const transposed = (rows) => rows[0].map((_, j) => rows.map((row) => row[j]));
  const cells = transposed(blockMeans(transposed(blockMeans(table, side)), side));
  return {
    min, mean: sum / array.length, max, norm: Math.sqrt(squares), columns: cells[0].length, heat: lettersOf(cells.flat()),
    numbers: array.length <= few ? [...array] : [],
  };
}

// Means of blocks of rows of nearly equal size.
function blockMeans(rows, most) {
  if (rows.length <= most) return rows;
  const start = (k) => Math.floor((k * rows.length) / most);
  return Array.from({ length: most }, (_, k) => {
    const block = rows.slice(start(k), start(k + 1));
    return block[0].map((_, j) => block.reduce((sum, row) => sum + row[j], 0) / block.length);
  });
}

function lettersOf(cells) {
  const size = Math.max(0, ...cells.filter(Number.isFinite).map(Math.abs));
  return cells.map((x) => (Number.isFinite(x) ? LEVELS[32 + (size ? HELPERS.round((x / size) * 31) : 0)] : "!")).join("");
}
