// What becomes of connections and packets, as it happens: the programs tell of it while the screen is shown.

import { h, every, fill, say } from "../dom.js";
import { ask } from "../ask.js";
import { clock, count, linkTo, place } from "../format.js";

const AGAIN = 1000;
/** Starting to watch has the kernel verify programs. */
const PATIENCE = 30000;
/** How many are remembered, and how many of them are rows. */
const KEPT = 1000;
const ROWS = 200;
const TITLES = ["Time", "Kind", "Protocol", "Client", "Service", "Backend", "Reason", "After"];
const TONES = { opened: "good", refused: "bad", dropped: "bad" };

export function events(main, query) {
  const shown = h("p", { class: "muted", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  const body = h("tbody");
  const nothing = h("p", { class: "empty" }, "No event yet.");
  const kind = h("select", { name: "kind", onchange: () => all() }, h("option", { value: "" }, "any"), ["opened", "ended", "refused", "dropped"].map((option) => h("option", { selected: query.get("kind") === option }, option)));
  const text = h("input", { name: "text", placeholder: "shop/web, 10.1.1.5, reset", value: query.get("text") ?? "", autocomplete: "off", spellcheck: "false", "data-filter": "", oninput: () => all() });
  const pause = h("button", { class: "plain", type: "button", "aria-pressed": "false", onclick: () => hold(!held) }, "Pause");
  fill(
    main,
    h("div", { class: "title" }, h("h1", {}, "Events"), shown),
    h("div", { class: "panel" }, h("form", { class: "fields", onsubmit: (event) => event.preventDefault() }, h("label", {}, "Kind", kind), h("label", {}, "Has the text", text), pause), problem),
    h(
      "div",
      { class: "panel" },
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Events" }, h("table", { class: "list folding" }, h("thead", {}, h("tr", {}, TITLES.map((title) => h("th", { scope: "col" }, title)))), body)),
      nothing,
    ),
  );

  /** The newest first. */
  let known = [];
  let last;
  let run;
  let skipped = 0;
  let held = false;
  const hold = (wanted) => {
    held = wanted;
    pause.setAttribute("aria-pressed", held);
    say(pause, held ? "Go on" : "Pause");
    if (!held) all();
  };
  const is = (event) => (kind.value === "" || event.kind === kind.value) && event.words.includes(text.value.trim().toLowerCase());
  const look = () => {
    nothing.hidden = body.childElementCount > 0;
  };
  /** All rows anew: something else is wanted. */
  const all = () => {
    fill(body, known.filter(is).slice(0, ROWS).map(row));
    look();
  };
  const stop = every(AGAIN, async () => {
    try {
      const answer = await ask("events", { after: last, run }, PATIENCE);
      [last, run] = [answer.last, answer.run];
      skipped += answer.skipped;
      const lost = answer.lost + skipped;
      say(problem, "");
      say(shown, [answer.one_in > 1 ? `of one connection in ${count(answer.one_in)}` : "", lost > 0 ? `${count(lost)} lost` : ""].filter(Boolean).join(", "));
      const fresh = answer.events.map(worded).reverse();
      known = [...fresh, ...known].slice(0, KEPT);
      if (held) return;
      body.prepend(...fresh.filter(is).slice(0, ROWS).map(row));
      while (body.childElementCount > ROWS) body.lastChild.remove();
      look();
    } catch (error) {
      say(problem, error.message);
    }
  });
  return stop;
}

/** The event with all that a filter looks for. */
function worded(event) {
  const ends = [event.client, event.frontend, event.backend, event.snat_source].filter(Boolean).map(place);
  const service = event.service ? `${event.service}${event.service_port ? `:${event.service_port}` : ""}` : "";
  const words = [...ends, service, event.reason ?? "", event.protocol].join(" ").toLowerCase();
  return { ...event, label: service, words };
}

function row({ time, kind, protocol, client, frontend, service, label, backend, snat_source: snat, reason, duration_seconds: lasted }) {
  const mono = (end) => (end ? h("span", { class: "mono" }, place(end)) : "–");
  const values = [
    h("time", { datetime: time }, clock(Date.parse(time))),
    h("span", { class: "tag", "data-tone": TONES[kind] }, kind),
    protocol,
    mono(client),
    service ? h("a", { class: "link", href: linkTo(service) }, label) : mono(frontend),
    h("span", {}, mono(backend), snat ? h("span", { class: "muted" }, " from ", mono(snat)) : null),
    reason || "–",
    lasted === undefined ? "–" : `${lasted.toFixed(1)} s`,
  ];
  return h("tr", {}, values.map((value, index) => h("td", { "data-title": TITLES[index] }, value)));
}
