// Layered layout (after Sugiyama): ranks by longest path, order within a rank by barycenters, places by least squares.
// Its axes are along (the flow) and across; the caller maps them to x and y.

const DUMMY = 8;

// items: {key, along, across, order, rank: undefined | "first" | "last", pin: -1 | 0 | 1}
// arcs: {low, high: keys, lowAt, highAt: offset across from the item's center, room: for a label, before the high end}
// Sets `start` (along) and `centre` (across) of items, and `points` of arcs.
function layered(items, arcs, gap) {
  const byKey = new Map(items.map((item) => [item.key, item]));
  assignRanks(items, arcs, byKey);
  const ranks = splitRanks(items, arcs, byKey);
  orderRanks(ranks);
  const across = placeAcross(ranks, gap.across);
  const along = placeAlong(ranks, arcs, byKey, gap.along);
  for (const arc of arcs) arc.points = pointsOf(arc, byKey);
  return { along, across };
}

function assignRanks(items, arcs, byKey) {
  const free = items.filter((item) => !item.rank).sort((a, b) => a.order - b.order);
  const into = new Map(items.map((item) => [item.key, []])), outOf = new Map(items.map((item) => [item.key, []]));
  for (const arc of arcs) {
    into.get(arc.high).push(arc);
    outOf.get(arc.low).push(arc);
  }
  for (const item of free) {
    item.level = Math.max(0, ...into.get(item.key).map((arc) => byKey.get(arc.low)).filter((low) => !low.rank).map((low) => low.level + 1));
  }
  for (const item of [...free].reverse()) {  // what nothing enters stands just before what reads it
    const readers = outOf.get(item.key).map((arc) => byKey.get(arc.high)).filter((high) => !high.rank);
    if (!into.get(item.key).length && readers.length) item.level = Math.min(...readers.map((reader) => reader.level)) - 1;
  }
  const last = Math.max(-1, ...free.map((item) => item.level));
  for (const item of items) item.level = item.rank === "first" ? 0 : item.rank === "last" ? last + 2 : item.level + 1;
}

// The ranks as lists; an arc over several ranks passes through a dummy in each, and arcs of one bundle share theirs.
function splitRanks(items, arcs, byKey) {
  const ranks = Array.from({ length: Math.max(1, ...items.map((item) => item.level + 1)) }, () => []);
  for (const item of items) ranks[item.level].push(Object.assign(item, { before: [], after: [] }));
  const long = arcs.filter((arc) => byKey.get(arc.high).level - byKey.get(arc.low).level > 1);
  const fanOut = countBy(long, (arc) => `${arc.low}|${arc.lowAt}`), fanIn = countBy(long, (arc) => `${arc.high}|${arc.highAt}`);
  const dummies = new Map();
  for (const arc of arcs) {
    const low = byKey.get(arc.low), high = byKey.get(arc.high);
    const source = `${arc.low}|${arc.lowAt}`, target = `${arc.high}|${arc.highAt}`;
    const bundle = fanOut.get(source) > 1 ? `out ${source}` : fanIn.get(target) > 1 ? `in ${target}` : arc.key;
    arc.via = [];
    for (let level = low.level + 1; level < high.level; level++) {
      const key = `${bundle}@${level}`;
      if (!dummies.has(key)) {
        const dummy = { key, isDummy: true, along: 0, across: DUMMY, order: low.order, pin: 0, level, before: [], after: [] };
        dummies.set(key, dummy);
        ranks[level].push(dummy);
      }
      arc.via.push(dummies.get(key));
    }
    const chain = [low, ...arc.via, high];
    for (let i = 0; i + 1 < chain.length; i++) {
      const a = chain[i], b = chain[i + 1];
      if (a.after.some((link) => link.item === b && a.isDummy && b.isDummy)) continue;
      const weight = a.isDummy && b.isDummy ? 8 : a.isDummy || b.isDummy ? 1 : arc.weight ?? 3;
      const at = a.isDummy ? 0 : arc.lowAt, bAt = b.isDummy ? 0 : arc.highAt;
      a.after.push({ item: b, own: at, other: bAt, weight });
      b.before.push({ item: a, own: bAt, other: at, weight });
    }
  }
  return ranks;
}

function countBy(list, keyOf) {
  const counts = new Map();
  for (const thing of list) counts.set(keyOf(thing), (counts.get(keyOf(thing)) ?? 0) + 1);
  return counts;
}

