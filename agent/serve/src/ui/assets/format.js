// Numbers, times and addresses as text.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

/** 12,345 */
export const count = (value) => whole.format(value);

/** 12.3K where there is little room. */
export const compact = (value) => (value < 10000 ? tenth.format(value) : short.format(value));

/** How often in a second: 0, 0.3, 12, 1,234. */
export const rate = (value) => (value < 10 ? tenth.format(value) : value < 100000 ? whole.format(value) : short.format(value));

/** 1.2 MB */
export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  let left = value;
  while (left >= 1000 && unit < units.length - 1) {
    left /= 1000;
    unit += 1;
  }
  return `${left < 10 && unit > 0 ? tenth.format(left) : whole.format(left)} ${units[unit]}`;
}

/** 33.3 % of a share between 0 and 1. */
export const percent = (share) => `${tenth.format(100 * share)} %`;

/** 3 d 4 h, 5 m, 12 s */
export function duration(seconds) {
  const parts = [
    [86400, "d"],
    [3600, "h"],
    [60, "m"],
  ];
  for (const [index, [length, unit]] of parts.entries()) {
    if (seconds < length) continue;
    const rest = Math.floor((seconds % length) / (parts[index + 1]?.[0] ?? 1));
    const below = parts[index + 1]?.[1] ?? "s";
    return `${Math.floor(seconds / length)} ${unit}${rest ? ` ${rest} ${below}` : ""}`;
  }
  return `${Math.floor(seconds)} s`;
}

/** The zone of all times: the browser's. */
export const zone = new Intl.DateTimeFormat("en").resolvedOptions().timeZone;

/** 14:02:05, with the day if it was another, both in the browser's zone. */
export function clock(milliseconds) {
  const at = new Date(milliseconds);
  const time = at.toLocaleTimeString("en-GB");
  // Sweden's way to write a day is ISO's.
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString("sv")} ${time}`;
}

/** 10.1.1.3:80, [fd00::1]:80 */
export const place = ({ ip, port }) => (ip.includes(":") ? `[${ip}]:${port}` : `${ip}:${port}`);

/** One service, two services. */
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** The address of a service's screen, whatever characters its name has. */
export const linkTo = (service) => `#/service/${service.split("/").map(encodeURIComponent).join("/")}`;
