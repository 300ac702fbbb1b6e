// What is shown is marked as old while the agent does not answer, another build of the page is offered, and a page
// that stays open gathers no listeners. `stale.mjs BASE PID`: the process of the agent.

import { check, end, go, launch, open } from "./browser.mjs";

const [base, pid] = process.argv.slice(2);
const OLD = "#main[data-old]";
const LIVE = '#pulse[data-state="live"]';

const browser = await launch();
const page = await open(browser, base, "stale", { timezoneId: "Asia/Tokyo" });
const zone = await page.getAttribute("#pulse", "title");
check(zone === "Times are in Asia/Tokyo", `the zone is "${zone}"`);
check((await page.locator(OLD).count()) === 0, "what is shown counts as old from the start");

process.kill(pid, "SIGSTOP");
try {
  await page.waitForSelector('#pulse[data-state="lost"]');
  await page.waitForSelector(OLD);
  const text = await page.textContent("#pulse-text");
  check(/^no answer since \d\d:\d\d:\d\d$/.test(text), `no time of the last answer: ${text}`);
} catch (error) {
  check(false, `a page of a stopped agent: ${error.message}`);
} finally {
  process.kill(pid, "SIGCONT");
}
await page.waitForSelector(LIVE);
await page.waitForSelector(OLD, { state: "detached" });

// A day before in Tokyo is another day: the date is that of the same zone as the time.
const shown = await page.evaluate(async () => {
  const { clock } = await import("/format.js");
  return clock(Date.UTC(2024, 0, 1, 20, 30));
});
check(shown === "2024-01-02 05:30:00", `half past five in Tokyo is "${shown}"`);

check(!(await page.isVisible("#outdated")), "a page of this build counts as another one");
await page.route("**/api/live*", async (route) => {
  const answer = await route.fetch();
  const body = await answer.json();
  await route.fulfill({ response: answer, json: { ...body, build: "another" } });
});
await page.waitForSelector("#outdated:visible");
await page.unrouteAll({ behavior: "ignoreErrors" });
await page.context().close();

// Each listener of a turn goes with the turn.
const watched = await open(browser, base, "listeners", {});
await watched.evaluate(() => {
  globalThis.listeners = 0;
  const [add, remove] = [document.addEventListener, document.removeEventListener];
  document.addEventListener = (...all) => {
    globalThis.listeners += 1;
    add.apply(document, all);
  };
  document.removeEventListener = (...all) => {
    globalThis.listeners -= 1;
    remove.apply(document, all);
  };
});
let turns = 0;
watched.on("response", (response) => {
  if (response.url().includes("/api/live")) turns += 1;
});
await go(watched, "services");
while (turns < 5) await new Promise((done) => setTimeout(done, 100));
const listeners = await watched.evaluate(() => globalThis.listeners);
check(listeners <= 1, `${listeners} listeners are left of ${turns} turns`);
await end(browser);
