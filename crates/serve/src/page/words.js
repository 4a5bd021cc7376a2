// Texts. Names are always set as text, never as HTML.
const $ = (id) => document.getElementById(id);

/** Makes an element with properties and children; a text is a text node. */
function make(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && !name.startsWith("aria")) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const named = (name) => (name === null || name === undefined || name === "" ? "(none)" : name);
const percent = (part) => (part === null || part === undefined ? "" : `${(100 * part).toFixed(part !== 0 && Math.abs(part) < 0.001 ? 3 : 2)}%`);
const signed = (part, unit) => (part === null || part === undefined ? "" : `${part > 0 ? "+" : part < 0 ? "−" : ""}${(100 * Math.abs(part)).toFixed(2)}${unit}`);
const count = (number) => (number === null || number === undefined ? "" : Math.round(number).toLocaleString("en"));
const isTime = (event) => /^(cpu-clock|task-clock|offcpu-time)(:|$)/.test(event);

function duration(ns) {
  if (ns >= 3600e9) return `${(ns / 3600e9).toFixed(1)} h`;
  if (ns >= 60e9) return `${(ns / 60e9).toFixed(1)} min`;
  return ns >= 1e9 ? `${(ns / 1e9).toFixed(1)} s` : `${(ns / 1e6).toFixed(1)} ms`;
}

const amount = (event, weight) => (weight === null || weight === undefined ? "" : isTime(event) ? duration(weight) : count(weight));

/** Formats a moment: UTC for a store, seconds since its start for a recording. */
function moment(us) {
  if (!isStore()) return `${(us / 1e6).toFixed(3)} s`;
  return new Date(us / 1000).toISOString().slice(0, 19).replace("T", " ");
}

function rangeText(since, until) {
  const length = duration((until - since) * 1000);
  if (!isStore()) return `${moment(since)} to ${moment(until)} (${length})`;
  const [from, to] = [moment(since), moment(until)];
  return `${from} to ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to} UTC (${length})`;
}
