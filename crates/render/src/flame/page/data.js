// What the page was given: names, the tree, and the samples on it. encode.rs says how they are laid out.
const data = JSON.parse(document.getElementById("data").textContent);
const MERGED = 1; // the function that stands for what was too narrow
const THREAD = data.kinds.indexOf("thread"); // the kind of what is no code
const hasOther = data.accounts.length > 1;

/** Reads numbers of 7 bits a byte. They can have more than 32 bits, where shifts don't work. */
class Numbers {
  constructor(base64) {
    this.text = atob(base64);
    this.at = 0;
  }
  get isEnd() {
    return this.at >= this.text.length;
  }
  next() {
    let byte = this.text.charCodeAt(this.at++);
    let value = byte & 127;
    for (let factor = 128; byte > 127; factor *= 128) {
      byte = this.text.charCodeAt(this.at++);
      value += (byte & 127) * factor;
    }
    return value;
  }
}

/** A tree as columns. Behind each node stands all that is below it, up to `end`. */
class Tree {
  constructor(count) {
    this.count = count;
    this.parent = new Int32Array(count);
    this.depth = new Int32Array(count);
    this.fn = new Int32Array(count);
    this.end = new Int32Array(count);
    // What goes through each node, and what ends there, of this recording and of the other one.
    this.total = [new Float64Array(count), new Float64Array(hasOther ? count : 0)];
    this.own = [new Float64Array(count), new Float64Array(hasOther ? count : 0)];
  }
  closeEnds() {
    const { end, parent, count } = this;
    for (let i = 0; i < count; i++) end[i] = i + 1;
    for (let i = count - 1; i > 0; i--) if (end[i] > end[parent[i]]) end[parent[i]] = end[i];
  }
}

function readTree() {
  const tree = new Tree(data.count), numbers = new Numbers(data.nodes);
  const path = [0];
  for (let i = 1; i < data.count; i++) {
    path.length -= numbers.next();
    tree.parent[i] = path[path.length - 1];
    tree.depth[i] = path.length;
    tree.fn[i] = numbers.next();
    path.push(i);
  }
  tree.closeEnds();
  return tree;
}

/** Samples as columns. */
function readRows() {
  const numbers = new Numbers(data.rows);
  const rows = { count: 0, groups: [], node: [], slice: [], period: [], samples: [] };
  while (!numbers.isEnd) {
    const side = numbers.next(), event = numbers.next(), thread = numbers.next();
    const first = rows.count, last = first + numbers.next();
    const usual = data.events[event].usual;
    for (let node = 0, slice = 0; rows.count < last; rows.count++) {
      const on = numbers.next(), time = numbers.next(), samples = numbers.next();
      slice = on === 0 ? slice + time : time;
      node += on;
      const count = Math.floor(samples / 2);
      rows.node.push(node);
      rows.slice.push(slice);
      rows.samples.push(count);
      rows.period.push(samples % 2 ? count * usual : numbers.next());
    }
    rows.groups.push({ side, event, thread, first, last });
  }
  rows.node = Int32Array.from(rows.node);
  rows.slice = Uint16Array.from(rows.slice);
  rows.period = Float64Array.from(rows.period);
  return rows;
}

const tree = readTree();
const rows = readRows();
