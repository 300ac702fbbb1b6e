// A chart of lines over time: uPlot, in the page's colours.

import { h, say } from "./dom.js";

const HEIGHT = 180;

/** Longer than this, in seconds, nobody has looked, and no line says what was meanwhile. */
const GAP = 5;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/**
 * A chart with a legend that says what is now. `lines` are `{ label, colour, show }`: `show` makes text of a
 * value. `set(columns)` takes the times, in seconds, and a column for each line; `end()` lets go of it.
 */
export function chart(title, lines) {
  const values = lines.map(() => h("b", {}, "–"));
  const legend = lines.map((line, index) =>
    h("span", { class: "key" }, h("i", { class: `swatch ${line.colour}` }), `${line.label} `, values[index]),
  );
  const box = h("div", { class: "chart" });
  const element = h("figure", { class: "figure" }, h("figcaption", {}, h("span", {}, title), h("span", { class: "legend" }, legend)), box);
  let data = [[], ...lines.map(() => [])];
  let plot = null;

  const draw = () => {
    plot?.destroy();
    const width = box.clientWidth;
    if (width === 0) return;
    plot = new uPlot(options(width, lines), data, box);
  };
  const observer = new ResizeObserver(() => {
    if (!plot) draw();
    else if (plot.width !== box.clientWidth) plot.setSize({ width: box.clientWidth, height: HEIGHT });
  });
  observer.observe(box);
  document.addEventListener("theme", draw);

  return {
    element,
    set(columns) {
      data = withGaps(columns);
      plot?.setData(data);
      for (const [index, line] of lines.entries()) {
        const last = columns[index + 1].at(-1);
        say(values[index], last === undefined ? "–" : line.show(last));
      }
    },
    end() {
      observer.disconnect();
      document.removeEventListener("theme", draw);
      plot?.destroy();
    },
  };
}

/** The same with nothing where there is nothing. */
function withGaps(columns) {
  const [times] = columns;
  const apart = times.flatMap((at, index) => (index > 0 && at - times[index - 1] > GAP ? [index] : []));
  if (apart.length === 0) return columns;
  const copies = columns.map((column) => [...column]);
  for (const index of apart.reverse()) {
    copies.forEach((column, line) => column.splice(index, 0, line === 0 ? times[index] - 1 : null));
  }
  return copies;
}

function options(width, lines) {
  const axis = {
    stroke: colour("muted"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    padding: [8, 26, 0, 0],
    scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.15)] } },
    axes: [
      { ...axis, grid: { show: false }, space: 70, size: 26, values: (_, splits) => splits.map((at) => new Date(at * 1000).toLocaleTimeString("en-GB")) },
      { ...axis, size: 46, values: (_, splits) => splits.map((value) => lines[0].show(value)) },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: 1.75,
        fill: `color-mix(in srgb, ${colour(line.colour)} 12%, transparent)`,
        points: { show: false },
      })),
    ],
  };
}
