// Which screen is shown, and the frame around it.

import { h, fill, say } from "./dom.js";
import { signOut } from "./ask.js";
import { clock, duration, zone } from "./format.js";
import { follow, live, start } from "./live.js";
import { listen } from "./keys.js";
import { overview } from "./screens/overview.js";
import { services } from "./screens/services.js";
import { service } from "./screens/service.js";
import { topology } from "./screens/topology.js";
import { connections } from "./screens/connections.js";
import { drops } from "./screens/drops.js";
import { status } from "./screens/status.js";
import { trace } from "./screens/trace.js";
import { events } from "./screens/events.js";

/** A screen puts what it shows into an element, and gives what ends it. */
const SCREENS = [
  { path: "", key: "1", title: "Overview", show: overview },
  { path: "services", key: "2", title: "Services", show: services },
  { path: "topology", key: "3", title: "Topology", show: topology },
  { path: "connections", key: "4", title: "Connections", show: connections },
  { path: "drops", key: "5", title: "Drops", show: drops },
  { path: "status", key: "6", title: "Status", show: status },
  { path: "trace", key: "7", title: "Trace", show: trace },
  { path: "events", key: "8", title: "Events", show: events },
];

const main = document.getElementById("main");
const rail = document.getElementById("rail");
let end = () => {};

/** `#/service/default/web?x=y`: the path's parts, and what is asked for. */
function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").map(decoded), query: new URLSearchParams(query) };
}

/** A part of an address as it was before it was encoded; one that somebody has typed may be no code. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function show(isFirst) {
  const { parts, query } = here();
  end();
  fill(main);
  scrollTo(0, 0);
  const isService = parts[0] === "service";
  const screen = SCREENS.find(({ path }) => path === (isService ? "services" : parts[0])) ?? SCREENS[0];
  for (const link of rail.children) {
    const current = link.dataset.path === screen.path;
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    if (current) link.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  end = isService ? service(main, parts.slice(1).join("/")) : screen.show(main, query);
  const title = main.querySelector("h1")?.textContent ?? screen.title;
  document.title = `${title} – Shunt`;
  // Whoever hears the page instead of seeing it is told that another screen is there.
  if (!isFirst) main.focus({ preventScroll: true });
}

function pulse() {
  const element = document.getElementById("pulse");
  if (element.dataset.state !== live.state) element.dataset.state = live.state;
  const waits = live.figures && !live.figures.synced;
  const since = live.answered ? ` since ${clock(live.answered)}` : "";
  const texts = {
    live: waits ? "waiting for the first Resync" : "live",
    stuck: `the agent has been at one event for ${duration(live.busy)}`,
    lost: `no answer${since}`,
    waiting: "connecting",
  };
  say(document.getElementById("pulse-text"), texts[live.state]);
  // What is shown is old, whatever it is.
  main.toggleAttribute("data-old", live.state === "lost" || live.state === "stuck");
  document.getElementById("outdated").hidden = !live.outdated;
  document.getElementById("sign-out").hidden = !live.signedIn;
}

document.getElementById("pulse").title = `Times are in ${zone}`;
document.getElementById("reload").addEventListener("click", () => location.reload());
document.getElementById("sign-out").addEventListener("click", signOut);
fill(
  rail,
  SCREENS.map(({ path, key, title }) => h("a", { href: `#/${path}`, "data-path": path }, title, h("kbd", { "aria-hidden": "true" }, key))),
);
document.querySelector(".skip").addEventListener("click", (event) => {
  // The address says which screen is shown.
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => show(false));
listen(SCREENS);
follow(pulse);
show(true);
start();
