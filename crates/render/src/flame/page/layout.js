// Positions and colours of functions, and which function is at a position.
const ROW = 18; // height of a function in pixels
const LEAST = 0.5; // narrower functions, in pixels, are drawn together
const view = {
  mode: data.icicle ? "icicle" : "flame",
  fn: 0, // the function of the sandwich view
  zoom: 0, // the node at full width
  side: 0, // the recording whose weights are the widths
  colour: hasOther ? "difference" : "kind",
  matches: null, // a Uint8Array by function
  focus: null, // { tree, node }
  hover: null,
};
let bands = []; // one for each row of functions: { tree, nodes, xs, widths, narrow }
let shown = { callers: null, callees: null };

const style = getComputedStyle(document.documentElement);
const css = (name) => style.getPropertyValue(name).trim();
let colours = {};

function readColours() {
  colours = { kinds: data.kinds.map((_, at) => css(`--kind-${at}`)), modules: new Map() };
  for (const name of ["root", "narrow", "ink", "match", "back", "text", "faint", "accent", "bar", "bar-other", "range", "even", "more", "less", "line"]) {
    colours[name] = css(`--${name}`);
  }
}

function moduleColour(dso) {
  let colour = colours.modules.get(dso);
  if (!colour) {
    let hash = 7;
    for (const c of data.dsos[dso]) hash = (Math.imul(hash, 31) + c.codePointAt(0)) >>> 0;
    colour = data.dsos[dso] ? `hsl(${(hash * 137) % 360} ${css("--rich")} ${css("--light")})` : css("--kind-5");
    colours.modules.set(dso, colour);
  }
  return colour;
}

/** Returns the change of a node's share of the weight, from -1 to 1; positive if it grew. */
function change(tree, node) {
  const [now, before] = [all(0), all(1)];
  return (now ? tree.total[0][node] / now : 0) - (before ? tree.total[1][node] / before : 0);
}

function mixed(from, to, part) {
  return `color-mix(in srgb, ${to} ${Math.round(part * 100)}%, ${from})`;
}

const steps = new Map();
function differenceColour(by) {
  // A change by 10 points has the full colour; the square root makes small changes visible.
  const part = Math.round(Math.min(1, Math.sqrt(Math.abs(by) * 10)) * 20) / 20;
  const key = by > 0 ? part : -part;
  if (!steps.has(key)) steps.set(key, mixed(colours.even, by > 0 ? colours.more : colours.less, part));
  return steps.get(key);
}

function fill(tree, node) {
  const fn = tree.fn[node];
  if (view.matches && view.matches[fn]) return colours.match;
  if (fn === 0) return colours.root;
  if (fn === MERGED) return colours.narrow;
  if (view.colour === "difference") return differenceColour(change(tree, node));
  return view.colour === "module" && data.kind[fn] !== THREAD ? moduleColour(data.dso[fn]) : colours.kinds[data.kind[fn]];
}

/** Lays out a tree in rows, the root's first, with the node `zoom` at full width. */
function layOut(tree, zoom, width) {
  const total = tree.total[view.side], levels = [], scale = total[zoom] > 0 ? width / total[zoom] : 0;
  const level = (depth) => (levels[depth] ??= { tree, nodes: [], xs: [], widths: [], narrow: [] });
  for (let up = zoom; ; up = tree.parent[up]) {
    const row = level(tree.depth[up]);
    row.nodes.push(up);
    row.xs.push(0);
    row.widths.push(width);
    if (up === 0) break;
  }
  const next = [];
  next[tree.depth[zoom]] = 0;
  for (let i = zoom + 1; i < tree.end[zoom]; ) {
    const depth = tree.depth[i], x = next[depth - 1], w = total[i] * scale;
    next[depth - 1] = x + w;
    if (w < LEAST) {
      const narrow = w > 0 ? level(depth).narrow : null, last = narrow && narrow.length - 1;
      if (narrow && last > 0 && x - narrow[last] < 0.01) narrow[last] = x + w;
      else if (narrow) narrow.push(x, x + w);
      i = tree.end[i];
      continue;
    }
    const row = level(depth);
    row.nodes.push(i);
    row.xs.push(x);
    row.widths.push(w);
    next[depth] = x;
    i++;
  }
  return levels;
}

