// The views. Each fills the main part, and asks its questions under the signal of the view.
const events = new Set();
const OTHER_LABELS = ["module", "function"];

/** Remembers the events of rows, and returns the rows of the chosen or most frequent one. */
function ofEvent(rows) {
  const sums = new Map();
  for (const row of rows) {
    events.add(row.event);
    sums.set(row.event, (sums.get(row.event) || 0) + (row.samples ?? 1));
  }
  const known = [...sums].sort((a, b) => b[1] - a[1]).map(([event]) => event);
  const event = state.event || known[0] || "";
  showEvents(event);
  return rows.filter((row) => row.event === event);
}

function showEvents(event) {
  const names = [...events].sort();
  $("event").replaceChildren(...names.map((name) => make("option", { value: name, selected: name === event }, name)));
  $("event").disabled = names.length < 2;
}

function put(...children) {
  const focused = document.activeElement && document.activeElement.id;
  $("main").replaceChildren(...children);
  if (focused && $(focused) && document.activeElement !== $(focused)) $(focused).focus();
}

function append(signal, ...children) {
  if (!signal.aborted) $("main").append(...children);
}

const nothing = (words) => make("p", { class: "faint" }, words);

/** Adds a condition to the selection; one on the same label with `=` is replaced. */
function narrowed(label, value) {
  if (value === null) return state.where;
  return [...state.where.filter((text) => !text.startsWith(`${label}=`)), `${label}=${value}`];
}

async function services(signal) {
  put(nothing("…"));
  const query = selected(), [since, until] = range();
  query.set("by", isStore() ? "service,version" : "thread,process");
  query.set("slices", 60);
  const answer = await ask("/api/series", query, signal);
  const rows = ofEvent(answer.series), sum = (weights) => weights.reduce((a, b) => a + b, 0);
  for (const row of rows) row.weight = sum(row.weights);
  const all = Math.max(1, sum(rows.map((row) => row.weight)));
  rows.sort((a, b) => b.weight - a.weight);
  if (!rows.length) return put(nothing("No samples are selected. Choose a longer range, or remove a condition."));
  const [first, second] = answer.by, event = rows[0].event;
  // A window counts where it starts, so the source's last slice isn't complete.
  const shown = (row) => (until >= about.end_us && row.weights.length > 3 ? row.weights.slice(0, -1) : row.weights);
  const here = (row) => ({ where: row.names.reduce((where, name, at) => (name === null ? where : [...where.filter((text) => !text.startsWith(`${answer.by[at]}=`)), `${answer.by[at]}=${name}`]), state.where) });
  const columns = [
    text(first, (row) => row.names[0], { isWide: true, isHead: true, cell: (row) => link(named(row.names[0]), () => go({ view: "flame", ...here(row) }), "Show the flame graph") }),
    text(second, (row) => row.names[1], { cell: (row) => (row.names[1] === null ? "" : row.names[1]) }),
    text("over time", null, { cell: (row) => sparkline(shown(row), `${row.names.map(named).join(" ")}: at most ${amount(event, Math.max(...row.weights))} in ${duration(answer.step_us * 1000)}`) }),
    number("share", (row) => row.weight, (row) => percent(row.weight / all)),
    number("weight", (row) => row.weight, (row) => amount(event, row.weight)),
    ...(isTime(event) ? [number("cores", (row) => row.weight, (row) => (row.weight / 1000 / (until - since)).toFixed(2))] : []),
    number("samples", (row) => row.samples, (row) => count(row.samples)),
    ...(isStore() ? [text("version before", null, { cell: (row) => versionButton(rows, row) })] : []),
  ];
  put(table(`${isStore() ? "Services and versions" : "Threads"} by ${event}, ${rangeText(since, until)}`, columns, rows));
}

