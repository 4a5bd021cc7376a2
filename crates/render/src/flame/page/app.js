// Keys, pointer and buttons.
let isDrawing = false;

function redraw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    draw();
  });
}

/** Lays out the current view again. `toRoot` scrolls to the root of the graph. */
function update(toRoot) {
  const isSandwich = view.mode === "sandwich", isTimeline = view.mode === "timeline";
  document.body.dataset.view = view.mode;
  for (const button of $("views").children) button.setAttribute("aria-pressed", String(button.dataset.view === view.mode));
  $("list").hidden = !isSandwich;
  $("zoom-out").hidden = isSandwich || isTimeline || view.zoom === 0;
  $("colour").value = view.colour;
  if (isSandwich) {
    const first = showFunctions(chooseFunction);
    if (!view.fn) {
      view.fn = first;
      showFunctions(chooseFunction);
    }
    shown = sandwich(view.fn);
  } else if (isTimeline) {
    arrangeLanes();
  }
  arrange(scroll.clientWidth);
  const height = isTimeline ? lanes.length * LANE : bands.length * ROW;
  $("spacer").style.height = `${Math.max(height, scroll.clientHeight)}px`;
  if (toRoot) scroll.scrollTop = view.mode === "flame" ? scroll.scrollHeight : isSandwich ? view.middle * ROW - scroll.clientHeight / 2 : 0;
  // A flame graph that is lower than the window stands at its bottom.
  view.lift = view.mode === "flame" ? Math.max(0, Math.floor(scroll.clientHeight / ROW) - bands.length) : 0;
  if (view.lift) bands = [...new Array(view.lift), ...bands];
  showLegend();
  showStatus(view.hover || view.focus);
  showMatched();
  redraw();
}

/** Updates everything after a change of the selected samples. */
function reweigh() {
  weigh();
  view.hover = null;
  drawStrip();
  showThreadList();
  update(false);
}

let threadList;
function showThreadList() {
  threadList = showThreads(reweigh);
}

function setView(mode) {
  view.mode = mode;
  view.hover = view.focus = null;
  showTip(null);
  update(true);
}

function chooseFunction(fn) {
  view.fn = fn;
  setView("sandwich");
}

function zoomTo(what) {
  if (!what) return;
  if (what.tree !== tree) return isCode(what.tree.fn[what.node]) ? chooseFunction(what.tree.fn[what.node]) : undefined;
  view.zoom = what.node;
  view.focus = what;
  update(true);
}

function search() {
  const text = $("search").value.trim();
  if (!text) {
    view.matches = null;
  } else {
    let finds = (name) => name.toLowerCase().includes(text.toLowerCase());
    try {
      const pattern = new RegExp(text, "i");
      finds = (name) => pattern.test(name);
    } catch {
      // Not a regular expression: search for the text itself.
    }
    view.matches = Uint8Array.from(data.names, (name, at) => (at > MERGED && finds(name) ? 1 : 0));
  }
  if (view.mode === "sandwich") showFunctions(chooseFunction);
  showMatched();
  redraw();
}

function showMatched() {
  const share = matchedShare();
  $("matched").textContent = share === null ? "" : `${percent(share)} matched`;
}

function setTheme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  readColours();
  steps.clear();
  drawStrip();
  update(false);
}

function setSide(side) {
  view.side = side;
  $("side").textContent = `Widths: ${side ? "before" : "now"}`;
  update(false);
}

/** Returns the function to focus on after an arrow key. */
function moveFocus(key) {
  const { focus } = view;
  const at = focus ? bands.findIndex((band) => band && band.tree === focus.tree && band.nodes.includes(focus.node)) : -1;
  if (at < 0) {
    const band = bands[view.mode === "sandwich" ? view.middle : view.mode === "flame" ? bands.length - 1 : 0];
    return { tree: band.tree, node: band.nodes[0] };
  }
  const band = bands[at], i = band.nodes.indexOf(focus.node);
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const next = band.nodes[i + (key === "ArrowLeft" ? -1 : 1)];
    return next === undefined ? focus : { tree: band.tree, node: next };
  }
  const other = bands[at + (key === "ArrowUp" ? -1 : 1)];
  if (!other || !other.nodes.length) return focus;
  const isBelow = (node) => other.tree.parent[node] === (other.tree === band.tree ? focus.node : 0);
  const child = other.nodes.find((node) => node > 0 && isBelow(node));
  if (child !== undefined && (other.tree !== band.tree || child > focus.node)) return { tree: other.tree, node: child };
  const parent = band.tree.parent[focus.node];
  if (other.tree === band.tree && other.nodes.includes(parent) && focus.node > 0) return { tree: other.tree, node: parent };
  return other.tree !== band.tree && focus.node === 0 ? focus : other.nodes.includes(0) ? { tree: other.tree, node: 0 } : focus;
}

