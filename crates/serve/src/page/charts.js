// Sparklines, lines over time, and the strip that selects a range.
const SVG = "http://www.w3.org/2000/svg";

function draw(tag, attributes, parent) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (parent) parent.append(made);
  return made;
}

/** Returns a small line of weights, described by a text. */
function sparkline(weights, text) {
  const most = Math.max(1, ...weights), last = Math.max(1, weights.length - 1);
  const svg = draw("svg", { class: "spark", viewBox: `0 0 ${last} 100`, preserveAspectRatio: "none", role: "img", "aria-label": text });
  const points = weights.map((weight, at) => `${at},${(98 - (96 * weight) / most).toFixed(1)}`);
  if (points.length === 1) points.push(`1,${points[0].split(",")[1]}`);
  draw("path", { class: "area", d: `M0,100L${points.join("L")}L${last},100Z` }, svg);
  draw("path", { class: "line", d: `M${points.join("L")}` }, svg);
  return svg;
}

/** Returns lines of shares over time; `marks` are slices with a text. */
function lineChart(lines, marks, text) {
  const length = Math.max(1, ...lines.map((line) => line.shares.length - 1));
  const most = Math.max(1e-6, ...lines.flatMap((line) => line.shares.filter((share) => share !== null)));
  const svg = draw("svg", { class: "chart", viewBox: `0 0 ${length} 100`, preserveAspectRatio: "none", role: "img", "aria-label": text });
  for (const { at } of marks) draw("line", { class: "deploy", x1: at, x2: at, y1: 0, y2: 100 }, svg);
  lines.forEach((line, number) => {
    const has = (at) => line.shares[at] !== null && line.shares[at] !== undefined;
    let path = "";
    line.shares.forEach((share, at) => {
      if (!has(at)) return;
      path += `${has(at - 1) ? "L" : "M"}${at},${(96 - (92 * share) / most).toFixed(2)}`;
      // A lone slice is a short line.
      if (!has(at - 1) && !has(at + 1)) path += "h0.4";
    });
    draw("path", { class: `series-${number % 6}`, d: path }, svg);
  });
  return { svg, most };
}

const strip = { begin: null, chosen: null };

function stripStyle(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function drawStrip() {
  if (!about) return;
  const canvas = $("time"), width = canvas.clientWidth, height = canvas.clientHeight, ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const step = width / Math.max(1, about.kept.length);
  const all = about.kept.map((kept, at) => kept + (about.lost[at] || 0)), most = Math.max(1, ...all);
  const bar = (at, from, part) => pen.fillRect(at * step, height - ((from + part) / most) * (height - 4), Math.max(0.5, step - 0.3), (part / most) * (height - 4));
  pen.fillStyle = stripStyle("--bar");
  about.kept.forEach((kept, at) => bar(at, 0, kept));
  pen.fillStyle = stripStyle("--more");
  about.lost.forEach((lost, at) => bar(at, about.kept[at], lost));
  const place = (us) => ((us - about.start_us) / Math.max(1, about.end_us - about.start_us)) * width;
  const mark = ([since, until], line, fill) => {
    const x = place(since), wide = Math.max(2, place(until) - x);
    pen.fillStyle = fill;
    pen.fillRect(x, 0, wide, height);
    pen.strokeStyle = line;
    pen.strokeRect(x + 0.5, 0.5, wide - 1, height - 1);
  };
  const [since, until] = strip.chosen || range();
  if (hasVersus() && state.view === "compare") {
    mark([state.vsSince ?? since, state.vsUntil ?? until], stripStyle("--bar-other"), "transparent");
  }
  mark([since, until], stripStyle("--accent"), stripStyle("--range"));
  $("range").textContent = rangeText(since, until);
  canvas.setAttribute("aria-valuetext", rangeText(since, until));
  canvas.setAttribute("aria-valuenow", Math.round((100 * (since - about.start_us)) / Math.max(1, about.end_us - about.start_us)));
}

/** Returns a range within the source's times, at least a slice long. */
function bounded(since, until) {
  const least = Math.min(about.step_us, about.end_us - about.start_us);
  const from = Math.round(Math.max(about.start_us, Math.min(since, about.end_us - least)));
  return [from, Math.round(Math.min(about.end_us, Math.max(until, from + least)))];
}

function choose(since, until) {
  const [from, to] = bounded(since, until);
  strip.chosen = null;
  go({ since: from, until: to });
}

function onStrip() {
  const canvas = $("time");
  const timeAt = (event) => {
    const box = canvas.getBoundingClientRect(), part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    return about.start_us + part * (about.end_us - about.start_us);
  };
  const dragged = (event) => {
    const end = timeAt(event);
    return bounded(Math.min(strip.begin, end), Math.max(strip.begin, end));
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !about) return;
    strip.begin = timeAt(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (strip.begin === null || !event.buttons) return;
    strip.chosen = dragged(event);
    drawStrip();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (strip.begin === null) return;
    const [since, until] = range(), length = until - since, at = strip.begin;
    const isClick = Math.abs(timeAt(event) - at) < (3 / canvas.clientWidth) * (about.end_us - about.start_us);
    const wanted = isClick ? [at - length / 2, at + length / 2] : dragged(event);
    strip.begin = null;
    choose(...wanted);
  });
  canvas.addEventListener("keydown", (event) => {
    const part = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!part || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const [since, until] = range(), by = part * Math.max(about.step_us, (until - since) / 10);
    if (event.shiftKey) return choose(since, until + by);
    const moved = Math.max(about.start_us - since, Math.min(by, about.end_us - until));
    choose(since + moved, until + moved);
  });
}

const PRESETS = [["15 min", HOUR_US / 4], ["1 h", HOUR_US], ["6 h", 6 * HOUR_US], ["1 d", 24 * HOUR_US], ["All", Infinity]];

function showPresets() {
  const all = about.end_us - about.start_us;
  const fitting = PRESETS.filter(([, length]) => length === Infinity || (isStore() && length < all));
  $("presets").replaceChildren(...fitting.map(([text, length]) => {
    const click = () => (length === Infinity ? choose(about.start_us, about.end_us) : choose(about.end_us - length, about.end_us));
    return make("button", { type: "button", onclick: click, title: length === Infinity ? "All times" : `The last ${text}` }, text);
  }));
}