/** Returns a button that compares a version with the one that began before it. */
function versionButton(rows, row) {
  const start = (other) => other.weights.findIndex((weight) => weight > 0);
  const versions = rows.filter((other) => other.names[0] === row.names[0] && other.names[1] !== null);
  versions.sort((a, b) => start(a) - start(b));
  const before = versions[versions.indexOf(row) - 1];
  if (!before) return "";
  const click = () => go({ view: "compare", where: [...narrowed("service", row.names[0]).filter((text) => labelOf(text) !== "version"), `version=${before.names[1]}`], vsWhere: [`version=${row.names[1]}`], vsSince: null, vsUntil: null });
  return make("button", { type: "button", class: "small", onclick: click }, `Compare with ${before.names[1]}`);
}

/** Returns a frame with a flame graph, in the page's colours. */
function flameFrame(query, title, signal) {
  const frame = make("iframe", { title, src: `/flame?${query}` });
  const loaded = new Promise((resolve, reject) => frame.addEventListener("load", () => {
    const inner = frame.contentDocument;
    if (inner.getElementById("data")) {
      matchTheme(frame);
      return resolve();
    }
    frame.remove();
    reject(new Error(inner.body.textContent.trim() || "The server ended before its answer."));
  }));
  waitFor(signal, loaded).catch(() => {});
  return frame;
}

function matchTheme(frame) {
  const inner = frame.contentDocument, dark = document.documentElement.classList.contains("dark");
  const button = inner && inner.getElementById("theme");
  if (button && inner.documentElement.classList.contains("dark") !== dark) button.click();
}

function downloads(query) {
  return [
    make("a", { href: `/profile.pb.gz?${query}`, download: "profile.pb.gz" }, "Download pprof"),
    make("a", { href: `/flame.html?${query}`, download: "flame.html" }, "Download flame page"),
  ];
}

async function flame(signal) {
  const query = selected();
  put(make("div", { class: "bar" }, ...downloads(query)), flameFrame(query, "Flame graph of the selected samples", signal));
}

/** Returns a choice of labels to group by. */
function byChoice(names, chosen) {
  const select = make("select", { id: "by", onchange: () => go({ by: select.value }) }, ...names.map((name) => make("option", { value: name, selected: name === chosen }, name)));
  return make("label", { class: "field" }, make("span", null, "By"), select);
}

function totalChoice(by) {
  const box = make("input", { id: "total", type: "checkbox", checked: state.total, onchange: () => go({ total: box.checked }) });
  return OTHER_LABELS.includes(by) ? make("label", { class: "field" }, box, make("span", null, "with callees")) : null;
}

/** Returns a cell with a name that leads on: a function to its view, a label to its samples. */
function nameCell(by, name) {
  if (by === "module") return named(name);
  const changes = by === "function" ? { view: "function", fn: name || "" } : { where: narrowed(by, name) };
  return link(named(name), () => go(changes), by === "function" ? "Show its share over time" : "Show only these samples");
}

async function tableView(signal) {
  const by = about.labels.includes(state.by) ? state.by : "function", query = selected();
  const find = make("input", { id: "find", type: "search", value: state.find, placeholder: "text or regexp", oninput: () => {
    history.replaceState(null, "", linkOf({ find: find.value.trim() }));
    state = readState();
    fill();
  } });
  const bar = make("div", { class: "bar" }, byChoice(about.labels, by), totalChoice(by), make("label", { class: "field" }, make("span", null, "Find"), find), ...downloads(query));
  const place = make("div", null, nothing("…"));
  put(bar, place);
  query.set("by", by);
  query.set("total", state.total && OTHER_LABELS.includes(by) ? 1 : 0);
  query.set("rows", 2000);
  let rows = [];
  const fill = () => {
    const matches = matcher(state.find), event = rows.length ? rows[0].event : "";
    const listed = rows.filter((row) => matches(named(row[by])));
    const hasTotal = listed.some((row) => "total" in row) && OTHER_LABELS.includes(by);
    const columns = [
      ...(hasTotal ? [number("with callees", (row) => row.total, (row) => percent(row.total_share)), number("weight", (row) => row.total, (row) => amount(event, row.total))] : []),
      number("self", (row) => row.self, (row) => percent(row.self_share)),
      number("self weight", (row) => row.self, (row) => amount(event, row.self)),
      number("samples", (row) => row.samples, (row) => count(row.samples)),
      text(by, (row) => row[by], { isWide: true, isHead: true, cell: (row) => nameCell(by, row[by]) }),
    ];
    const title = `${rows.length >= 2000 ? "The 2000 heaviest of" : "All"} ${by} rows by ${event}, ${rangeText(...range())}`;
    place.replaceChildren(listed.length ? table(title, columns, listed) : nothing("No such samples."));
  };
  rows = ofEvent((await ask("/api/top", query, signal)).rows);
  if (!signal.aborted) fill();
}

