// Which services lead to which backends; the wider a line, the more new connections take it.

import { h, s, every, fill, say } from "../dom.js";
import { ask } from "../ask.js";
import { count, linkTo, rate } from "../format.js";

const AGAIN = 2000;
const PITCH = { service: 46, backend: 34 };
const WIDEST = 14;

export function topology(main, query) {
  const shown = h("p", { class: "muted", role: "status" });
  const filter = h("input", { type: "search", "data-filter": "", "aria-label": "Filter services by name", placeholder: "Service", value: query.get("filter") ?? "" });
  const panel = h("div", { class: "panel" });
  fill(main, h("div", { class: "title" }, h("h1", {}, "Topology"), shown), h("div", { class: "tools" }, h("div", { class: "grow" }, filter)), panel);

  let drawn = "";
  let picture = null;
  let last = null;
  const look = async () => {
    try {
      last = await ask("topology", { filter: filter.value.trim() });
    } catch {
      return;
    }
    draw();
  };
  const draw = () => {
    const { found, services } = last;
    say(shown, found > services.length ? `the ${services.length} busiest of ${count(found)} services` : `${count(found)} services`);
    const width = panel.clientWidth;
    // What moves every second are widths and numbers: the picture itself stays.
    const shape = JSON.stringify([width, services.map(({ name, count: all, backends }) => [name, all, backends.map(([at, share, local]) => [at, share, local])])]);
    if (shape !== drawn) {
      drawn = shape;
      picture = services.length === 0 ? null : paint(services, width);
      fill(panel, picture?.element ?? h("p", { class: "empty" }, "No service is like that."));
    }
    picture?.set(services);
  };
  filter.addEventListener("input", look);
  const observer = new ResizeObserver(() => last && draw());
  observer.observe(panel);
  const stop = every(AGAIN, look);
  return () => {
    stop();
    observer.disconnect();
  };
}

function paint(services, available) {
  const width = Math.max(300, available - 42);
  const isNarrow = width < 620;
  const boxes = isNarrow ? { service: width * 0.42, backend: width * 0.42 } : { service: 260, backend: 220 };
  const ends = [...new Map(services.flatMap(({ backends }) => backends.map(([at, , local]) => [at, local])))];
  const height = Math.max(services.length * PITCH.service, ends.length * PITCH.backend) + 8;
  const spread = (index, total, pitch) => 4 + pitch / 2 + index * ((height - 8) / total) + ((height - 8) / total - pitch) / 2;
  const right = width - boxes.backend;
  const rows = new Map(ends.map(([at, local], index) => [at, { y: spread(index, ends.length, PITCH.backend), local }]));

  const edges = [];
  const rates = new Map();
  const svg = s("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Services and their backends" });
  const below = s("g", { "aria-hidden": "true" });
  svg.append(below);
  const light = (name) => {
    svg.classList.toggle("picked", name !== null);
    for (const edge of edges) edge.path.classList.toggle("lit", edge.service === name || edge.at === name);
  };
  const lights = (name) => ({ onpointerenter: () => light(name), onpointerleave: () => light(null), onfocus: () => light(name), onblur: () => light(null) });

  for (const [index, { name, backends }] of services.entries()) {
    const y = spread(index, services.length, PITCH.service);
    for (const [at, share] of backends) {
      const title = s("title");
      const path = s("path", { class: "edge", d: bend(boxes.service, y, right, rows.get(at).y) }, title);
      below.append(path);
      edges.push({ service: name, at, share, path, title });
    }
    const text = s("text", { class: "rate", x: boxes.service - 12, y: isNarrow ? y + 9 : y, "text-anchor": "end" });
    rates.set(name, text);
    const room = isNarrow ? boxes.service - 20 : boxes.service - 90;
    svg.append(
      s(
        "a",
        { class: "service", href: linkTo(name), "aria-label": name, ...lights(name) },
        s("title", {}, name),
        s("rect", { class: "node", x: 1, y: y - 19, width: boxes.service - 2, height: 38, rx: 9 }),
        s("text", { x: 12, y: isNarrow ? y - 8 : y }, cut(name, room, 7.2)),
        text,
      ),
    );
  }
  for (const [at, { y, local }] of rows) {
    svg.append(
      s(
        "g",
        { class: "backend", ...lights(at) },
        s("title", {}, `${at}, ${local ? "on this node" : "elsewhere"}`),
        s("rect", { class: "node", x: right + 1, y: y - 14, width: boxes.backend - 2, height: 28, rx: 8 }),
        s("circle", { class: local ? "here" : "away", cx: right + 14, cy: y, r: 3.5 }),
        s("text", { x: right + 26, y }, cut(at, boxes.backend - 32, 7.4)),
      ),
    );
  }
  return {
    element: svg,
    set(all) {
      const most = Math.max(1, ...all.map((service) => service.rate));
      const now = new Map(all.map((service) => [service.name, service.rate]));
      for (const [name, text] of rates) say(text, `${rate(now.get(name) ?? 0)} / s`);
      const chosen = new Map(all.flatMap(({ name, backends }) => backends.map(([at, , , flow]) => [`${name} ${at}`, flow])));
      for (const { service, at, share, path, title } of edges) {
        // As the backend's own counter says; by its weight until that has been read twice.
        const flow = chosen.get(`${service} ${at}`) ?? (now.get(service) ?? 0) * share;
        say(title, `${service} to ${at}: ${rate(flow)} / s`);
        path.style.strokeWidth = `${flow === 0 ? 1.25 : Math.max(1.5, WIDEST * Math.sqrt(flow / most))}px`;
        path.classList.toggle("idle", flow === 0);
        path.classList.toggle("off", share === 0);
      }
    },
  };
}

function bend(x1, y1, x2, y2) {
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

/** As much of a text as there is room for: its end says more than its begin. */
function cut(text, room, letter) {
  const letters = Math.floor(room / letter);
  return text.length <= letters ? text : `…${text.slice(text.length - letters + 1)}`;
}
