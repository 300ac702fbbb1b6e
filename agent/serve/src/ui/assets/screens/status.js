// How the agent is: where it hears of services, where its programs are, and what is wrong.

import { h, every, fill, meter, say, section } from "../dom.js";
import { ask } from "../ask.js";
import { count, duration, percent, plural } from "../format.js";

const AGAIN = 10000;

export function status(main) {
  const problem = h("p", { class: "note", "data-tone": "bad", role: "alert", hidden: true });
  const parts = h("div", { class: "pair" });
  fill(main, h("div", { class: "title" }, h("h1", {}, "Status")), problem, parts);
  const stop = every(AGAIN, async () => {
    try {
      const answer = await ask("status");
      problem.hidden = true;
      fill(parts, sections(answer));
    } catch (error) {
      say(problem, error.message);
      problem.hidden = false;
    }
  });
  return stop;
}

function sections(status) {
  return [
    section("Agent", {}, facts(agent(status))),
    section("What is wrong", {}, lines(wrong(status), "Nothing that the agent knows of.")),
    section("Interfaces", {}, table(["Interface", "State"], status.interfaces.map(interfaceRow), "None is to have the programs.")),
    section("Tables", {}, status.tables.filter(({ used, retired }) => used + retired > 0).map(fullness)),
    section("Where it answers", {}, table(["What", "Where"], status.listeners.map(({ name, address, problem }) => [name, h("span", problem ? { "data-tone": "bad" } : { class: "mono" }, problem ?? address)]), "Only at its socket.")),
    section("What an operator has changed", {}, lines(status.overrides.map((change) => JSON.stringify(change)), "Nothing on this node.")),
  ];
}

function agent(status) {
  const source = status.source ?? status.consul ?? status.local_api;
  return [
    ["Version", status.version],
    ["Up for", duration(status.uptime_seconds)],
    ["Events", `${count(status.applied)} applied, ${count(status.refused)} refused${status.held ? `, ${count(status.held)} held` : ""}`],
    ["Last error", status.last_error ? `${status.last_error.text} (${duration(status.last_error.seconds_ago)} ago)` : null],
    ["Source", source ? (source.name ?? source.address ?? source.server ?? (status.source ? "a cluster" : status.consul ? "Consul" : "registrations")) : "events"],
    ["Nodes", plural(status.node_ips.length, "address", "addresses")],
    ["This node", status.own_node_ips.join(", ")],
    ["Pinned at", status.pin_dir],
    ["At sockets", status.socket_lb.mode],
  ];
}

/** Everything that wants a look, a sentence each. */
function wrong(status) {
  return [
    status.synced ? null : "No Resync has come yet: events are held.",
    ...status.host,
    ...status.conflicts.map(({ frontend, holder, waiting }) => `${waiting} waits for ${frontend}, which ${holder} has.`),
    ...status.differences.map(({ frontend, difference }) => `${frontend} is ${difference} in the kernel.`),
    status.untranslated ? `${plural(status.untranslated, "frontend")} of a family that is left out.` : null,
    status.held_removal ? `An event that would remove too much waits for shunt confirm ${status.held_removal.number} or shunt discard ${status.held_removal.number}.` : null,
    ...status.interfaces.filter(({ state }) => state === "failed").map(({ name, reason }) => `${name}: ${reason}`),
    ...status.listeners.filter(({ problem }) => problem).map(({ name, problem }) => `${name}: ${problem}`),
  ].filter(Boolean);
}

function interfaceRow({ name, pattern, state, seconds, reason }) {
  const tone = { attached: "good", failed: "bad", absent: "warn" }[state] ?? null;
  const more = seconds === undefined ? reason : `for ${duration(seconds)}`;
  return [h("span", { class: "mono" }, name, pattern ? h("span", { class: "muted" }, ` by ${pattern}`) : null), h("span", {}, h("span", { class: "tag", "data-tone": tone }, state), more ? h("span", { class: "muted" }, ` ${more}`) : null)];
}

function fullness({ name, used, retired, capacity }) {
  const share = (used + retired) / Math.max(1, capacity);
  return h(
    "div",
    { class: "fill" },
    h("span", { class: "mono" }, name),
    h("span", { class: "number muted" }, `${count(used)} of ${count(capacity)}, ${percent(share)}`),
    meter(share, share > 0.9 ? "bad" : share > 0.75 ? "warn" : null),
  );
}

const facts = (all) => h("dl", { class: "facts" }, all.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

const lines = (all, nothing) => (all.length === 0 ? h("p", { class: "muted" }, nothing) : h("ul", {}, all.map((text) => h("li", {}, text))));

function table(titles, rows, nothing) {
  if (rows.length === 0) return h("p", { class: "muted" }, nothing);
  return h("table", { class: "list" }, h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value) => h("td", {}, value))))));
}