function showFocus() {
  const at = bands.findIndex((band) => band && band.tree === view.focus.tree && band.nodes.includes(view.focus.node));
  if (at >= 0 && at * ROW < scroll.scrollTop) scroll.scrollTop = at * ROW;
  if (at >= 0 && (at + 1) * ROW > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = (at + 1) * ROW - scroll.clientHeight;
  showStatus(view.focus);
  redraw();
}

const KEYS = [
  ["← → ↑ ↓", "move between functions", null],
  ["Enter", "zoom to the function; in the sandwich view, select it", () => zoomTo(view.focus || view.hover)],
  ["Esc", "reset the search, the zoom, the time range, then the selected threads", escape],
  ["/", "search", () => $("search").focus()],
  ["f", "flame: callers below", () => setView("flame")],
  ["i", "icicle: callers above", () => setView("icicle")],
  ["s", "sandwich: callers and callees of one function", () => sandwichOfFocus()],
  ["t", "threads over time", () => setView("timeline")],
  ["c", "colour by kind, by file, by difference", nextColour],
  ["d", "with two recordings: switch the widths between them", () => hasOther && setSide(1 - view.side)],
  ["a", "losses and ledger", () => $("account").showModal()],
  ["l", "light or dark", () => setTheme(!document.documentElement.classList.contains("dark"))],
  ["?", "this help", () => $("help").showModal()],
];

function sandwichOfFocus() {
  const what = view.focus || view.hover;
  if (what && isCode(what.tree.fn[what.node])) view.fn = what.tree.fn[what.node];
  setView("sandwich");
}

function nextColour() {
  const all = [...$("colour").options].filter((option) => !option.disabled).map((option) => option.value);
  view.colour = all[(all.indexOf(view.colour) + 1) % all.length];
  update(false);
}

function escape() {
  if (view.matches) {
    $("search").value = "";
    return search();
  }
  if (view.zoom && view.mode !== "sandwich") {
    view.zoom = 0;
    return update(true);
  }
  if (chosen.from > 0 || chosen.to < data.slices.count) {
    setRange(0, data.slices.count);
    return reweigh();
  }
  if (chosen.threads) {
    chosen.threads = null;
    reweigh();
  }
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isTyping = event.target.matches("input, select");
  if (isTyping && event.key === "Escape") {
    if (event.target === $("search")) escape();
    return canvas.focus();
  }
  if (isTyping && event.key === "Enter" && event.target === $("search")) return canvas.focus();
  if (isTyping) return;
  if (event.target === strip && rangeKey(event)) {
    event.preventDefault();
    return reweigh();
  }
  if (event.key.startsWith("Arrow") && event.target === canvas && bands.length) {
    event.preventDefault();
    view.focus = moveFocus(event.key);
    return showFocus();
  }
  const isButton = event.target.matches("button, summary");
  const known = KEYS.find(([key]) => key === event.key || (key === "Esc" && event.key === "Escape"));
  if (!known || !known[2] || (isButton && event.key === "Enter")) return;
  event.preventDefault();
  known[2]();
}

function onPointer() {
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    view.hover = view.mode === "timeline" ? null : under(event.clientX - box.left, event.clientY - box.top);
    canvas.style.cursor = view.hover ? "pointer" : view.mode === "timeline" ? "crosshair" : "default";
    showTip(view.hover, event.clientX, event.clientY);
    showStatus(view.hover || view.focus);
    redraw();
  });
  canvas.addEventListener("pointerleave", () => {
    view.hover = null;
    showTip(null);
    showStatus(view.focus);
    redraw();
  });
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    if (view.mode !== "timeline") return zoomTo(under(event.clientX - box.left, event.clientY - box.top));
    const lane = lanes[Math.floor((event.clientY - box.top + scroll.scrollTop) / LANE)];
    if (!lane || event.clientX - box.left > LABEL) return;
    chosen.threads ??= new Uint8Array(data.threads.length).fill(1);
    chosen.threads[lane.thread] ^= 1;
    reweigh();
  });
  canvas.addEventListener("focus", redraw);
  canvas.addEventListener("blur", redraw);
  draggable(strip, () => 0, () => true, reweigh);
  draggable(canvas, () => LABEL, () => view.mode === "timeline", reweigh);
}

function onControls() {
  for (const button of $("views").children) {
    button.addEventListener("click", () => (button.dataset.view === "sandwich" ? sandwichOfFocus() : setView(button.dataset.view)));
  }
  data.events.forEach((event, at) => {
    const option = element("option", event.name, $("event"));
    option.value = at;
    option.selected = at === chosen.event;
  });
  $("event").disabled = data.events.length < 2;
  $("event").addEventListener("change", () => {
    chosen.event = Number($("event").value);
    view.zoom = 0;
    reweigh();
  });
  $("colour").options[2].disabled = $("colour").options[2].hidden = !hasOther;
  $("colour").addEventListener("change", () => {
    view.colour = $("colour").value;
    update(false);
  });
  $("side").hidden = !hasOther;
  $("side").addEventListener("click", () => setSide(1 - view.side));
  $("zoom-out").addEventListener("click", () => {
    view.zoom = 0;
    update(true);
  });
  $("search").addEventListener("input", search);
  $("thread-search").addEventListener("input", showThreadList);
  $("threads-all").addEventListener("click", () => threadList.set(true));
  $("threads-none").addEventListener("click", () => threadList.set(false));
  $("theme").addEventListener("click", () => setTheme(!document.documentElement.classList.contains("dark")));
  $("account-line").addEventListener("click", () => $("account").showModal());
  $("help-button").addEventListener("click", () => $("help").showModal());
  document.addEventListener("click", (event) => {
    if (!$("thread-menu").contains(event.target)) $("thread-menu").open = false;
  });
  scroll.addEventListener("scroll", redraw);
  document.addEventListener("keydown", onKey);
  new ResizeObserver(() => {
    drawStrip();
    update(false);
  }).observe(scroll);
}

$("title").textContent = data.title;
// Another page may show this one in a frame, with a title and a range of time of its own.
document.body.classList.toggle("framed", window !== window.parent);
$("strip").hidden = window !== window.parent && data.slices.count < 2;
for (const [key, what] of KEYS) {
  element("dt", key, $("keys"));
  element("dd", what, $("keys"));
}
const darkness = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.classList.toggle("dark", darkness.matches);
darkness.addEventListener("change", (event) => setTheme(event.matches));
readColours();
weigh();
showAccount();
onControls();
onPointer();
showThreadList();
setSide(0);
drawStrip();
update(true);
document.body.dataset.ready = "yes";