function orderRanks(ranks) {
  for (const rank of ranks) { rank.sort((a, b) => a.pin - b.pin || a.order - b.order); stack(rank); }
  let best = null, least = Infinity;
  for (let sweep = 0; sweep < 14 && least > 0; sweep++) {
    const isUp = sweep % 2 === 0;
    for (const rank of isUp ? ranks : [...ranks].reverse()) {
      for (const item of rank) {
        const links = isUp ? item.before : item.after;
        item.wanted = links.length ? mean(links.map((link) => link.item.centre + link.other - link.own)) : item.centre;
      }
      rank.sort((a, b) => a.pin - b.pin || a.wanted - b.wanted || a.order - b.order);
      stack(rank);
    }
    const crossings = countCrossings(ranks);
    if (crossings < least) { least = crossings; best = ranks.map((rank) => [...rank]); }
  }
  ranks.forEach((rank, i) => { rank.splice(0, rank.length, ...(best?.[i] ?? rank)); stack(rank); });
}

const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;

// Items next to each other, centered at zero: positions for barycenters.
function stack(rank) {
  let at = -rank.reduce((sum, item) => sum + item.across + 12, 0) / 2;
  for (const item of rank) { item.centre = at + item.across / 2; at += item.across + 12; }
}

function countCrossings(ranks) {
  let count = 0;
  for (const rank of ranks) {
    const links = rank.flatMap((item) => item.after.map((link) => [item.centre + link.own, link.item.centre + link.other]));
    if (links.length > 500) continue;
    for (let i = 0; i < links.length; i++) {
      for (let j = 0; j < i; j++) if ((links[i][0] - links[j][0]) * (links[i][1] - links[j][1]) < 0) count++;
    }
  }
  return count;
}

// Moves each rank toward its neighbors, as near as its order and the gaps allow.
function placeAcross(ranks, gap) {
  for (let sweep = 0; sweep < 16; sweep++) {
    const isUp = sweep % 2 === 0;
    for (const rank of isUp ? ranks : [...ranks].reverse()) {
      const wanted = rank.map((item) => {
        const links = sweep < 10 ? (isUp ? item.before : item.after) : [...item.before, ...item.after];
        const weight = links.reduce((sum, link) => sum + link.weight, 0);
        const place = links.reduce((sum, link) => sum + link.weight * (link.item.centre + link.other - link.own), 0);
        return weight ? { place: place / weight, weight } : { place: item.centre, weight: 0.01 };
      });
      settle(rank, wanted, gap);
    }
  }
  const all = ranks.flat();
  const low = Math.min(...all.map((item) => item.centre - item.across / 2));
  for (const item of all) item.centre -= low;
  return Math.max(...all.map((item) => item.centre + item.across / 2));
}

// Least squares with a fixed order: pool adjacent violators.
function settle(rank, wanted, gap) {
  const offsets = [];
  let offset = 0;
  rank.forEach((item, i) => {
    if (i) offset += (rank[i - 1].across + item.across) / 2 + (item.isDummy || rank[i - 1].isDummy ? gap / 2 : gap);
    offsets.push(offset);
  });
  const pools = [];
  rank.forEach((item, i) => {
    let pool = { place: wanted[i].place - offsets[i], weight: wanted[i].weight, count: 1 };
    while (pools.length && pools.at(-1).place > pool.place) {
      const other = pools.pop();
      const weight = other.weight + pool.weight;
      pool = { place: (other.place * other.weight + pool.place * pool.weight) / weight, weight, count: other.count + pool.count };
    }
    pools.push(pool);
  });
  let i = 0;
  for (const pool of pools) for (let k = 0; k < pool.count; k++, i++) rank[i].centre = pool.place + offsets[i];
}

// Steep fans get wider gaps.
function placeAlong(ranks, arcs, byKey, gap) {
  const rooms = ranks.map(() => 0);
  for (const arc of arcs) rooms[byKey.get(arc.high).level] = Math.max(rooms[byKey.get(arc.high).level], arc.room ?? 0);
  let at = 0;
  ranks.forEach((rank, i) => {
    const slope = Math.max(0, ...rank.flatMap((item) => item.before.map((link) => Math.abs(link.item.centre + link.other - item.centre - link.own))));
    const isEmpty = !rank.length;
    if (i && !isEmpty && ranks.slice(0, i).some((other) => other.length)) at += rooms[i] + gap + Math.min(70, slope * 0.16);
    const widest = Math.max(0, ...rank.map((item) => item.along));
    for (const item of rank) Object.assign(item, { start: at + (widest - item.along) / 2, low: at, high: at + widest });
    at += widest;
  });
  return at;
}

// Straight through ranks, curved between them: pairs (along, across).
function pointsOf(arc, byKey) {
  const low = byKey.get(arc.low), high = byKey.get(arc.high);
  const a = low.centre + arc.lowAt, b = high.centre + arc.highAt;
  const points = [[low.start + low.along - (low.inset ?? 0), a], [low.high, a]];
  for (const dummy of arc.via) points.push([dummy.low, dummy.centre], [dummy.high, dummy.centre]);
  points.push([high.low - (arc.room ?? 0), b], [high.start + (high.inset ?? 0), b]);
  return points;
}
