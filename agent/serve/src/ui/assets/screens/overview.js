// How the agent is, at one look.

import { h, s, fill, say, section } from "../dom.js";
import { ask } from "../ask.js";
import { chart } from "../chart.js";
import { follow } from "../live.js";
import { compact, count, linkTo, percent, plural, rate } from "../format.js";
import { changesList } from "./changes.js";

/** How many of the last seconds a card draws. */
const MINUTE = 60;

const BUSIEST = 8;
const CHANGES = 8;

/** A number with a name, and what belongs below it. */
function card(name, ...below) {
  const value = h("dd", { class: "value" }, "–");
  return { element: h("dl", { class: "card" }, h("dt", {}, name), value, below), value };
}

/** A rate, and its last minute as a line. */
function rateCard(name, colour) {
  const path = s("path", { class: `spark ${colour}` });
  const line = s("svg", { viewBox: "0 0 120 26", preserveAspectRatio: "none", class: "sparkline" }, path);
  const made = card(name, h("dd", { "aria-hidden": "true" }, line));
  return {
    element: made.element,
    set(column) {
      const last = column.at(-1);
      say(made.value, last === undefined ? "–" : rate(last));
      const minute = column.slice(-MINUTE);
      const most = Math.max(1, ...minute);
      const points = minute.map((value, index) => `${(120 * (index + MINUTE - minute.length)) / (MINUTE - 1)} ${25 - (23 * value) / most}`);
      path.setAttribute("d", points.length > 1 ? `M${points.join("L")}` : "");
    },
  };
}

/** A number with a word below it, and a meter. */
function wordCard(name, withMeter) {
  const under = h("dd", { class: "under" }, "\u00a0");
  const bar = withMeter ? h("i") : null;
  const meter = bar ? h("dd", { class: "meter", "aria-hidden": "true" }, bar) : null;
  return { ...card(name, under, meter), under, bar, meter };
}

export function overview(main) {
  const cards = {
    connections: rateCard("Connections / s", "accent"),
    translated: rateCard("Translated / s", "teal"),
    dropped: rateCard("Dropped / s", "bad"),
    rejected: rateCard("Rejected / s", "warn"),
    conntrack: wordCard("Conntrack entries", true),
    services: wordCard("Services"),
  };
  const opened = chart("New connections a second", [{ label: "now", colour: "accent", show: rate }]);
  const refused = chart("Refused a second", [
    { label: "dropped", colour: "bad", show: rate },
    { label: "rejected", colour: "warn", show: rate },
  ]);
  const busiest = h("div", { class: "bars" });
  const bars = [];
  const changes = h("div");
  fill(
    main,
    h("div", { class: "title" }, h("h1", {}, "Overview")),
    h("div", { class: "cards" }, Object.values(cards).map(({ element }) => element)),
    h("div", { class: "pair" }, h("div", { class: "panel" }, opened.element), h("div", { class: "panel" }, refused.element)),
    h("div", { class: "pair" }, section("Busiest services", {}, busiest), section("What has changed", {}, changes)),
  );

  let seen = null;
  const stop = follow((live) => {
    const [times, connections, translated, dropped, rejected] = live.points;
    cards.connections.set(connections);
    cards.translated.set(translated);
    cards.dropped.set(dropped);
    cards.rejected.set(rejected);
    opened.set([times, connections]);
    refused.set([times, dropped, rejected]);
    fullness(cards.conntrack, live.figures);
    listed(cards.services, live.services);
    drawBusiest(live.services);
    if (live.changes !== seen) {
      seen = live.changes;
      ask("changes").then(
        (answer) => fill(changes, changesList(answer.changes.slice(0, CHANGES))),
        () => { seen = null; },
      );
    }
  });

  function drawBusiest(all) {
    const top = [...all.values()].filter((service) => service.rate > 0).sort((one, other) => other.rate - one.rate || (one.name < other.name ? -1 : 1)).slice(0, BUSIEST);
    if (top.length === 0) {
      if (!busiest.querySelector(".empty")) fill(busiest, h("p", { class: "empty" }, "No service gets new connections at the moment."));
      bars.length = 0;
      return;
    }
    if (bars.length === 0) fill(busiest);
    while (bars.length < top.length) {
      const bar = { name: h("span", { class: "cell" }), rate: h("span", { class: "number muted" }), fill: h("i") };
      bar.element = h("a", {}, bar.name, bar.rate, h("span", { class: "meter", "aria-hidden": "true" }, bar.fill));
      bars.push(bar);
      busiest.append(bar.element);
    }
    for (const [index, bar] of bars.entries()) {
      const service = top[index];
      bar.element.hidden = !service;
      if (!service) continue;
      bar.element.setAttribute("href", linkTo(service.name));
      say(bar.name, service.name);
      say(bar.rate, `${rate(service.rate)} / s`);
      bar.fill.style.transform = `scaleX(${service.rate / top[0].rate})`;
    }
  }

  return () => {
    stop();
    opened.end();
    refused.end();
  };
}

/** How full the fuller family's table is. */
function fullness(card, figures) {
  const tables = (figures?.tables ?? []).filter(([name]) => name.startsWith("conntrack"));
  if (tables.length === 0) return;
  const used = tables.reduce((sum, [, entries]) => sum + entries, 0);
  const share = Math.max(...tables.map(([, entries, capacity]) => entries / Math.max(1, capacity)));
  say(card.value, compact(used));
  say(card.under, `${percent(share)} of the table`);
  card.bar.style.transform = `scaleX(${share})`;
  card.meter.dataset.tone = share > 0.9 ? "bad" : share > 0.75 ? "warn" : "";
}

function listed(card, services) {
  let without = 0;
  for (const service of services.values()) if (service.usable === 0) without += 1;
  say(card.value, count(services.size));
  say(card.under, without === 0 ? "all have backends" : `${plural(without, "service")} without backends`);
  card.under.dataset.tone = without === 0 ? "" : "warn";
}