/** Returns a test of texts: a regular expression, or a part of the text. */
function matcher(wanted) {
  if (!wanted) return () => true;
  try {
    const pattern = new RegExp(wanted, "i");
    return (name) => pattern.test(name);
  } catch {
    return (name) => name.toLowerCase().includes(wanted.toLowerCase());
  }
}

/** Returns the fields that describe both selections of a comparison. */
function sides() {
  const [since, until] = range(), length = until - since;
  const lines = (conditions, from, to) => [make("p", null, rangeText(from, to)), make("p", null, conditions.length ? conditions.join(", ") : "all samples")];
  const input = make("input", { id: "versus", type: "text", value: state.vsWhere.join(","), placeholder: "version=1.5" });
  const submit = (event) => {
    event.preventDefault();
    go({ vsWhere: input.value.split(",").map((text) => text.trim()).filter(Boolean) });
  };
  const button = (words, changes, isOff) => make("button", { type: "button", class: "small", disabled: Boolean(isOff), onclick: () => go(changes) }, words);
  const hasRoom = since - length >= about.start_us;
  return make("div", { class: "sides" },
    make("fieldset", null, make("legend", null, "A, before"), ...lines(state.where, since, until),
      make("div", { class: "bar" },
        button("Earlier range as A, this as B", { since: since - length, until: since, vsSince: since, vsUntil: until }, !hasRoom || state.vsSince !== null),
        button("Swap A and B", { since: state.vsSince ?? since, until: state.vsUntil ?? until, vsSince: since, vsUntil: until, where: versusConditions(), vsWhere: state.where.filter((text) => !versusConditions().includes(text)) }, !hasVersus()))),
    make("fieldset", null, make("legend", null, "B, after"), ...(hasVersus() ? lines(versusConditions(), state.vsSince ?? since, state.vsUntil ?? until) : [make("p", null, "the newest version of each service")]), make("p", { id: "versus-losses", class: "faint" }),
      make("form", { class: "bar", onsubmit: submit }, make("label", { class: "field" }, make("span", null, "Filter of B"), input), make("button", { type: "submit", class: "small" }, "Set"),
        button("Clear B", { vsSince: null, vsUntil: null, vsWhere: [] }, !hasVersus()))));
}

async function compare(signal) {
  const query = hasVersus() ? compared() : selected();
  const choices = [...about.labels, "flame graph"], by = choices.includes(state.by) ? state.by : "function";
  const verdicts = make("div"), differences = make("div");
  put(sides(), verdicts, differences);
  if (hasVersus()) showVersusLosses(signal);
  ask("/api/regressions", query, signal).then((answer) => verdicts.replaceChildren(verdictTable(answer))).catch(() => {});
  if (!hasVersus()) return;
  const bar = make("div", { class: "bar" }, byChoice(choices, by), totalChoice(by), make("a", { href: `/flame.html?${query}`, download: "flame.html" }, "Download flame page"));
  if (by === "flame graph") return differences.replaceChildren(bar, tall(flameFrame(query, "Flame graph of B, coloured by its difference from A", signal)));
  differences.replaceChildren(bar, nothing("…"));
  query.set("by", by);
  query.set("total", state.total && OTHER_LABELS.includes(by) ? 1 : 0);
  query.set("rows", 500);
  const rows = ofEvent((await ask("/api/diff", query, signal)).rows);
  if (signal.aborted) return;
  const mark = (row) => (Math.abs(row.difference) < 0.0005 ? "faint" : row.difference > 0 ? "more" : "less");
  const event = rows.length ? rows[0].event : "";
  const columns = [
    number("points", (row) => row.difference, (row) => signed(row.difference, ""), { mark }),
    number("A", (row) => row.before_share, (row) => percent(row.before_share)),
    number("B", (row) => row.after_share, (row) => percent(row.after_share)),
    number("weight in A", (row) => row.before, (row) => amount(event, row.before)),
    number("weight in B", (row) => row.after, (row) => amount(event, row.after)),
    text(by, (row) => row[by], { isWide: true, isHead: true, cell: (row) => nameCell(by, row[by]) }),
  ];
  differences.replaceChildren(bar, rows.length ? table(`Shares in A and B by ${by}, largest difference first`, columns, rows) : nothing("No samples on either side."));
}

