// How soon the first view is there, and how much of the browser's main thread the page takes. `load.mjs BASE
// SERVICES SECONDS`: so many services are there, and each screen is watched for so long. A line of JSON says
// what was measured.

import { SIZES, check, end, go, launch } from "./browser.mjs";

const [base, services, seconds] = process.argv.slice(2);
const browser = await launch();
const page = await (await browser.newContext({ viewport: SIZES.laptop })).newPage();
const cdp = await page.context().newCDPSession(page);
await cdp.send("Performance.enable");

/** Seconds that the main thread has worked so far. */
async function worked() {
  const { metrics } = await cdp.send("Performance.getMetrics");
  return metrics.find(({ name }) => name === "TaskDuration").value;
}

const begun = Date.now();
await page.goto(`${base}/#/services`);
await page.waitForFunction(
  (count) => Number(document.querySelector(".grid")?.getAttribute("aria-rowcount")) === Number(count) + 1,
  services,
);
const measured = { services: Number(services), first_view_ms: Date.now() - begun, main_thread_ms_per_second: {} };
const rows = await page.locator(".rows .line").count();
check(rows < 100, `${rows} rows exist, and not just those in sight`);
for (const screen of ["", "services", "topology", "connections", "drops"]) {
  await go(page, screen);
  await page.waitForTimeout(1500);
  const [before, then] = [await worked(), Date.now()];
  await page.waitForTimeout(1000 * seconds);
  const spent = (1000 * (await worked() - before)) / ((Date.now() - then) / 1000);
  measured.main_thread_ms_per_second[screen || "overview"] = Math.round(10 * spent) / 10;
}
console.log(JSON.stringify(measured));
await end(browser);
