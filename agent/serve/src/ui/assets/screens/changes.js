// What has changed of services, as a list.

import { h } from "../dom.js";
import { clock, linkTo, zone } from "../format.js";

/** The lines; without the service's name where there is but one. */
export function changesList(changes, { withService = true } = {}) {
  if (changes.length === 0) return h("p", { class: "empty" }, "Nothing has changed since the agent's first Resync.");
  return h("ol", { class: "changes" }, changes.map((change) => line(change, withService)));
}

function line({ at, service, port, changed }, withService) {
  const time = h("time", { datetime: new Date(at).toISOString(), title: zone }, clock(at));
  const name = withService ? h("a", { class: "link", href: linkTo(service) }, service) : null;
  const parts = changed.map(({ what, named, more }) =>
    h("div", {}, `${what} `, h("span", { class: "mono" }, named.join(", ")), more ? ` and ${more} more` : ""),
  );
  return h("li", {}, time, h("div", { class: "what" }, h("div", {}, name, name ? " " : null, h("span", { class: "muted" }, `port ${port}`)), parts));
}
