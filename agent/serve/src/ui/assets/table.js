// A table of which only the rows in sight exist, so that thousands cost what a screen full costs.

import { h, say } from "./dom.js";

/** The height of a row, as the style sheet has it. */
const ROW = 44;
const AROUND = 6;

/** How long an order holds while numbers change: rows that jump cannot be read. */
const STEADY = 5000;

/**
 * `columns` are `{ title, class, text(row), sort(row), descending }`; `open(row)` is what Enter and a click do;
 * `href(row)` is where the first column leads. `set(rows)` takes all of them, `refresh()` what has changed in
 * them.
 */
export function table({ label, columns, href, open, empty }) {
  let rows = [];
  let ordered = 0;
  let shown = [];
  let sorted = { column: columns.findIndex((column) => column.first), down: true };
  const heads = columns.map((column, index) =>
    h("button", { type: "button", class: `head ${column.class ?? ""}`, role: "columnheader", onclick: () => sortBy(index) }, column.title),
  );
  const space = h("div", { class: "space", role: "rowgroup" });
  const body = h("div", { class: "rows", tabindex: "0", role: "group", "aria-label": `${label}, rows` }, space);
  const nothing = h("p", { class: "empty", hidden: true }, empty);
  const element = h(
    "div",
    { class: "grid", role: "table", "aria-label": label },
    h("div", { class: "line heads", role: "row" }, heads),
    body,
    nothing,
  );
  const pool = [];
  body.addEventListener("scroll", () => draw(), { passive: true });
  body.addEventListener("keydown", move);
  const observer = new ResizeObserver(() => draw());
  observer.observe(body);

  function sortBy(index) {
    const down = sorted.column === index ? !sorted.down : Boolean(columns[index].descending);
    sorted = { column: index, down };
    order();
  }

  function order() {
    ordered = performance.now();
    const column = columns[sorted.column];
    const sign = sorted.down ? -1 : 1;
    const keyed = rows.map((row) => [column.sort(row), row]);
    keyed.sort(([one, a], [other, b]) => (one < other ? -sign : one > other ? sign : a.name < b.name ? -1 : 1));
    shown = keyed.map(([, row]) => row);
    for (const [index, head] of heads.entries()) {
      const state = index !== sorted.column ? "none" : sorted.down ? "descending" : "ascending";
      head.setAttribute("aria-sort", state);
    }
    draw();
  }

  function line(index) {
    if (pool[index]) return pool[index];
    const cells = columns.map((column, at) => {
      const cell = h(at === 0 ? "a" : "span", { class: `cell ${column.class ?? ""}` });
      return at === 0 ? h("span", { class: "cell-first", role: "cell" }, cell) : (cell.setAttribute("role", "cell"), cell);
    });
    const texts = cells.map((cell, at) => (at === 0 ? cell.firstChild : cell));
    const made = { element: h("div", { class: "line", role: "row" }, cells), texts, row: null };
    made.element.addEventListener("click", (event) => {
      if (!(event.target instanceof HTMLAnchorElement) && made.row) open(made.row);
    });
    space.append(made.element);
    pool[index] = made;
    return made;
  }

  function draw() {
    say(nothing, empty);
    nothing.hidden = shown.length > 0;
    element.setAttribute("aria-rowcount", shown.length + 1);
    const height = `${shown.length * ROW}px`;
    if (space.style.height !== height) space.style.height = height;
    const first = Math.max(0, Math.floor(body.scrollTop / ROW) - AROUND);
    const last = Math.min(shown.length, Math.ceil((body.scrollTop + body.clientHeight) / ROW) + AROUND);
    let used = 0;
    for (let index = first; index < last; index += 1) {
      const made = line(used);
      used += 1;
      paint(made, shown[index], index);
    }
    for (let index = used; index < pool.length; index += 1) {
      pool[index].element.hidden = true;
      pool[index].row = null;
    }
  }

  function paint(made, row, index) {
    made.element.hidden = false;
    if (made.index !== index) {
      made.index = index;
      made.element.style.transform = `translateY(${index * ROW}px)`;
      made.element.setAttribute("aria-rowindex", index + 2);
    }
    if (made.row !== row) {
      made.row = row;
      made.texts[0].setAttribute("href", href(row));
    }
    for (const [at, column] of columns.entries()) {
      say(made.texts[at], column.text(row));
      const tone = column.tone?.(row) ?? "";
      if (made.texts[at].dataset.tone !== tone) made.texts[at].dataset.tone = tone;
    }
  }

  /** The arrows go from row to row. */
  function move(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || shown.length === 0) return;
    event.preventDefault();
    const at = pool.find((made) => made.texts[0] === document.activeElement);
    const from = at ? at.index : step > 0 ? -1 : 0;
    const to = Math.min(shown.length - 1, Math.max(0, from + step));
    const top = to * ROW;
    if (top < body.scrollTop) body.scrollTop = top;
    else if (top + ROW > body.scrollTop + body.clientHeight) body.scrollTop = top + ROW - body.clientHeight;
    draw();
    pool.find((made) => made.index === to && made.row)?.texts[0].focus({ preventScroll: true });
  }

  return {
    element,
    set(all) {
      rows = all;
      order();
    },
    refresh() {
      // Nor do they jump from under a pointer, or while one of them is chosen by keys.
      const isBusy = body.matches(":hover, :focus-within");
      if (!isBusy && performance.now() - ordered > STEADY) order();
      else draw();
    },
    end: () => observer.disconnect(),
  };
}
