// Tables that sort by a column.
const FIRST_ROWS = 100;

/**
 * Returns a table. A column has a title, the row's value to sort by, and the cell's text or node.
 * `isNumber` aligns and sorts numbers, largest first.
 */
function table(caption, columns, rows) {
  let by = null, isReversed = false, limit = FIRST_ROWS;
  const head = make("tr"), body = make("tbody");
  const more = make("button", { type: "button", class: "small", hidden: true, onclick: () => ((limit = Infinity), fill()) });
  const fill = () => {
    let sorted = rows;
    if (by) {
      const order = (a, b) => (by.isNumber ? (b ?? -Infinity) - (a ?? -Infinity) : String(a ?? "").localeCompare(String(b ?? "")));
      sorted = [...rows].sort((a, b) => (isReversed ? -1 : 1) * order(by.value(a), by.value(b)));
    }
    body.replaceChildren(...sorted.slice(0, limit).map((row) => {
      const cells = columns.map((column, at) => {
        const tag = column.isHead ? "th" : "td";
        const cell = make(tag, { class: classOf(column, row) }, column.cell ? column.cell(row) : String(column.value(row) ?? ""));
        if (column.isHead) cell.scope = "row";
        return cell;
      });
      return make("tr", null, ...cells);
    }));
    more.hidden = rows.length <= limit;
    more.textContent = `Show all ${rows.length} rows`;
  };
  const classOf = (column, row) => [column.isNumber ? "number" : "", column.isWide ? "wide" : "", row && column.mark ? column.mark(row) : ""].join(" ").trim();
  for (const column of columns) {
    const cell = make("th", { scope: "col", class: classOf(column) });
    if (column.value) {
      cell.append(make("button", { type: "button", onclick: () => {
        isReversed = by === column && !isReversed;
        by = column;
        for (const other of head.children) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", isReversed !== Boolean(column.isNumber) ? "descending" : "ascending");
        fill();
      } }, column.title));
    } else {
      cell.append(column.title);
    }
    head.append(cell);
  }
  fill();
  const made = make("table", null, make("caption", null, caption), make("thead", null, head), body);
  return make("div", { class: "scroller", tabIndex: 0, role: "region", "aria-label": caption }, made, more);
}

const text = (title, value, more) => ({ title, value, ...more });
const number = (title, value, cell, more) => ({ title, value, cell, isNumber: true, ...more });

/** Returns a button that looks like a link. */
const link = (words, click, title) => make("button", { type: "button", class: "name", onclick: click, title: title || "" }, words);
