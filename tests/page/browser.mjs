// A browser to look at the page with: Debian's Chromium, driven by playwright-core, which is in the folder that
// SHUNT_PLAYWRIGHT names. SHUNT_PAGE_PATIENCE says how long each wait may take, in milliseconds.

import { createRequire } from "node:module";
import path from "node:path";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // Letters without coloured edges: pictures are smaller.
  "--disable-lcd-text",
];

/** A browser that keeps nothing. */
export async function launch() {
  const require = createRequire(path.join(process.env.SHUNT_PLAYWRIGHT, "package.json"));
  const { chromium } = require("playwright-core");
  return chromium.launch({ executablePath: process.env.SHUNT_CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
}

/** The sizes that the page is looked at in. */
export const SIZES = {
  phone: { width: 390, height: 844 },
  laptop: { width: 1280, height: 800 },
  wide: { width: 1920, height: 1080 },
};

/** What goes wrong is written down here, a line each. */
export const problems = [];

export function check(is, text) {
  if (!is) problems.push(text);
}

/** A page of the agent in a fresh browser's window; whatever it complains of is a problem. */
export async function open(browser, base, name, options) {
  const context = await browser.newContext({ reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(Number(process.env.SHUNT_PAGE_PATIENCE ?? 30000));
  const page = await context.newPage();
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) problems.push(`${name}: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`${name}: ${error.stack}`));
  page.on("request", (request) => {
    const url = request.url();
    check(url.startsWith(base) || url.startsWith("data:"), `${name}: asks elsewhere: ${url}`);
  });
  page.on("response", (response) => {
    check(response.status() < 400, `${name}: ${response.status()} of ${response.url()}`);
  });
  await page.goto(`${base}/`);
  await page.waitForSelector('#pulse[data-state="live"]');
  return page;
}

/** Goes to a screen, and waits until it has drawn. */
export async function go(page, path) {
  await page.evaluate((to) => {
    location.hash = `#/${to}`;
  }, path);
  await page.waitForFunction(() => document.querySelector("#main h1"));
}

/** Ends with what is wrong, if anything is. */
export async function end(browser) {
  await browser.close();
  for (const problem of problems) console.log(`PROBLEM ${problem}`);
  process.exit(problems.length === 0 ? 0 : 1);
}
