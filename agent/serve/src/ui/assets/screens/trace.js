// What the node would do with a packet: a form that asks as `shunt trace` does, and the steps.

import { h, fill, meter, say, section } from "../dom.js";
import { ask } from "../ask.js";
import { count, percent } from "../format.js";

/** A trace waits up to 20 s for other traces, and copies all tables. */
const PATIENCE = 60000;
const TONES = { leaves: "good", delivered: "good", goes_on: "good", dropped: "bad", rejected: "bad", fails: "bad" };

export function trace(main, query) {
  const problem = h("p", { class: "problem", role: "alert" });
  const result = h("div", { role: "status", class: "told" });
  const named = (title, field) => h("label", {}, title, field);
  const input = (name, example, attributes) => h("input", { name, placeholder: example, value: query.get(name) ?? "", autocomplete: "off", spellcheck: "false", ...attributes });
  const choice = (name, options) => h("select", { name }, options.map(([value, title]) => h("option", { value, selected: query.get(name) === value }, title)));
  const look = h("button", { class: "primary", type: "submit" }, "Trace");
  const form = h(
    "form",
    { class: "fields", onsubmit: (event) => { event.preventDefault(); told(); } },
    named("From", input("from", "10.1.1.5", { "data-filter": "", required: true })),
    named("To", input("to", "10.96.0.10:80", { required: true })),
    named("Protocol", choice("protocol", [["tcp", "TCP"], ["udp", "UDP"], ["sctp", "SCTP"]])),
    named("Flags of TCP", input("flags", "syn")),
    named("Interface", input("interface", "by the route back")),
    named("Bytes", input("length", "as few as can be", { inputmode: "numeric" })),
    named("Packets", input("count", "1", { inputmode: "numeric" })),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "process", checked: query.has("process") }), "A pod's process at its socket"),
    look,
  );
  fill(
    main,
    h("div", { class: "title" }, h("h1", {}, "Trace"), h("p", { class: "muted" }, "On copies of the live tables: nothing is sent, counted or changed.")),
    h("div", { class: "panel" }, form, problem),
    result,
  );

  let asked = 0;
  const told = async () => {
    asked += 1;
    const mine = asked;
    const question = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
    // Whoever is given the address sees the same.
    history.replaceState(null, "", `#/trace?${new URLSearchParams(question)}`);
    look.disabled = true;
    say(problem, "");
    try {
      const answer = await ask("trace", question, PATIENCE);
      if (mine === asked) fill(result, steps(answer), parts(answer), remarks(answer));
    } catch (error) {
      if (mine === asked) {
        say(problem, error.message);
        fill(result);
      }
    }
    look.disabled = false;
  };
  if (query.get("from") && query.get("to")) told();
  return () => {
    asked += 1;
  };
}

/** The packet, where it goes and what happens there, and how it ends. */
function steps({ packet, steps: all, end, text }) {
  return section(
    "What would happen",
    {},
    h("p", { class: "mono" }, packet),
    h("ol", { class: "way" }, all.map(({ text: words, is_place: isPlace }) => h("li", { class: isPlace ? "place" : null }, words))),
    h("p", {}, h("span", { class: "tag", "data-tone": TONES[end] }, text)),
  );
}

function parts({ parts: all }) {
  if (all.length === 0) return null;
  const rows = all.map(({ backend, packets, share, end, text }) => {
    return h(
      "tr",
      {},
      h("td", { "data-title": "Backend", class: "mono" }, backend ?? "none"),
      h("td", { "data-title": "Packets", class: "number" }, count(packets)),
      h("td", { "data-title": "Share", class: "number" }, h("span", {}, percent(share)), meter(share)),
      h("td", { "data-title": "End", "data-tone": TONES[end] === "bad" ? "bad" : null }, text),
    );
  });
  return section("Of all packets", {}, h("table", { class: "list folding" }, h("thead", {}, h("tr", {}, ["Backend", "Packets", "Share", "End"].map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, rows)));
}

function remarks({ remarks: all }) {
  return all.length === 0 ? null : h("div", { class: "note" }, all.map((text) => h("p", {}, text)));
}
