// Makes elements. Text becomes text, never markup: nothing here reads HTML.

export function element(name, about, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(about ?? {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked") made[key] = value;
    else if (value === true) made.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== ""));
  return made;
}

// headings: [text, class]; rows: lists of cells, each a text, an element or a list of these.
export function table(headings, rows, caption) {
  const head = headings.map(([text, kind]) => element("th", { scope: "col", class: kind }, text));
  const body = rows.map((cells) =>
    element("tr", null, cells.map((cell, at) => element("td", { class: headings[at][1], "data-label": headings[at][0] }, cell))));
  return element("div", { class: "scrolls", role: "region", "aria-label": caption, tabindex: "0" },
    element("table", null, element("thead", null, element("tr", null, head)), element("tbody", null, body)));
}

export function link(to, text, kind) {
  return element("a", { href: to, class: kind }, text);
}

// The parts of an address after "#/", each of any characters.
export function address(...parts) {
  return "#/" + parts.map(encodeURIComponent).join("/");
}

// For lists: in which order. ways: [value, text, compare]; the first is the usual one.
export function order(ways, changed) {
  const chosen = element("select", { "aria-label": "Order", onchange: changed }, ways.map(([value, text]) => element("option", { value }, text)));
  return { node: chosen, sorted: (list) => [...list].sort(ways.find(([value]) => value === chosen.value)[2]) };
}

// The columns that say something in at least one row, and the rows without the others.
export function filled(headings, rows) {
  const kept = headings.map((_, at) => at === 0 || rows.some((cells) => cells[at] !== ""));
  return [headings.filter((_, at) => kept[at]), rows.map((cells) => cells.filter((_, at) => kept[at]))];
}

export function pairs(list) {
  return element("dl", null, list.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => [element("dt", null, name), element("dd", null, value)]));
}

export function note(text, kind = "note") {
  return element("p", { class: kind }, text);
}
