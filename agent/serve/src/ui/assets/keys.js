// Keys: a letter or digit for each screen, and what they do, by `?`.

import { h } from "./dom.js";

const OTHERS = [
  ["/", "go to the filter"],
  ["↑ ↓", "from row to row in a table, Enter opens it"],
  ["t", "light, dark, or as the system"],
  ["?", "this list"],
  ["Esc", "close it"],
];

/** Listens for keys; `screens` are those of the navigation. */
export function listen(screens) {
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLElement && event.target.matches("input, select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    const screen = screens.find(({ key }) => key === event.key);
    if (screen) location.hash = `#/${screen.path}`;
    else if (event.key === "/") document.querySelector("[data-filter]")?.focus();
    else if (event.key === "t") document.getElementById("theme").click();
    else if (event.key === "?") show(screens);
    else return;
    event.preventDefault();
  });
  document.getElementById("help").addEventListener("click", () => show(screens));
}

function show(screens) {
  const row = ([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)];
  const rows = [...screens.map(({ key, title }) => [key, title]), ...OTHERS];
  const dialog = h(
    "dialog",
    { class: "sheet", "aria-labelledby": "keys-title", onclose: () => dialog.remove() },
    h("h2", { id: "keys-title" }, "Keyboard"),
    h("dl", { class: "keys" }, rows.map(row)),
    h("form", { method: "dialog" }, h("button", { class: "primary" }, "Close")),
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
}