/** Fills `bands` with the current view's rows, from top to bottom. */
function arrange(width) {
  if (view.mode === "sandwich") {
    const callers = layOut(shown.callers, 0, width).slice(1).reverse();
    bands = callers.concat(layOut(shown.callees, 0, width));
    view.middle = callers.length;
  } else if (view.mode === "timeline") {
    bands = [];
  } else {
    bands = layOut(tree, view.zoom, width);
    if (view.mode === "flame") bands.reverse();
  }
}

const canvas = document.getElementById("graph"), scroll = document.getElementById("scroll");

/** Sizes a canvas for the screen's pixel ratio, clears it, and returns its context. */
function context(of, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (of.width !== w || of.height !== h) {
    of.width = w;
    of.height = h;
    of.style.height = `${height}px`;
  }
  const pen = of.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

/** Shortens a text to fit; all its characters have the same width. */
function fitting(text, width, character) {
  const fits = Math.floor(width / character);
  if (text.length <= fits) return text;
  return fits < 3 ? "" : `${text.slice(0, fits - 1)}…`;
}

function draw() {
  const width = scroll.clientWidth, height = scroll.clientHeight;
  const pen = context(canvas, width, height), top = scroll.scrollTop;
  if (view.mode === "timeline") return drawLanes(pen, width, height, top);
  pen.font = "12px ui-monospace, Menlo, Consolas, monospace";
  pen.textBaseline = "middle";
  const character = pen.measureText("0123456789").width / 10;
  const first = Math.max(0, Math.floor(top / ROW)), last = Math.min(bands.length, Math.ceil((top + height) / ROW));
  for (let at = first; at < last; at++) {
    const band = bands[at], y = at * ROW - top;
    if (!band) continue;
    pen.fillStyle = colours.narrow;
    for (let i = 0; i < band.narrow.length; i += 2) {
      pen.fillRect(band.narrow[i], y, Math.max(0.3, band.narrow[i + 1] - band.narrow[i]), ROW - 1);
    }
    for (let i = 0; i < band.nodes.length; i++) {
      const node = band.nodes[i], x = band.xs[i], w = band.widths[i];
      pen.globalAlpha = view.mode !== "sandwich" && node !== view.zoom && band.tree.end[node] > view.zoom && node < view.zoom ? 0.55 : 1;
      pen.fillStyle = fill(band.tree, node);
      pen.fillRect(x, y, w > 2 ? w - 0.6 : w, ROW - 1);
      if (w > 4 * character) {
        pen.fillStyle = view.matches && view.matches[band.tree.fn[node]] ? "#ffffff" : colours.ink;
        pen.fillText(fitting(data.names[band.tree.fn[node]], w - 6, character), x + 3, y + ROW / 2);
      }
    }
    pen.globalAlpha = 1;
    outline(pen, band, y, view.hover, colours.text, 1);
    outline(pen, band, y, document.activeElement === canvas ? view.focus : null, colours.accent, 2);
  }
  if (view.mode === "sandwich") {
    pen.strokeStyle = colours.text;
    pen.strokeRect(0.5, view.middle * ROW - top - 0.5, width - 1, ROW);
  }
}

function outline(pen, band, y, what, colour, thickness) {
  if (!what || what.tree !== band.tree) return;
  const i = band.nodes.indexOf(what.node);
  if (i < 0) return;
  pen.strokeStyle = colour;
  pen.lineWidth = thickness;
  pen.strokeRect(band.xs[i] + thickness / 2, y + thickness / 2, Math.max(1, band.widths[i] - thickness), ROW - 1 - thickness);
}

/** Returns the node at a position of the canvas, or null. */
function under(x, y) {
  const band = bands[Math.floor((y + scroll.scrollTop) / ROW)];
  if (!band) return null;
  let [low, high] = [0, band.nodes.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (band.xs[middle] <= x) low = middle;
    else high = middle - 1;
  }
  const isIn = band.nodes.length > 0 && x >= band.xs[low] && x < band.xs[low] + band.widths[low];
  return isIn ? { tree: band.tree, node: band.nodes[low] } : null;
}

/** Returns the share of call chains with a matching function; null without a search. */
function matchedShare() {
  if (!view.matches) return null;
  let sum = 0;
  for (let i = view.zoom; i < tree.end[view.zoom]; ) {
    const isMatch = i > 0 && view.matches[tree.fn[i]];
    if (isMatch) sum += tree.total[view.side][i];
    i = isMatch ? tree.end[i] : i + 1;
  }
  const whole = tree.total[view.side][view.zoom];
  return whole > 0 ? sum / whole : 0;
}
