// Every screen in three sizes, light and dark: nothing complains, nothing is wider than the window, and each
// shows what it is for. `walk.mjs BASE FOLDER SERVICE` leaves pictures in the folder.

import fs from "node:fs";
import path from "node:path";
import { SIZES, check, end, go, launch, open } from "./browser.mjs";

const [base, folder, service] = process.argv.slice(2);

/** Each screen, and what is there as soon as it shows something. */
const SCREENS = [
  ["overview", "", ".changes li"],
  ["services", "services", `a[href="#/service/${service}"]`],
  ["service", `service/${service}`, ".folding td"],
  ["topology", "topology", ".map .service"],
  ["connections", "connections", ".folding td"],
  ["drops", "drops", ".folding td"],
  ["status", "status", ".facts dd"],
  ["events", "events", ".folding td"],
  ["trace", "trace?from=10.1.1.5&to=10.96.0.10:80&count=5", ".folding td"],
];

fs.mkdirSync(folder, { recursive: true });
const browser = await launch();
for (const [size, viewport] of Object.entries(SIZES)) {
  for (const colorScheme of ["light", "dark"]) {
    const name = `${size}-${colorScheme}`;
    const page = await open(browser, base, name, { viewport, colorScheme });
    for (const [screen, to, shows] of SCREENS) {
      await go(page, to);
      const there = page.waitForSelector(shows);
      await there.catch(() => check(false, `${name}: ${screen} does not show ${shows}`));
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(over <= 0, `${name}: ${screen} is ${over} pixels wider than the window`);
      await page.screenshot({ path: path.join(folder, `${name}-${screen}.png`) });
    }
    await page.context().close();
  }
}
// The narrowest phones.
const narrow = await open(browser, base, "narrow", { viewport: { width: 360, height: 640 } });
for (const [screen, to] of SCREENS) {
  await go(narrow, to);
  const over = await narrow.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(over <= 0, `narrow: ${screen} is ${over} pixels wider than the window`);
}
await end(browser);
