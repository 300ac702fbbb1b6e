// The pictures of the documents. `pictures.mjs BASE` puts them into the folder that SHUNT_PICTURES names.

import fs from "node:fs";
import path from "node:path";
import { SIZES, check, end, go, launch, open } from "./browser.mjs";

const base = process.argv[2];
const folder = process.env.SHUNT_PICTURES;

/** Long enough for the charts to have a shape. */
const SECONDS = Number(process.env.SHUNT_PICTURE_SECONDS ?? 100);

/** A picture that is larger is none for a document. */
const LARGEST = 150_000;

const PICTURES = [
  ["page-overview-laptop.png", "laptop", "light", "", ".changes li"],
  ["page-topology-wide.png", "wide", "dark", "topology", ".map .service"],
  ["page-service-laptop.png", "laptop", "light", "service/default/web", ".folding td"],
  ["page-overview-phone.png", "phone", "dark", "", ".changes li"],
  ["page-services-phone.png", "phone", "light", "services", ".rows .line"],
];

fs.mkdirSync(folder, { recursive: true });
const browser = await launch();
// What is seen of each service is remembered only while somebody looks.
const watcher = await open(browser, base, "watcher", { viewport: SIZES.laptop });
await watcher.waitForTimeout(1000 * SECONDS);
for (const [file, size, colorScheme, screen, shows] of PICTURES) {
  const page = await open(browser, base, file, { viewport: SIZES[size], colorScheme });
  await go(page, screen);
  await page.waitForSelector(shows);
  await page.waitForTimeout(2500);
  const place = path.join(folder, file);
  await page.screenshot({ path: place });
  const { size: bytes } = fs.statSync(place);
  check(bytes <= LARGEST, `${file} has ${bytes} bytes: ${LARGEST} at most`);
  await page.context().close();
}
await end(browser);
