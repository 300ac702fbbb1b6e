// Questions to the agent.

import { h, fill } from "./dom.js";

const PATIENCE = 15000;

/** What is wrong with an answer. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** The answer to a question, as it was in JSON; it is waited for so many milliseconds. */
export async function ask(path, parameters = {}, patience = PATIENCE) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== "" && value !== null && value !== undefined) query.set(name, value);
  }
  const answer = await fetch(`/api/${path}?${query}`, { signal: AbortSignal.timeout(patience) });
  if (answer.status === 401) {
    signIn();
    throw new Refused(401, "a token is needed");
  }
  const value = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, value.error ?? answer.statusText);
  return value;
}

/** Ends the browser's session. */
export async function signOut() {
  await fetch("/logout", { method: "POST" });
  location.reload();
}

/** Asks for the token, once, over whatever is shown. */
function signIn() {
  if (document.getElementById("sign-in")) return;
  const problem = h("p", { class: "problem", role: "alert" });
  const token = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true, id: "token" });
  const dialog = h(
    "dialog",
    { id: "sign-in", class: "sheet", "aria-labelledby": "sign-in-title", oncancel: (event) => event.preventDefault() },
    h("h2", { id: "sign-in-title" }, "This agent asks for a token"),
    h("p", { class: "muted" }, "It is in the file that --ui-token-file names. The browser stays signed in for twelve hours, or until it is closed."),
    h(
      "form",
      {
        onsubmit: async (event) => {
          event.preventDefault();
          const answer = await fetch("/login", { method: "POST", body: token.value });
          if (answer.ok) location.reload();
          else fill(problem, answer.status === 429 ? (await answer.json()).error : "That is not the token.");
        },
      },
      h("label", { for: "token" }, "Token"),
      token,
      problem,
      h("button", { class: "primary", type: "submit" }, "Show the agent"),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}
