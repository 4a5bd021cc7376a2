// The view, which is the part of the link after '#': a link reproduces it.
const VIEWS = [
  ["services", "Services"],
  ["flame", "Flame graph"],
  ["table", "Table"],
  ["compare", "Compare"],
  ["function", "Function"],
  ["losses", "Losses and cost"],
];
const HOUR_US = 3600e6;

let about = null; // the answer of /api/about
let state = readState();

function readState() {
  const typed = new URLSearchParams(location.hash.slice(1));
  const view = typed.get("view");
  const time = (name) => (/^\d{1,18}$/.test(typed.get(name) || "") ? Number(typed.get(name)) : null);
  return {
    view: VIEWS.some(([name]) => name === view) ? view : "services",
    since: time("since"),
    until: time("until"),
    where: typed.getAll("where"),
    event: typed.get("event") || "",
    by: typed.get("by") || "",
    total: typed.get("total") !== "0",
    find: typed.get("find") || "",
    fn: typed.get("fn") || "",
    vsSince: time("vs_since"),
    vsUntil: time("vs_until"),
    vsWhere: typed.getAll("vs_where"),
  };
}

/** Returns the part of a link after '#' for the view with these changes. */
function linkOf(changes) {
  const next = { ...state, ...changes }, query = new URLSearchParams();
  const put = (name, value) => value !== null && value !== "" && query.append(name, value);
  put("view", next.view);
  put("since", next.since);
  put("until", next.until);
  next.where.forEach((text) => put("where", text));
  put("event", next.event);
  put("by", next.by);
  if (!next.total) put("total", "0");
  put("find", next.find);
  put("fn", next.fn);
  put("vs_since", next.vsSince);
  put("vs_until", next.vsUntil);
  next.vsWhere.forEach((text) => put("vs_where", text));
  return `#${query}`;
}

/** Goes to the view with these changes. */
function go(changes) {
  const link = linkOf(changes);
  if (link === location.hash) return show();
  location.hash = link;
}

const isStore = () => about.kind === "store";

/** Returns the selected range; a store's default is its last hour. */
function range() {
  const first = isStore() ? Math.max(about.start_us, about.end_us - HOUR_US) : about.start_us;
  return [state.since ?? first, state.until ?? about.end_us];
}

/** Returns the parameters of the selected samples. */
function selected() {
  const [since, until] = range(), query = new URLSearchParams({ since, until });
  state.where.forEach((text) => query.append("where", text));
  if (state.event) query.append("where", `event=${state.event}`);
  return query;
}

/** Returns whether there is a second selection. */
const hasVersus = () => state.vsSince !== null || state.vsUntil !== null || state.vsWhere.length > 0;

const labelOf = (text) => text.split(/[=!~]/)[0];

/** Returns the conditions of the second selection: the first one's, except for labels of its own. */
function versusConditions() {
  const own = new Set(state.vsWhere.map(labelOf));
  return [...state.where.filter((text) => !own.has(labelOf(text))), ...state.vsWhere];
}

/** Returns the parameters of both selections. */
function compared() {
  const query = selected(), [since, until] = range();
  query.append("versus_since", state.vsSince ?? since);
  query.append("versus_until", state.vsUntil ?? until);
  versusConditions().forEach((text) => query.append("versus_where", text));
  if (state.event) query.append("versus_where", `event=${state.event}`);
  return query;
}