function tall(frame) {
  frame.classList.add("tall");
  return frame;
}

function verdictTable({ rows, remarks }) {
  if (!rows.length) return nothing(remarks.join(" "));
  const mark = (row) => ({ more: "more", less: "less" })[row.verdict] || "faint";
  const cores = (rate) => (rate === null ? "" : rate.toFixed(3));
  const columns = [
    text("service", (row) => row.service, { isHead: true, cell: (row) => named(row.service) }),
    text("verdict", (row) => row.verdict, { mark }),
    number("change", (row) => row.change, (row) => signed(row.change, "%"), { mark }),
    text("interval", null, { cell: (row) => (row.low === null ? "" : `${signed(row.low, "%")} to ${signed(row.high, "%")}`) }),
    number("detectable", (row) => row.detectable, (row) => (row.detectable === null ? "" : signed(row.detectable, "%"))),
    number("cores before", (row) => row.before_rate, (row) => cores(row.before_rate)),
    number("cores after", (row) => row.after_rate, (row) => cores(row.after_rate)),
    text("hosts", (row) => row.hosts),
    text("versions", (row) => row.versions, { isWide: true }),
    text("event", (row) => row.event),
  ];
  return make("div", null, table("Verdicts: CPU time of each service, by host", columns, rows), nothing(remarks.join(" ")));
}

async function functionView(signal) {
  const input = make("input", { id: "fn", type: "text", value: state.fn, placeholder: "name of a function" });
  const submit = (event) => {
    event.preventDefault();
    go({ fn: input.value.trim() });
  };
  put(make("form", { class: "bar", onsubmit: submit }, make("label", { class: "field" }, make("span", null, "Function"), input), make("button", { type: "submit" }, "Show"), make("a", { href: linkOf({ view: "table", by: "function" }) }, "All functions")));
  if (!state.fn) return append(signal, nothing("Type a function's whole name, or choose one in the table."));
  const query = selected(), second = isStore() ? "version" : "thread";
  query.set("by", second);
  query.set("slices", 120);
  query.set("function", state.fn);
  const answer = await ask("/api/series", query, signal), sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const rows = ofEvent(answer.series).map((row) => ({ ...row, part: sum(row.parts), weight: sum(row.weights), start: row.weights.findIndex((weight) => weight > 0) }));
  rows.sort((a, b) => b.part - a.part);
  if (!sum(rows.map((row) => row.part))) return append(signal, nothing("No selected sample has this function in its stack."));
  const lines = rows.slice(0, 6).map((row) => ({ shares: row.weights.map((weight, at) => (weight > 0 ? row.parts[at] / weight : null)) }));
  const marks = isStore() ? rows.filter((row) => row.start > 0 && row.names[0] !== null).map((row) => ({ at: row.start })) : [];
  const { svg, most } = lineChart(lines, marks, `Share of ${state.fn} over time by ${second}, at most ${percent(Math.max(...lines.flatMap((line) => line.shares.filter((share) => share !== null))))}`);
  const end = answer.start_us + answer.step_us * rows[0].weights.length, event = rows[0].event;
  const legend = rows.slice(0, 6).map((row, at) => make("li", null, make("i", { class: `series-${at}` }), `${named(row.names[0])}${row.start > 0 && marks.length ? `, since ${moment(answer.start_us + row.start * answer.step_us)}` : ""}`));
  const columns = [
    text(second, (row) => row.names[0], { isHead: true, isWide: true, cell: (row) => named(row.names[0]) }),
    number("share", (row) => row.part / Math.max(1, row.weight), (row) => percent(row.part / Math.max(1, row.weight))),
    number("weight", (row) => row.part, (row) => amount(event, row.part)),
    number("of", (row) => row.weight, (row) => amount(event, row.weight)),
    text("first seen", (row) => row.start, { cell: (row) => moment(answer.start_us + row.start * answer.step_us) }),
  ];
  append(signal,
    make("h2", null, state.fn),
    make("div", { class: "axis" }, make("span", null, `up to ${percent(most)} of ${event}, with callees`), make("span", null, marks.length ? "dashed: a version's first samples" : "")),
    svg,
    make("div", { class: "axis" }, make("span", null, moment(answer.start_us)), make("span", null, moment(end))),
    make("ul", { class: "legend" }, ...legend),
    table(`Share by ${second}`, columns, rows));
}

