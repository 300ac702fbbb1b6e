// One service: where it is found, who serves it, how much goes there, and what has changed.

import { h, every, fill, meter, say, section } from "../dom.js";
import { ask } from "../ask.js";
import { chart } from "../chart.js";
import { bytes, count, percent, rate } from "../format.js";
import { changesList } from "./changes.js";

const AGAIN = 2000;

export function service(main, name) {
  const under = h("p", { class: "muted" });
  const opened = chart("New connections a second", [
    { label: "now", colour: "accent", show: rate },
    { label: "refused", colour: "bad", show: rate },
  ]);
  const traffic = chart("Bytes a second", [
    { label: "of clients", colour: "accent", show: (value) => bytes(value) },
    { label: "of backends", colour: "teal", show: (value) => bytes(value) },
  ]);
  const trafficPanel = h("div", { class: "panel", hidden: true }, traffic.element);
  const [backends, frontends, counted, changes] = [h("div"), h("div"), h("div"), h("div")];
  const problem = h("p", { class: "note", "data-tone": "bad", role: "alert", hidden: true });
  fill(
    main,
    h("div", { class: "title" }, h("h1", {}, name), under),
    problem,
    h("div", { class: "pair" }, h("div", { class: "panel" }, opened.element), trafficPanel),
    h("div", { class: "pair" }, section("Backends", {}, backends), section("Frontends", {}, frontends)),
    h("div", { class: "pair" }, section("What has changed", {}, changes), section("Counted since the agent's start", {}, counted)),
  );

  const drawn = new Map();
  /** Draws a part anew, if what it shows is something else. */
  const draw = (part, value, make) => {
    const text = JSON.stringify(value);
    if (drawn.get(part) === text) return;
    drawn.set(part, text);
    fill(part, make(value));
  };
  const stop = every(AGAIN, async () => {
    let answer;
    try {
      answer = await ask("service", { name });
      problem.hidden = true;
    } catch (error) {
      say(problem, error.status === 404 ? "There is no such service, and nothing is remembered of it." : error.message);
      problem.hidden = false;
      return;
    }
    const ports = [...new Set(answer.frontends.map((frontend) => frontend.service_port))];
    say(under, answer.frontends.length === 0 ? "is gone" : `port ${ports.join(", ")}`);
    const columns = Array.from({ length: 5 }, (_, column) => answer.series.map((line) => line[column]));
    const times = columns[0].map((at) => at / 1000);
    opened.set([times, columns[1], columns[2]]);
    const has = answer.ports.some(({ counters }) => counters.request_packets !== undefined);
    trafficPanel.hidden = !has;
    if (has) traffic.set([times, columns[3], columns[4]]);
    draw(backends, [sets(answer.frontends), answer.chosen], ([all, chosen]) => backendTable(all, chosen));
    draw(frontends, answer.frontends, frontendTable);
    draw(counted, answer.ports, countedTable);
    draw(changes, answer.changes, (lines) => changesList(lines, { withService: false }));
  });
  return () => {
    stop();
    opened.end();
    traffic.end();
  };
}

/** The sets of backends, each once: frontends of a port share theirs, unless a policy tells them apart. */
function sets(frontends) {
  const found = new Map();
  for (const { service_port: port, kind, policy, backends, split } of frontends) {
    const key = JSON.stringify([port, backends]);
    const set = found.get(key) ?? { port, kinds: [], policy, backends, split };
    if (!set.kinds.includes(kind)) set.kinds.push(kind);
    found.set(key, set);
  }
  return [...found.values()];
}

const cell = (title, attributes, ...children) => h("td", { "data-title": title, ...attributes }, children);
const head = (...titles) => h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col", class: title.startsWith("#") ? "number" : null }, title.replace("#", "")))));

function backendTable(all, chosen) {
  if (all.every(({ backends }) => backends.length === 0)) return h("p", { class: "empty" }, "No backend: new connections are refused.");
  const found = new Map(chosen.map(({ port, backend, ...counts }) => [`${port} ${backend}`, counts]));
  return all.map(({ port, kinds, backends }) => {
    const sum = backends.reduce((total, { weight }) => total + weight, 0);
    const rows = backends.map(({ ip, port: at, weight, local }) => {
      const share = sum === 0 ? 0 : weight / sum;
      const name = ip.includes(":") ? `[${ip}]:${at}` : `${ip}:${at}`;
      const { rate: now, connections } = found.get(`${port} ${name}`) ?? {};
      return h(
        "tr",
        {},
        cell("Backend", { class: "mono" }, name),
        cell("Where", {}, local ? h("span", { class: "tag", "data-tone": "good" }, "this node") : h("span", { class: "tag" }, "elsewhere")),
        cell("New / s", { class: "number" }, now === undefined || now === null ? "–" : rate(now)),
        cell("In all", { class: "number" }, connections === undefined ? "–" : count(connections)),
        cell("Share", { class: "number" }, h("span", weight === 0 ? { "data-tone": "warn" } : {}, weight === 0 ? "drained" : percent(share)), meter(share)),
      );
    });
    return h("table", { class: "list folding" }, h("caption", { class: "muted" }, `port ${port}, ${kinds.join(", ")}`), head("Backend", "Where", "#New / s", "#In all", "#Share"), h("tbody", {}, rows));
  });
}

function frontendTable(frontends) {
  if (frontends.length === 0) return h("p", { class: "empty" }, "No frontend.");
  const rows = frontends.map((frontend) => {
    const notes = [`policy ${frontend.policy}`, frontend.selection];
    if (frontend.affinity_timeout) notes.push(`affinity ${frontend.affinity_timeout} s`);
    if (frontend.forwarding && frontend.forwarding !== "snat") notes.push(frontend.forwarding);
    if (frontend.masquerade && frontend.masquerade !== "off") notes.push(frontend.masquerade === "on" ? "masqueraded" : "not masqueraded in mode dsr");
    if (frontend.split) notes.push("split");
    if (frontend.this_node_only) notes.push("clients of this node");
    if (frontend.source_ranges.length) notes.push(`from ${frontend.source_ranges.join(", ")}`);
    return h("tr", {}, cell("Frontend", { class: "mono" }, frontend.at), cell("Kind", {}, frontend.kind), cell("How", { class: "muted" }, notes.filter(Boolean).join(", ")));
  });
  return h("table", { class: "list folding" }, head("Frontend", "Kind", "How"), h("tbody", {}, rows));
}

function countedTable(ports) {
  if (ports.length === 0) return h("p", { class: "empty" }, "Nothing yet.");
  const rows = ports.flatMap(({ port, counters }) => {
    const lines = [["connections", counters.connections, count], ...Object.entries(counters.refused).map(([reason, number]) => [reason, number, count])];
    if (counters.request_bytes !== undefined) lines.push(["bytes of clients", counters.request_bytes, bytes], ["bytes of backends", counters.reply_bytes, bytes]);
    return lines.map(([what, number, show]) => h("tr", {}, cell("Port", {}, port), cell("What", {}, what), cell("Number", { class: "number" }, show(number))));
  });
  return h("table", { class: "list" }, head("Port", "What", "#Number"), h("tbody", {}, rows));
}
