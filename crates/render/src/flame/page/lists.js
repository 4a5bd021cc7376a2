// The texts around the graph. Names are always set as text, never as HTML.
const $ = (id) => document.getElementById(id);

function element(tag, text, parent) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

const percent = (part) => `${(100 * part).toFixed(part !== 0 && Math.abs(part) < 0.001 ? 3 : 2)}%`;

/** Formats a weight: a time for clocks, else a number of occurrences. */
function amount(period) {
  if (data.events[chosen.event].unit !== "nanoseconds") return Math.round(period).toLocaleString("en");
  if (period >= 1e9) return `${(period / 1e9).toFixed(2)} s`;
  return period >= 1e6 ? `${(period / 1e6).toFixed(2)} ms` : `${(period / 1e3).toFixed(1)} µs`;
}

/** Returns lines that describe a node; the first is the function's name. */
function described({ tree: of, node }) {
  const fn = of.fn[node], side = view.side, whole = all(side);
  const share = (sum) => percent(whole > 0 ? sum / whole : 0);
  const lines = [data.names[fn]];
  if (fn > MERGED) lines.push(`${data.kinds[data.kind[fn]]}${data.dsos[data.dso[fn]] ? ` · ${data.dsos[data.dso[fn]]}` : ""}`);
  const total = of.total[side][node], own = of.own[side][node];
  lines.push(`${share(total)} · ${amount(total)}${of === shown.callers ? "" : ` · self ${share(own)}`}`);
  if (hasOther) {
    const by = change(of, node), other = of.total[1 - side][node], whole = all(1 - side);
    lines.push(`${side ? "now" : "before"} ${percent(whole > 0 ? other / whole : 0)} · ${amount(other)} · ${by >= 0 ? "+" : "−"}${(100 * Math.abs(by)).toFixed(2)} points`);
  }
  return lines;
}

function showStatus(what) {
  $("status").textContent = what ? described(what).join("  ·  ") : `${data.kind.filter((_, fn) => isCode(fn)).length} functions · ${amount(all(view.side))} in total`;
}

function showTip(what, x, y) {
  const tip = $("tip");
  tip.hidden = !what;
  if (!what) return;
  tip.replaceChildren();
  described(what).forEach((line, at) => element(at ? "div" : "b", line, tip));
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 6))}px`;
  tip.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
}

function showLegend() {
  const legend = $("legend");
  legend.replaceChildren();
  const entry = (colour, text) => {
    const line = element("span", undefined, legend);
    element("i", undefined, line).style.background = colour;
    line.append(text);
  };
  if (view.colour === "difference") {
    entry(colours.more, "share grew");
    entry(colours.even, "unchanged");
    entry(colours.less, "share shrank");
    return;
  }
  const sums = new Map(), by = view.colour === "module" ? data.dso : data.kind;
  for (let i = 1; i < tree.count; i++) {
    const fn = tree.fn[i];
    if (isCode(fn) && tree.total[view.side][i] > 0) sums.set(by[fn], (sums.get(by[fn]) || 0) + tree.own[view.side][i]);
  }
  if (view.colour === "kind") {
    data.kinds.forEach((kind, at) => sums.has(at) && entry(colours.kinds[at], kind));
  } else {
    const most = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 6);
    for (const [dso] of most) entry(moduleColour(dso), data.dsos[dso] || "no file");
    if (sums.size > most.length) entry("transparent", `and ${sums.size - most.length} more`);
  }
}

/** Lists the heaviest functions, with a search only matching ones. Returns a function to start with. */
function showFunctions(choose) {
  const { own, total } = functionSums(view.side), whole = all(view.side) || 1;
  const found = [];
  for (let fn = 2; fn < data.names.length; fn++) {
    if (isCode(fn) && total[fn] > 0 && (!view.matches || view.matches[fn] || fn === view.fn)) found.push(fn);
  }
  found.sort((a, b) => total[b] - total[a]);
  const title = $("list-title");
  title.replaceChildren();
  ["Function", "Total", "Self"].forEach((text) => element("span", text, title));
  const list = $("functions");
  list.replaceChildren();
  for (const fn of found.slice(0, 500)) {
    const row = element("button", undefined, list);
    row.type = "button";
    row.className = "row";
    row.setAttribute("aria-pressed", String(fn === view.fn));
    element("span", data.names[fn], row).title = `${data.names[fn]} · ${data.dsos[data.dso[fn]]}`;
    element("span", percent(total[fn] / whole), row);
    element("span", percent(own[fn] / whole), row);
    row.addEventListener("click", () => choose(fn));
  }
  if (found.length > 500) element("p", `and ${found.length - 500} lighter functions: use the search`, list);
  return found.find((fn) => data.names[fn][0] !== "[") || found[0] || 0;
}

function showThreads(changed) {
  const sums = new Float64Array(data.threads.length);
  for (const group of rows.groups) {
    if (group.event !== chosen.event) continue;
    for (let i = group.first; i < group.last; i++) sums[group.thread] += rows.period[i];
  }
  const whole = sums.reduce((a, b) => a + b, 0) || 1, text = $("thread-search").value.toLowerCase();
  const order = [...sums.keys()].filter((at) => sums[at] > 0).sort((a, b) => sums[b] - sums[a]);
  const found = order.filter((at) => data.threads[at].toLowerCase().includes(text)), list = $("threads");
  list.replaceChildren();
  for (const at of found.slice(0, 300)) {
    const label = element("label", undefined, list), box = element("input", undefined, label);
    box.type = "checkbox";
    box.checked = !chosen.threads || chosen.threads[at] === 1;
    element("span", data.threads[at], label);
    element("span", percent(sums[at] / whole), label);
    box.addEventListener("change", () => {
      chosen.threads ??= new Uint8Array(data.threads.length).fill(1);
      chosen.threads[at] = box.checked ? 1 : 0;
      changed();
    });
  }
  if (found.length > 300) element("p", `and ${found.length - 300} more: use the search`, list);
  const count = chosen.threads ? order.filter((at) => chosen.threads[at]).length : order.length;
  const everything = order.length === 1 ? "1 thread" : `All ${order.length} threads`;
  $("thread-summary").textContent = count === order.length ? everything : `${count} of ${order.length} threads`;
  return { found, set: (on) => {
    chosen.threads ??= new Uint8Array(data.threads.length).fill(1);
    for (const at of found) chosen.threads[at] = on ? 1 : 0;
    if (on && !text) chosen.threads = null;
    changed();
  } };
}

/** Shows the losses and the ledger. */
function showAccount() {
  const losses = data.accounts.flatMap((account) => account.losses), line = $("account-line");
  line.textContent = losses.length ? `⚠ ${losses[0]}${losses.length > 1 ? ` (and ${losses.length - 1} more)` : ""}` : "no known losses";
  line.classList.toggle("warn", losses.length > 0);
  const text = $("account-text");
  data.accounts.forEach((account, side) => {
    element("h2", `${hasOther ? (side ? "Before: " : "Now: ") : ""}${account.name}`, text);
    const part = (title, lines, none) => {
      element("h3", title, text);
      (lines.length ? lines : [none]).forEach((line) => element("p", line, text));
    };
    part("Recording", account.session, "Unknown.");
    part("Losses", account.losses, "No known losses.");
    part("Ledger", account.ledger, "The recording has no ledger: tare record writes one.");
  });
  if (data.merged) element("p", `${data.merged.toLocaleString("en")} functions were merged into their callers' “${data.names[MERGED]}”: they are narrower than 1/20 of a pixel, or would have made the page too large.`, text);
}
