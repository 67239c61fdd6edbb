// One message with everything about it.

import { ask, download } from "./api.js";
import { address, element, link, note, pairs } from "./elements.js";
import { bytes, count, time } from "./numbers.js";

const LINE = 16; // bytes of a line of hex
const LOCAL = "127.0.0.1:0"; // where local clients send from

export function messagePage([id = ""], signal) {
  const node = element("div", null, note("Reading ..."));
  ask(["messages", id], {}, signal).then((found) => node.replaceChildren(...whole(found)), (error) => {
    if (error.name !== "AbortError") node.replaceChildren(element("h1", null, "Message"), note(error.message, "wrong"));
  });
  return { node };
}

function whole(message) {
  const properties = Object.entries(message.properties);
  return [element("h1", null, element("small", null, "Message "), `${message.topic}/${message.queue}@${message.offset}`),
    pairs([["topic", link(address("topic", message.topic), message.topic)], ["id", message.id], ["stored", time(message.stored_ms)], ["born", time(message.born_ms)],
      ["sent from", message.born_host === LOCAL ? "" : message.born_host], ["tag", message.tags], ["keys", message.keys.join(" ")], ["tries before", message.reconsume_times ? count(message.reconsume_times) : ""],
      ["flag", message.flag ? String(message.flag) : ""], ["in the log", `${bytes(message.size)} at ${count(message.physical_offset)}`]]),
    element("h2", null, "Properties"),
    properties.length ? pairs(properties.map(([name, value]) => [name, value === "" ? "(empty)" : value])) : note("It has none."),
    element("h2", null, "Body"), body(message)];
}

function body(message) {
  const shown = element("pre", { class: "body whole", tabindex: "0", "aria-label": "Body" });
  const { text, hex } = message.body;
  const json = text === null ? null : indented(text);
  const forms = [["JSON", json], ["Text", text], ["Hex", hex]].filter(([, content]) => content !== null);
  const buttons = forms.map(([name]) => element("button", { type: "button", onclick: () => choose(name) }, name));
  function choose(wanted) {
    const [name, content] = forms.find(([each]) => each === wanted);
    shown.textContent = name === "Hex" ? lines(content) : content;
    shown.classList.toggle("hex", name === "Hex");
    buttons.forEach((each) => each.setAttribute("aria-pressed", String(each.textContent === name)));
  }
  choose(forms[0][0]);
  const cut = message.body.shown < message.body.bytes ? note(`The first ${bytes(message.body.shown)} are shown.`) : null;
  const save = element("button", { type: "button", onclick: () => toFile(message.id) }, "Save to a file");
  return element("div", null, element("div", { class: "bar" }, buttons, element("span", { class: "note" }, bytes(message.body.bytes)), save), shown, cut ?? []);
}

// JSON with indents, or null. Numbers that JavaScript would round stay text: then the body is shown as it is.
function indented(text) {
  if (!/^\s*[[{]/.test(text) || /\d{16}/.test(text)) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

function lines(hex) {
  const made = [];
  for (let at = 0; at < hex.length; at += 2 * LINE) {
    const part = hex.slice(at, at + 2 * LINE).match(/../g) ?? [];
    const letters = part.map((each) => parseInt(each, 16)).map((code) => (code >= 32 && code < 127 ? String.fromCharCode(code) : ".")).join("");
    made.push(`${(at / 2).toString(16).padStart(8, "0")}  ${part.join(" ").padEnd(3 * LINE - 1)}  ${letters}`);
  }
  return made.join("\n");
}

async function toFile(id) {
  const address = URL.createObjectURL(await download(["messages", id, "body"]));
  element("a", { href: address, download: `${id}.bin` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
