// The selected samples, and the trees of their weights.
const chosen = {
  event: data.events.reduce((most, event, at) => (event.samples[0] > data.events[most].samples[0] ? at : most), 0),
  threads: null, // a Uint8Array by thread; null: all
  from: 0, // time slices; `to` is excluded
  to: data.slices.count,
};

function isChosen(group) {
  return group.event === chosen.event && (!chosen.threads || chosen.threads[group.thread] === 1);
}

/** Sums the weights of the selected samples on the tree. */
function weigh() {
  for (const side of hasOther ? [0, 1] : [0]) {
    const own = tree.own[side].fill(0), total = tree.total[side];
    for (const group of rows.groups) {
      if (group.side !== side || !isChosen(group)) continue;
      for (let i = group.first; i < group.last; i++) {
        const slice = rows.slice[i];
        if (slice >= chosen.from && slice < chosen.to) own[rows.node[i]] += rows.period[i];
      }
    }
    total.set(own);
    for (let i = tree.count - 1; i > 0; i--) total[tree.parent[i]] += total[i];
  }
}

/** Whether an index is that of code, not of the root, merged functions or a thread's name. */
const isCode = (fn) => fn > MERGED && data.kind[fn] !== THREAD;

/** Returns the weight of all selected samples, which is 100%. */
const all = (side) => tree.total[side][0];

/** Returns each function's own weight, and its weight with callees; recursion counts once. */
function functionSums(side) {
  const own = new Float64Array(data.names.length), total = new Float64Array(data.names.length);
  const open = new Int32Array(data.names.length), path = [];
  for (let i = 0; i < tree.count; i++) {
    while (path.length && tree.end[path[path.length - 1]] <= i) open[tree.fn[path.pop()]]--;
    const fn = tree.fn[i];
    own[fn] += tree.own[side][i];
    if (open[fn]++ === 0) total[fn] += tree.total[side][i];
    path.push(i);
  }
  return { own, total };
}

/** Builds a tree node by node, and sorts it at the end. */
class Growing {
  constructor(fn) {
    this.byKey = new Map();
    this.parent = [0];
    this.fn = [fn];
    this.own = [[0], [0]];
  }
  child(parent, fn) {
    const key = parent * data.names.length + fn;
    let at = this.byKey.get(key);
    if (at === undefined) {
      at = this.fn.length;
      this.byKey.set(key, at);
      this.parent.push(parent);
      this.fn.push(fn);
      this.own[0].push(0);
      this.own[1].push(0);
    }
    return at;
  }
  finish() {
    const count = this.fn.length, total = this.own.map((own) => Float64Array.from(own));
    for (const sums of total) for (let i = count - 1; i > 0; i--) sums[this.parent[i]] += sums[i];
    const children = Array.from({ length: count }, () => []);
    for (let i = 1; i < count; i++) children[this.parent[i]].push(i);
    const weight = (i) => total[0][i] + total[1][i];
    const done = new Tree(count), moved = new Int32Array(count), pending = [0];
    for (let at = 0; pending.length; at++) {
      const i = pending.pop();
      moved[i] = at;
      done.parent[at] = moved[this.parent[i]];
      done.depth[at] = at === 0 ? 0 : done.depth[done.parent[at]] + 1;
      done.fn[at] = this.fn[i];
      for (const side of hasOther ? [0, 1] : [0]) {
        done.own[side][at] = this.own[side][i];
        done.total[side][at] = total[side][i];
      }
      children[i].sort((a, b) => weight(a) - weight(b));
      for (const child of children[i]) pending.push(child);
    }
    done.closeEnds();
    return done;
  }
}

/** Returns the trees of a function's callers and callees. Of recursive calls the outermost counts. */
function sandwich(fn) {
  const callers = new Growing(fn), callees = new Growing(fn), sides = hasOther ? [0, 1] : [0];
  const moved = new Int32Array(tree.count);
  for (let i = 1; i < tree.count; ) {
    if (tree.fn[i] !== fn) {
      i++;
      continue;
    }
    let at = 0;
    for (let up = tree.parent[i]; up > 0; up = tree.parent[up]) at = callers.child(at, tree.fn[up]);
    for (const side of sides) callers.own[side][at] += tree.total[side][i];
    for (let below = i; below < tree.end[i]; below++) {
      const isHere = sides.some((side) => tree.total[side][below] > 0);
      if (!isHere) {
        below = tree.end[below] - 1;
        continue;
      }
      moved[below] = below === i ? 0 : callees.child(moved[tree.parent[below]], tree.fn[below]);
      for (const side of sides) callees.own[side][moved[below]] += tree.own[side][below];
    }
    i = tree.end[i];
  }
  const [up, down] = data.callee ? [callees, callers] : [callers, callees];
  return { callers: up.finish(), callees: down.finish() };
}
