// Elements, made in one expression. Text is always text: nothing that is shown is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with these attributes and children; `onclick` and its like are listeners. */
export function h(tag, attributes, ...children) {
  return build(document.createElement(tag), attributes, children);
}

/** The same of SVG. */
export function s(tag, attributes, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Sets the text, if it is another one: an unchanged element costs no layout. */
export function say(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** Replaces what an element has. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(2).filter(Boolean));
}

/** A heading with what belongs to it. */
export function section(title, attributes, ...children) {
  const id = `part-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  return h("section", { class: "panel", "aria-labelledby": id, ...attributes }, h("h2", { id }, title), children);
}

/** A bar of which this share is full; the number stands beside it. */
export function meter(share, tone) {
  const bar = h("i");
  bar.style.transform = `scaleX(${share})`;
  return h("div", { class: "meter", "aria-hidden": "true", "data-tone": tone }, bar);
}

/** Runs `work` now and every so many milliseconds, until what it gives is called. A slow one is not run twice at once. */
export function every(milliseconds, work) {
  let timer = 0;
  let ended = false;
  const run = async () => {
    try {
      if (!document.hidden) await work();
    } finally {
      // An error is for the console; the next turn comes all the same.
      if (!ended) timer = setTimeout(run, milliseconds);
    }
  };
  run();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}
