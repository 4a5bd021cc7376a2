// The page's data: names, the tree, and the samples on it. encode.rs describes the encoding.
const data = JSON.parse(document.getElementById("data").textContent);
const MERGED = 1; // index of the function that stands for merged ones
const THREAD = data.kinds.indexOf("thread"); // index of the kind of thread names
const hasOther = data.accounts.length > 1;

/** Reads LEB128 numbers. They can have more than 32 bits, so it multiplies instead of shifting. */
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

/** A tree as columns. A node is followed by its subtree, which ends before the index `end`. */
class Tree {
  constructor(count) {
    this.count = count;
    this.parent = new Int32Array(count);
    this.depth = new Int32Array(count);
    this.fn = new Int32Array(count);
    this.end = new Int32Array(count);
    // By recording: each node's weight with the nodes below it, and its own weight.
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

/** Reads the samples as columns, in groups of one recording, event and thread. */
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
