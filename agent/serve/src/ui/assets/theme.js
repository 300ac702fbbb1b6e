// Light, dark, or as the system says. Runs before anything is drawn, so that nothing flashes.
(() => {
  const KEY = "shunt-theme";
  const NAMES = { auto: "as the system", light: "light", dark: "dark" };
  const SIGNS = { auto: "◐", light: "☀", dark: "☾" };
  const root = document.documentElement;
  const stored = () => {
    try {
      return localStorage.getItem(KEY) ?? "auto";
    } catch {
      return "auto";
    }
  };
  const apply = (theme) => {
    const known = theme in NAMES ? theme : "auto";
    root.dataset.theme = known;
    const button = document.getElementById("theme");
    if (button) {
      button.textContent = SIGNS[known];
      button.setAttribute("aria-label", `Colours: ${NAMES[known]}`);
      button.title = `Colours: ${NAMES[known]} (t)`;
    }
    // Charts are painted, not styled.
    document.dispatchEvent(new Event("theme"));
  };
  const next = () => {
    const names = Object.keys(NAMES);
    const theme = names[(names.indexOf(root.dataset.theme) + 1) % names.length];
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // It holds until the page is left.
    }
    apply(theme);
  };
  apply(stored());
  document.addEventListener("DOMContentLoaded", () => {
    apply(root.dataset.theme);
    document.getElementById("theme").addEventListener("click", next);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(root.dataset.theme));
})();
