// Samples over time: the strip above the graph, which selects a time range, and the threads' lanes.
const strip = document.getElementById("time");
const LANE = 22, LABEL = 190;
let lanes = [];

/** Returns the weight per time slice: `sums` of the selected threads, `byThread` of each thread. */
function overTime(side) {
  const sums = new Float64Array(data.slices.count), byThread = new Map();
  for (const group of rows.groups) {
    if (group.side !== side || group.event !== chosen.event) continue;
    let own = byThread.get(group.thread);
    if (!own) byThread.set(group.thread, (own = { sums: new Float64Array(data.slices.count), all: 0 }));
    for (let i = group.first; i < group.last; i++) {
      own.sums[rows.slice[i]] += rows.period[i];
      own.all += rows.period[i];
      if (isChosen(group)) sums[rows.slice[i]] += rows.period[i];
    }
  }
  return { sums, byThread };
}

function seconds(slice) {
  const length = (data.slices.count * data.slices.width_ns) / 1e9;
  return ((slice * data.slices.width_ns) / 1e9).toFixed(length < 1 ? 4 : length < 100 ? 2 : 0);
}

function rangeText() {
  const isAll = chosen.from === 0 && chosen.to === data.slices.count;
  const range = `${seconds(chosen.from)} s to ${seconds(chosen.to)} s`;
  return isAll ? `0 s to ${seconds(data.slices.count)} s: drag to select a time range` : `${range} of ${seconds(data.slices.count)} s (Esc: whole recording)`;
}

function drawStrip() {
  const width = strip.clientWidth, height = 42, pen = context(strip, width, height);
  const sides = hasOther ? [0, 1] : [0], drawn = sides.map((side) => overTime(side).sums);
  const most = Math.max(1, ...drawn.map((sums) => sums.reduce((a, b) => Math.max(a, b), 0)));
  const step = width / data.slices.count;
  drawn.forEach((sums, side) => {
    pen.fillStyle = side ? colours["bar-other"] : colours.bar;
    pen.globalAlpha = side ? 0.55 : 1;
    sums.forEach((sum, slice) => {
      const bar = (sum / most) * (height - 4);
      if (bar > 0) pen.fillRect(slice * step, height - bar, Math.max(step, 0.5), bar);
    });
  });
  pen.globalAlpha = 1;
  if (chosen.from > 0 || chosen.to < data.slices.count) {
    const [x, w] = [chosen.from * step, (chosen.to - chosen.from) * step];
    pen.fillStyle = colours.range;
    pen.fillRect(x, 0, w, height);
    pen.strokeStyle = colours.accent;
    pen.strokeRect(x + 0.5, 0.5, Math.max(1, w - 1), height - 1);
  }
  strip.setAttribute("aria-valuetext", rangeText());
  document.getElementById("range").textContent = rangeText();
}

function arrangeLanes() {
  const { byThread } = overTime(view.side);
  lanes = [...byThread].map(([thread, own]) => ({ thread, ...own })).sort((a, b) => b.all - a.all);
}

/** Draws a lane per thread; the stronger a slice's colour, the larger its weight. */
function drawLanes(pen, width, height, top) {
  const step = (width - LABEL) / data.slices.count;
  const most = lanes.reduce((most, lane) => lane.sums.reduce((a, b) => Math.max(a, b), most), 1);
  pen.font = "12px ui-monospace, Menlo, Consolas, monospace";
  pen.textBaseline = "middle";
  const character = pen.measureText("0123456789").width / 10;
  lanes.forEach((lane, at) => {
    const y = at * LANE - top;
    if (y < -LANE || y > height) return;
    const isOff = chosen.threads && !chosen.threads[lane.thread];
    pen.globalAlpha = isOff ? 0.35 : 1;
    pen.fillStyle = colours.text;
    pen.fillText(fitting(data.threads[lane.thread], LABEL - 16, character), 12, y + LANE / 2);
    pen.fillStyle = colours.accent;
    lane.sums.forEach((sum, slice) => {
      if (sum <= 0) return;
      pen.globalAlpha = (isOff ? 0.3 : 1) * (0.15 + 0.85 * Math.min(1, sum / most));
      pen.fillRect(LABEL + slice * step, y + 2, Math.max(step, 0.7), LANE - 4);
    });
  });
  pen.globalAlpha = 1;
  pen.fillStyle = colours.range;
  if (chosen.from > 0 || chosen.to < data.slices.count) {
    pen.fillRect(LABEL + chosen.from * step, 0, (chosen.to - chosen.from) * step, height);
  }
}

/** Lets a drag on a canvas select a time range. `left` returns the position where time begins. */
function draggable(of, left, isOn, changed) {
  let start = null;
  const sliceAt = (event) => {
    const box = of.getBoundingClientRect();
    const part = (event.clientX - box.left - left()) / (box.width - left());
    return Math.max(0, Math.min(data.slices.count, part * data.slices.count));
  };
  const choose = (event) => {
    const end = sliceAt(event), [from, to] = [Math.min(start, end), Math.max(start, end)];
    setRange(Math.floor(from), Math.ceil(to));
    changed();
  };
  of.addEventListener("pointerdown", (event) => {
    const box = of.getBoundingClientRect();
    if (!isOn() || event.button !== 0 || event.clientX - box.left < left()) return;
    start = sliceAt(event);
    of.setPointerCapture(event.pointerId);
  });
  of.addEventListener("pointermove", (event) => {
    if (start !== null && event.buttons) choose(event);
  });
  of.addEventListener("pointerup", (event) => {
    if (start === null) return;
    // A click without a drag resets the range.
    if (Math.abs(sliceAt(event) - start) * (of.clientWidth / data.slices.count) < 3) setRange(0, data.slices.count);
    else choose(event);
    start = null;
    changed();
  });
}

function setRange(from, to) {
  chosen.from = Math.max(0, Math.min(from, data.slices.count - 1));
  chosen.to = Math.max(chosen.from + 1, Math.min(to, data.slices.count));
}

/** Moves the range by arrow keys, with Shift only its end. Returns whether the key was one of these. */
function rangeKey(event) {
  const step = Math.max(1, Math.round(data.slices.count / 50));
  const by = { ArrowLeft: -step, ArrowRight: step }[event.key];
  if (!by) return false;
  const isAll = chosen.from === 0 && chosen.to === data.slices.count;
  if (isAll && event.shiftKey) setRange(0, data.slices.count + by);
  else if (isAll) setRange(by > 0 ? by : 0, by > 0 ? data.slices.count : data.slices.count + by);
  else if (event.shiftKey) setRange(chosen.from, chosen.to + by);
  else if (chosen.from + by >= 0 && chosen.to + by <= data.slices.count) setRange(chosen.from + by, chosen.to + by);
  return true;
}
