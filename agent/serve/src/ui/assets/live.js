// What the agent is asked once a second, and what it has said so far. The answer has only what is new.

import { ask } from "./ask.js";

const SECOND = 1000;
const LATER = 3000;
const POINTS = 600;
const COLUMNS = 6;

/** What is known. `services` is by number, `points` a column for each line of the charts, the time first. */
export const live = {
  state: "waiting",
  problem: "",
  services: new Map(),
  names: new Map(),
  /** Grows with every change of which services there are. */
  version: 0,
  points: Array.from({ length: COLUMNS }, () => []),
  counters: {},
  figures: null,
  changes: 0,
};

const followers = new Set();
let had = {};

/** Calls `follower` with what is known, now and after every answer, until what it gives is called. */
export function follow(follower) {
  followers.add(follower);
  if (live.state === "live") follower(live);
  return () => followers.delete(follower);
}

/** Asks for ever. */
export async function start() {
  for (;;) {
    const begun = performance.now();
    let pause = LATER;
    if (!document.hidden) {
      try {
        take(await ask("live", had));
        pause = SECOND;
      } catch (error) {
        live.state = "lost";
        live.problem = error.message;
        tell();
      }
    }
    await new Promise((done) => {
      const timer = setTimeout(done, Math.max(100, pause - (performance.now() - begun)));
      // Who comes back does not wait.
      const woken = () => {
        if (document.hidden) return;
        clearTimeout(timer);
        done();
      };
      document.addEventListener("visibilitychange", woken, { once: true });
    });
  }
}

function take(answer) {
  if (answer.run !== had.run) live.points = live.points.map(() => []);
  takeServices(answer.catalog);
  takeRates(answer.rates);
  takePoints(answer.points);
  live.counters = answer.counters;
  live.figures = answer.figures;
  live.changes = answer.changes;
  live.state = "live";
  had = { run: answer.run, sample: answer.sample, catalog: answer.catalog.revision, point: answer.point };
  tell();
}

function takeServices({ all, services, gone }) {
  if (all) {
    live.services.clear();
    live.names.clear();
  }
  for (const number of gone) {
    const service = live.services.get(number);
    live.services.delete(number);
    if (service && live.names.get(service.name) === service) live.names.delete(service.name);
  }
  for (const [number, name, first, frontends, usable, backends] of services) {
    const rate = live.services.get(number)?.rate ?? 0;
    const refused = live.services.get(number)?.refused ?? 0;
    const service = { number, name, first, frontends, usable, backends, rate, refused };
    live.services.set(number, service);
    live.names.set(name, service);
  }
  if (all || services.length || gone.length) live.version += 1;
}

function takeRates({ all, services }) {
  if (all) for (const service of live.services.values()) service.rate = service.refused = 0;
  for (const [number, rate, refused] of services) {
    const service = live.services.get(number);
    if (service) [service.rate, service.refused] = [rate, refused];
  }
}

function takePoints(points) {
  for (const point of points) {
    live.points[0].push(point[0] / SECOND);
    for (let column = 1; column < COLUMNS; column += 1) live.points[column].push(point[column]);
  }
  const over = live.points[0].length - POINTS;
  if (over > 0) live.points.forEach((column) => column.splice(0, over));
}

function tell() {
  for (const follower of followers) follower(live);
}