async function lossesView(signal) {
  put(nothing("…"));
  const answer = await ask("/api/losses", selected(), signal);
  const lines = answer.remarks.map((line) => make("p", null, line));
  if (!answer.rows.length) return put(...(lines.length ? lines : [nothing("No losses.")]));
  const columns = [
    text("host", (row) => row.host, { isHead: true, cell: (row) => nameCell("host", row.host) }),
    text("problems", (row) => row.problems, { mark: () => "warn" }),
    number("lost", (row) => row.lost_share, (row) => percent(row.lost_share)),
    number("samples lost", (row) => row.lost, (row) => count(row.lost)),
    number("cost", (row) => row.cost_share, (row) => percent(row.cost_share)),
    number("broken stacks", (row) => row.broken_share, (row) => percent(row.broken_share)),
    number("unnamed", (row) => row.unnamed, (row) => count(row.unnamed)),
    number("gaps", (row) => row.gaps, (row) => count(row.gaps)),
    number("windows", (row) => row.windows, (row) => count(row.windows)),
    number("samples", (row) => row.samples, (row) => count(row.samples)),
    text("last window", (row) => row.last),
  ];
  put(table("Losses and cost by host; of the conditions, those on the host apply", columns, answer.rows), ...lines);
}

/** Says losses and cost in a line. */
function lossesText(answer) {
  if (!isStore()) return { text: answer.has_losses ? answer.remarks[0] : "no losses", isWarning: answer.has_losses };
  const sum = (name) => answer.rows.reduce((all, row) => all + (row[name] || 0), 0);
  const lost = sum("lost"), all = sum("samples") + lost, costs = answer.rows.map((row) => row.cost_share).filter((cost) => cost !== null);
  const troubled = answer.rows.filter((row) => row.problems).length;
  const words = [
    lost ? `${percent(lost / Math.max(1, all))} of samples lost` : "no losses",
    costs.length ? `cost at most ${percent(Math.max(...costs))} of a host's CPUs` : "",
    sum("gaps") ? `${count(sum("gaps"))} gaps` : "",
    `${answer.rows.length} hosts${troubled ? `, ${troubled} with a problem` : ""}`,
  ];
  return { text: words.filter(Boolean).join(" · "), isWarning: troubled > 0 };
}

async function showLosses(signal) {
  const { text, isWarning } = lossesText(await ask("/api/losses", selected(), signal));
  if (signal.aborted) return;
  $("losses-line").textContent = text;
  $("losses-line").className = isWarning ? "warn" : "";
}

async function showVersusLosses(signal) {
  const [since, until] = range(), query = new URLSearchParams({ since: state.vsSince ?? since, until: state.vsUntil ?? until });
  versusConditions().forEach((text) => query.append("where", text));
  const answer = await ask("/api/losses", query, signal).catch(() => null);
  if (answer && !signal.aborted && $("versus-losses")) $("versus-losses").textContent = lossesText(answer).text;
}
