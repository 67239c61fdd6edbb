// Looks through messages: newest first, from a moment on, by key or by id, all of them or those that a filter passes.

import { ask } from "./api.js";
import { address, element, link, note } from "./elements.js";
import { count, time } from "./numbers.js";

// topic: whose; null: the list is of something else, which has no keys. row: what a list says beside each message.
export function browser(path, { topic, signal, row, empty = "There is no message here." }) {
  const list = element("ol", { class: "messages" });
  const end = element("div", { class: "bar" });
  const way = element("select", { "aria-label": "Which messages", onchange: () => choose() },
    [["older", "newest first"], ["newer", "oldest first"], ["time", "from a time on"], ...(topic ? [["key", "with the key"], ["id", "with the id"]] : [])]
      .map(([value, text]) => element("option", { value }, text)));
  const moment = element("input", { type: "datetime-local", step: "0.001", "aria-label": "Time", hidden: true });
  const sought = element("input", { type: "text", "aria-label": "Key or id", hidden: true, spellcheck: "false" });
  const tags = element("input", { type: "text", placeholder: "tags: paid || refunded", "aria-label": "Tags", spellcheck: "false" });
  const sql = element("input", { type: "text", class: "wide", placeholder: "SQL: price > 100 AND region = 'eu'", "aria-label": "SQL92 filter", spellcheck: "false" });
  const queue = element("input", { type: "number", min: "0", placeholder: "queue", "aria-label": "Queue", class: "short" });
  let turn = 0;

  function choose() {
    moment.hidden = way.value !== "time";
    sought.hidden = way.value !== "key" && way.value !== "id";
    for (const each of [tags, sql, queue]) each.hidden = way.value === "key" || way.value === "id";
  }

  function query(places) {
    const at = way.value === "time" && moment.value ? new Date(moment.value).getTime() : null;
    return { direction: way.value === "older" ? "older" : "newer", since_ms: at === null || at < 0 ? null : at, tags: tags.value, sql: sql.value, queue: queue.value, places };
  }

  async function begin(event) {
    event?.preventDefault();
    const mine = ++turn;
    end.replaceChildren(note("Reading ..."));
    try {
      if (way.value === "id") {
        const found = await ask(["messages", sought.value.trim()], {}, signal);
        location.hash = address("message", found.id);
        return;
      }
      if (way.value === "key") {
        const { messages, most } = await ask(["topics", topic, "keys"], { key: sought.value }, signal);
        if (mine === turn) fill(messages, messages.length < most ? "" : `The newest ${most} are shown.`);
        return;
      }
      const page = await ask(path, query(""), signal);
      if (mine === turn) {
        fill([], "");
        append(page);
      }
    } catch (error) {
      if (mine === turn && error.name !== "AbortError") refuse(error);
    }
  }

  async function more(places) {
    const mine = turn;
    end.replaceChildren(note("Reading ..."));
    try {
      const page = await ask(path, query(places), signal);
      if (mine === turn) append(page);
    } catch (error) {
      if (mine === turn && error.name !== "AbortError") refuse(error);
    }
  }

  function fill(messages, text) {
    list.replaceChildren(...messages.map((each) => item(each, row)));
    end.replaceChildren(...(text ? [note(text)] : messages.length ? [] : [note(empty)]));
  }

  function append(page) {
    list.append(...page.messages.map((each) => item(each, row)));
    const told = list.children.length ? [] : [note(page.whole ? empty : `None of ${count(page.looked)} messages so far.`)];
    if (!page.whole) told.push(element("button", { type: "button", onclick: () => more(page.places) }, page.messages.length ? "More" : "Look on"));
    else if (way.value !== "older") told.push(element("button", { type: "button", onclick: () => more(page.places) }, "Look for new ones"));
    end.replaceChildren(...told);
  }

  function refuse(error) {
    list.replaceChildren();
    end.replaceChildren(element("pre", { class: "wrong" }, error.hint ? `${error.message}\n${error.hint}` : error.message));
  }

  choose();
  const form = element("form", { class: "bar", onsubmit: begin }, way, moment, sought, topic ? queue : null, tags, sql, element("button", null, "Read"));
  begin();
  return { node: element("section", { "aria-label": "Messages" }, element("h2", null, "Messages"), form, list, end), again: () => begin() };
}

function item(message, row) {
  const place = `${message.topic}/${message.queue}@${message.offset}`;
  if (message.damaged) return element("li", { class: "wrong" }, element("span", { class: "place" }, place), element("p", null, message.damaged));
  const body = message.body.text === null ? `${message.body.hex.replace(/(..)/g, "$1 ")}` : message.body.text;
  const cut = message.body.shown < message.body.bytes ? " ..." : "";
  return element("li", null, element("div", { class: "about" }, link(address("message", message.id), time(message.stored_ms)), element("span", { class: "place" }, place),
    message.tags ? element("span", { class: "tag" }, message.tags) : null, message.keys.map((each) => element("span", { class: "key" }, each)), row ? row(message) : []),
    element("code", { class: message.body.text === null ? "body binary" : "body" }, body + cut));
}
