// What the agent is asked once a second, and what it has said so far. The answer has only what is new.

import { ask } from "./ask.js";

const SECOND = 1000;
const LATER = 3000;
/** After so long without an answer, what is shown is old. */
const OLD = 5000;
/** An event loop that is at one thing for so many seconds is stuck. */
const STUCK = 5;
const POINTS = 600;
const COLUMNS = 6;

/** What is known. `services` is by number, `points` a column for each line of the charts, the time first. */
export const live = {
  state: "waiting",
  problem: "",
  /** When the last answer came. */
  answered: 0,
  /** For how many seconds the event loop has been at one thing; 0 if it waits for the next one. */
  busy: 0,
  /** Whether the browser has signed in. */
  signedIn: false,
  /** Whether the agent serves another page than this one. */
  outdated: false,
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
let build;

/** Calls `follower` with what is known, now and after every answer, until what it gives is called. */
export function follow(follower) {
  followers.add(follower);
  if (live.answered) follower(live);
  return () => followers.delete(follower);
}

/** Asks for ever. */
export async function start() {
  setInterval(look, SECOND);
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
        notify();
      }
    }
    await rest(Math.max(100, pause - (performance.now() - begun)));
  }
}

/** An answer that does not come is no error until it has been waited for: what is shown is old before that. */
function look() {
  if (document.hidden || live.state === "waiting" || live.state === "lost") return;
  if (Date.now() - live.answered < OLD) return;
  live.state = "lost";
  live.problem = "no answer";
  notify();
}

/** Waits for so many milliseconds, or until the page is seen again. */
function rest(milliseconds) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
      done();
    };
    const seen = () => {
      if (!document.hidden) end();
    };
    const timer = setTimeout(end, milliseconds);
    document.addEventListener("visibilitychange", seen);
  });
}

function take(answer) {
  if (answer.run !== had.run) live.points = live.points.map(() => []);
  takeServices(answer.catalog);
  takeRates(answer.rates);
  takePoints(answer.points);
  live.counters = answer.counters;
  live.figures = answer.figures;
  live.changes = answer.changes;
  live.busy = answer.busy ?? 0;
  live.signedIn = answer.signed_in;
  build ??= answer.build;
  live.outdated = answer.build !== build;
  live.answered = Date.now();
  live.state = live.busy > STUCK ? "stuck" : "live";
  had = { run: answer.run, sample: answer.sample, catalog: answer.catalog.revision, point: answer.point };
  notify();
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

function notify() {
  for (const follower of followers) follower(live);
}
