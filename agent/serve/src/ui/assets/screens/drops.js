// What got no further, by reason, and whose it was.

import { h, every, fill, say, section } from "../dom.js";
import { ask } from "../ask.js";
import { chart } from "../chart.js";
import { follow } from "../live.js";
import { count, linkTo, rate } from "../format.js";
import { PASSED, REFUSED } from "../words.js";

const AGAIN = 3000;

export function drops(main) {
  const refused = chart("Refused a second", [
    { label: "dropped", colour: "bad", show: rate },
    { label: "rejected", colour: "warn", show: rate },
  ]);
  const reasons = counterTable(REFUSED, "Nothing was dropped or rejected since the programs were loaded.");
  const others = counterTable(PASSED, "None of these either.");
  const ports = h("div");
  fill(
    main,
    h("div", { class: "title" }, h("h1", {}, "Drops")),
    h("div", { class: "panel" }, refused.element),
    section("By reason", {}, reasons.element),
    section("By service", {}, ports),
    section("Passed on, and what else is worth a look", {}, others.element),
  );
  const stopLive = follow(({ points, counters }) => {
    refused.set([points[0], points[3], points[4]]);
    reasons.set(counters);
    others.set(counters);
  });
  let drawn = "";
  const stop = every(AGAIN, async () => {
    const answer = await ask("refusals").catch(() => null);
    const text = JSON.stringify(answer);
    if (!answer || text === drawn) return;
    drawn = text;
    fill(ports, portTable(answer.refusals));
  });
  return () => {
    stopLive();
    stop();
    refused.end();
  };
}

/** The counters of these names that there are. */
function counterTable(words, nothing) {
  const rows = new Map();
  const body = h("tbody");
  const list = h("table", { class: "list folding", hidden: true }, h("thead", {}, h("tr", {}, ["Reason", "What it means"].map((title) => h("th", { scope: "col" }, title)), ["A second", "So far"].map((title) => h("th", { scope: "col", class: "number" }, title)))), body);
  const empty = h("p", { class: "empty" }, nothing);
  return {
    element: h("div", {}, list, empty),
    set(counters) {
      for (const [name, what] of Object.entries(words)) {
        const [total, now] = counters[name] ?? [0, 0];
        if (total === 0) {
          rows.get(name)?.element.remove();
          rows.delete(name);
          continue;
        }
        if (!rows.has(name)) {
          const row = { now: h("td", { class: "number", "data-title": "A second" }), total: h("td", { class: "number", "data-title": "So far" }) };
          row.element = h("tr", {}, h("td", { class: "mono", "data-title": "Reason" }, name), h("td", { class: "muted", "data-title": "" }, what), row.now, row.total);
          rows.set(name, row);
          body.append(row.element);
        }
        const row = rows.get(name);
        say(row.now, rate(now));
        row.now.dataset.tone = now > 0 ? "bad" : "quiet";
        say(row.total, count(total));
      }
      list.hidden = rows.size === 0;
      empty.hidden = rows.size > 0;
    },
  };
}

function portTable(refusals) {
  if (refusals.length === 0) return h("p", { class: "empty" }, "No service was refused anything.");
  const rows = refusals.map(([service, port, reason, number]) =>
    h("tr", {}, h("td", { "data-title": "Service" }, h("a", { class: "link", href: linkTo(service) }, service)), h("td", { "data-title": "Port" }, port), h("td", { class: "mono", "data-title": "Reason" }, reason), h("td", { class: "number", "data-title": "So far" }, count(number))),
  );
  return h("table", { class: "list folding" }, h("thead", {}, h("tr", {}, ["Service", "Port", "Reason"].map((title) => h("th", { scope: "col" }, title)), h("th", { scope: "col", class: "number" }, "So far"))), h("tbody", {}, rows));
}
