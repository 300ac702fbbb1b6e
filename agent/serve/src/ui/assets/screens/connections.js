// The connections that are remembered, a page at a time.

import { h, fill, say } from "../dom.js";
import { ask } from "../ask.js";
import { count, duration, linkTo, place } from "../format.js";

const PAGE = 100;
const STATES = ["SYN_SENT", "SYN_RECV", "NEW", "ESTABLISHED", "CLOSING", "CLOSED", "TIME_WAIT", "UNREPLIED", "REPLIED", "ASSURED"];
const TITLES = ["Protocol", "Client", "Frontend", "Service", "Backend", "State", "Idle"];

export function connections(main, query) {
  const shown = h("p", { class: "muted", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  const body = h("tbody");
  const input = (name, example, attributes) => h("input", { name, placeholder: example, value: query.get(name) ?? "", autocomplete: "off", spellcheck: "false", ...attributes });
  const choice = (name, options) => h("select", { name }, h("option", { value: "" }, "any"), options.map((option) => h("option", { selected: query.get(name) === option }, option)));
  const named = (title, field) => h("label", {}, title, field);
  const form = h(
    "form",
    { class: "fields", onsubmit: (event) => { event.preventDefault(); turn(0); } },
    named("Client", input("client", "10.1.0.0/16", { "data-filter": "" })),
    named("Frontend", input("frontend", "10.96.0.10:80")),
    named("Backend", input("backend", "10.1.1.3")),
    named("Protocol", choice("protocol", ["TCP", "UDP", "SCTP"])),
    named("State", choice("state", STATES)),
    named("Idle for, in seconds", input("idle", "0", { inputmode: "numeric" })),
    h("button", { class: "primary", type: "submit" }, "Look"),
  );
  const back = h("button", { class: "plain", type: "button", onclick: () => turn(Math.max(0, offset - PAGE)) }, "Before");
  const next = h("button", { class: "plain", type: "button", onclick: () => turn(offset + PAGE) }, "After");
  const nothing = h("p", { class: "empty", hidden: true }, "No connection is like that.");
  fill(
    main,
    h("div", { class: "title" }, h("h1", {}, "Connections"), shown),
    h("div", { class: "panel" }, form, problem),
    h(
      "div",
      { class: "panel" },
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Connections" }, h("table", { class: "list folding" }, h("thead", {}, h("tr", {}, TITLES.map((title) => h("th", { scope: "col" }, title)))), body)),
      nothing,
      h("div", { class: "tools" }, back, next),
    ),
  );

  let offset = 0;
  let asked = 0;
  const turn = async (to) => {
    asked += 1;
    const mine = asked;
    offset = to;
    try {
      const answer = await ask("connections", { ...Object.fromEntries(new FormData(form)), offset, limit: PAGE });
      // A later question has been asked meanwhile.
      if (mine !== asked) return;
      say(problem, "");
      const { connections: found, more } = answer;
      fill(body, found.map(row));
      nothing.hidden = found.length > 0;
      back.disabled = offset === 0;
      next.disabled = !more;
      say(shown, found.length === 0 ? "none" : `${count(offset + 1)} to ${count(offset + found.length)}${more ? ", and more" : ""}`);
    } catch (error) {
      if (mine === asked) say(problem, error.message);
    }
  };
  turn(0);
  return () => {
    asked += 1;
  };
}

function row({ protocol, client, frontend, service, backend, state, idle_seconds: idle, snat_source: snat }) {
  const values = [
    protocol,
    h("span", { class: "mono" }, place(client)),
    h("span", { class: "mono" }, place(frontend)),
    service ? h("a", { class: "link", href: linkTo(service) }, service) : "–",
    h("span", {}, h("span", { class: "mono" }, place(backend)), snat ? h("span", { class: "muted" }, " from ", h("span", { class: "mono" }, place(snat))) : null),
    h("span", { class: "tag", "data-tone": ["ESTABLISHED", "ASSURED", "REPLIED"].includes(state) ? "good" : null }, state),
    duration(idle),
  ];
  return h("tr", {}, values.map((value, index) => h("td", { "data-title": TITLES[index] }, value)));
}
