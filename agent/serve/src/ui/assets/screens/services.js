// All services, to be sorted and filtered.

import { h, fill, say } from "../dom.js";
import { follow, live } from "../live.js";
import { table } from "../table.js";
import { count, linkTo, rate } from "../format.js";

const COLUMNS = [
  { title: "Service", text: (row) => row.name, sort: (row) => row.name },
  { title: "First frontend", class: "wide-only mono", text: (row) => row.first, sort: (row) => row.first },
  { title: "Frontends", class: "wide-only number", text: (row) => count(row.frontends), sort: (row) => row.frontends, descending: true },
  {
    title: "Backends",
    class: "number",
    text: (row) => (row.usable === row.backends ? count(row.backends) : `${count(row.usable)} of ${count(row.backends)}`),
    sort: (row) => row.usable,
    tone: (row) => (row.usable === 0 ? "bad" : row.usable < row.backends ? "warn" : ""),
  },
  { title: "Conn. / s", class: "number", text: (row) => rate(row.rate), sort: (row) => row.rate, descending: true, first: true, tone: (row) => (row.rate === 0 ? "quiet" : "") },
  { title: "Refused / s", class: "wide-only number", text: (row) => rate(row.refused), sort: (row) => row.refused, descending: true, tone: (row) => (row.refused > 0 ? "bad" : "quiet") },
];

export function services(main, query) {
  const shown = h("p", { class: "muted", role: "status" }, "");
  const rows = table({
    label: "Services",
    columns: COLUMNS,
    href: (row) => linkTo(row.name),
    open: (row) => {
      location.hash = linkTo(row.name);
    },
    empty: "No service is like that.",
  });
  const filter = h("input", { type: "search", "data-filter": "", "aria-label": "Filter by name or address", placeholder: "Name or address", value: query.get("filter") ?? "", oninput: () => choose() });
  const lacking = h("input", { type: "checkbox", onchange: () => choose() });
  fill(
    main,
    h("div", { class: "title" }, h("h1", {}, "Services"), shown),
    h("div", { class: "tools" }, h("div", { class: "grow" }, filter), h("label", { class: "check" }, lacking, "without usable backends")),
    h("div", { class: "panel" }, rows.element),
  );

  function choose() {
    const text = filter.value.trim().toLowerCase();
    const all = [...live.services.values()];
    const meant = all.filter((row) => (!text || row.name.toLowerCase().includes(text) || row.first.includes(text)) && (!lacking.checked || row.usable === 0));
    say(shown, meant.length === all.length ? count(all.length) : `${count(meant.length)} of ${count(all.length)}`);
    rows.set(meant);
  }

  let version = -1;
  const stop = follow(() => {
    if (version === live.version) return rows.refresh();
    version = live.version;
    choose();
  });
  return () => {
    stop();
    rows.end();
  };
}
