// The frame of the views: links, conditions, keys.
const SHOWN = { services, flame, table: tableView, compare, function: functionView, losses: lossesView };

function show() {
  if (!about) return;
  state = readState();
  const signal = begin();
  strip.chosen = null;
  delete document.body.dataset.failed;
  for (const anchor of $("views").querySelectorAll("a")) {
    anchor.href = linkOf({ view: anchor.dataset.view });
    if (anchor.dataset.view === state.view) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  $("losses-line").href = linkOf({ view: "losses" });
  const title = VIEWS.find(([name]) => name === state.view)[1];
  document.title = `${title} · ${about.name} · tare`;
  showConditions();
  drawStrip();
  $("main").classList.toggle("framed", state.view === "flame");
  document.body.dataset.view = state.view;
  SHOWN[state.view](signal).catch(() => {});
  showLosses(signal).catch(() => {});
}

function showConditions() {
  $("conditions").replaceChildren(...state.where.map((text) => {
    const remove = () => {
      go({ where: state.where.filter((other) => other !== text) });
      $("condition").focus();
    };
    return make("li", null, text, make("button", { type: "button", "aria-label": `Remove ${text}`, onclick: remove }, "✕"));
  }));
}

function addCondition(event) {
  event.preventDefault();
  const typed = $("condition").value.split(",").map((text) => text.trim()).filter(Boolean);
  if (!typed.length) return;
  const wrong = typed.find((text) => !/[=~]/.test(text));
  if (wrong) return showBusy(`${wrong}: write label=value, label!=value or label~pattern`, true);
  $("condition").value = "";
  go({ where: [...new Set([...state.where, ...typed])] });
}

function setTheme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  document.querySelectorAll("iframe").forEach(matchTheme);
  drawStrip();
}

const KEYS = [
  ...VIEWS.map(([view, title], at) => [String(at + 1), title, () => go({ view })]),
  ["/", "filter", () => $("condition").focus()],
  ["l", "light or dark", () => setTheme(!document.documentElement.classList.contains("dark"))],
  ["Esc", "stop reading", stop],
  ["?", "this help", () => $("help").showModal()],
];

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") $("main").focus();
    return;
  }
  const known = KEYS.find(([key]) => key === event.key || (key === "Esc" && event.key === "Escape" && waiting > 0));
  if (!known) return;
  event.preventDefault();
  known[2]();
}

function onControls() {
  $("views").replaceChildren(...VIEWS.map(([view, title]) => {
    const anchor = make("a", { href: `#view=${view}` }, title);
    anchor.dataset.view = view;
    return make("li", null, anchor);
  }));
  for (const [key, words] of KEYS) $("keys").append(make("dt", null, key), make("dd", null, words));
  $("filters").addEventListener("submit", addCondition);
  $("event").addEventListener("change", () => go({ event: $("event").value }));
  $("stop").addEventListener("click", stop);
  $("theme").addEventListener("click", () => setTheme(!document.documentElement.classList.contains("dark")));
  $("help-button").addEventListener("click", () => $("help").showModal());
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", show);
  new ResizeObserver(drawStrip).observe($("time"));
  onStrip();
}

async function start() {
  const darkness = matchMedia("(prefers-color-scheme: dark)");
  setTheme(darkness.matches);
  darkness.addEventListener("change", (event) => setTheme(event.matches));
  onControls();
  about = await ask("/api/about", "", begin());
  $("title").textContent = `tare · ${about.name.split("/").filter(Boolean).pop() || about.name}`;
  $("title").title = about.name;
  $("labels").replaceChildren(...about.labels.map((label) => make("option", { value: `${label}=` })));
  showPresets();
  show();
  document.body.dataset.ready = "yes";
}

start().catch(() => {});
