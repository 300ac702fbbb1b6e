// The page by keyboard alone, and what a screen reader is told. `keys.mjs BASE SERVICE`.

import { check, end, go, launch, open } from "./browser.mjs";

const [base, service] = process.argv.slice(2);
const browser = await launch();
const page = await open(browser, base, "keys", { viewport: { width: 1280, height: 800 } });
const title = () => page.textContent("#main h1");
const focused = () => page.evaluate(() => document.activeElement.textContent || document.activeElement.id);

await page.keyboard.press("Tab");
check((await focused()) === "Skip to the content", "the first Tab is the way past the navigation");
for (const [key, expected] of [
  ["2", "Services"],
  ["3", "Topology"],
  ["4", "Connections"],
  ["5", "Drops"],
  ["6", "Status"],
  ["7", "Trace"],
  ["1", "Overview"],
]) {
  await page.keyboard.press(key);
  await page.waitForFunction((text) => document.querySelector("#main h1")?.textContent === text, expected);
  check((await page.evaluate(() => document.activeElement.id)) === "main", `${expected}: the focus is on the new screen`);
  check((await page.title()).startsWith(expected), `${expected}: the window is called so`);
}

// Filter, down to the row, open it.
await page.keyboard.press("2");
await page.waitForSelector(`a[href="#/service/${service}"]`);
await page.keyboard.press("/");
await page.keyboard.type(service);
await page.waitForFunction(() => document.querySelector(".grid").getAttribute("aria-rowcount") === "2");
await page.keyboard.press("Escape");
await page.focus(".rows");
await page.keyboard.press("ArrowDown");
check((await focused()) === service, "the arrow goes to the row");
await page.keyboard.press("Enter");
await page.waitForFunction((text) => document.querySelector("#main h1")?.textContent === text, service);
check((await title()) === service, "Enter opens the row");

// A packet's way, from the form's first field to its steps.
await page.keyboard.press("7");
await page.waitForSelector(".fields");
await page.keyboard.press("/");
await page.keyboard.type("10.1.1.5");
await page.keyboard.press("Tab");
await page.keyboard.type("10.96.0.10:80");
await page.keyboard.press("Enter");
await page.waitForSelector(".way li");
check(await page.isVisible(`text=of service ${service}`), "the steps name the service");
check(page.url().includes("from=10.1.1.5&to=10.96.0.10%3A80"), "the address says what is asked");
await page.keyboard.press("Escape");
// The browser itself complains of an answer that refuses, so that this is asked in a window that nobody listens to.
const wrong = await (await browser.newContext()).newPage();
await wrong.goto(`${base}/#/trace?from=10.1.1.5&to=nowhere`);
await wrong.waitForFunction(() => document.querySelector(".problem")?.textContent);
check((await wrong.textContent(".problem")).startsWith("to: an address with a port belongs there"), "a wrong field is named");
await wrong.close();

// Help.
await page.keyboard.press("?");
await page.waitForSelector("dialog[open]");
check(await page.isVisible("text=Keyboard"), "? shows the keys");
await page.keyboard.press("Escape");
await page.waitForFunction(() => !document.querySelector("dialog"));

// Colours, which stay.
const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
await page.keyboard.press("t");
check((await theme()) === "light", "t is light first");
await page.keyboard.press("t");
check((await theme()) === "dark", "and then dark");
await page.reload();
check((await theme()) === "dark", "a choice stays");

// Whatever can be operated has a name.
for (const screen of ["", "services", `service/${service}`, "topology", "connections", "drops", "status", "trace", "events"]) {
  await go(page, screen);
  const nameless = await page.evaluate(() =>
    [...document.querySelectorAll("a, button, input, select")]
      .filter((element) => !(element.textContent.trim() || element.getAttribute("aria-label") || element.labels?.length))
      .map((element) => element.outerHTML),
  );
  check(nameless.length === 0, `${screen}: without a name: ${nameless.join(" ")}`);
}
await end(browser);
