// What may be changed: forms that are shown if the console allows changes. The server decides, whatever is shown.

import { change } from "./api.js";
import { element, note, table } from "./elements.js";
import { count, counted } from "./numbers.js";

// Runs an action of a form: says that it goes on, and then how it ended.
async function attempt(said, doing) {
  said.replaceChildren(note("Working ..."));
  try {
    const told = await doing();
    said.replaceChildren(...[told].flat());
    return true;
  } catch (error) {
    const sent = error.sent ? `\n${counted(error.sent, "message")} had been sent before.` : "";
    said.replaceChildren(element("pre", { class: "wrong" }, [error.message, error.hint].filter(Boolean).join("\n") + sent));
    return false;
  }
}

export function deletion(topic) {
  const said = element("div", { role: "status" });
  const name = element("input", { type: "text", autocomplete: "off", spellcheck: "false", "aria-label": "Name of the topic", oninput: () => look() });
  const button = element("button", { class: "danger", disabled: true }, "Delete the topic");
  const look = () => { button.disabled = name.value !== topic; };
  const remove = (event) => {
    event.preventDefault();
    if (name.value !== topic) return;
    attempt(said, async () => {
      await change("DELETE", ["topics", topic]);
      return note("The topic is deleted. Nobody can send to it or read it any more.");
    });
  };
  return element("details", { class: "change" }, element("summary", null, "Delete this topic"),
    note("Its messages cannot be read after that. To go on, write its name."),
    element("form", { class: "bar", onsubmit: remove }, name, button), said);
}

const WAYS = [["latest", "the end: skip all"], ["earliest", "the beginning: read all again"], ["time", "a time"], ["offset", "an offset"], ["by", "by messages: +10 or -10"]];

export function reset(group) {
  const said = element("div", { role: "status" });
  const way = element("select", { "aria-label": "To where", onchange: () => choose() }, WAYS.map(([value, text]) => element("option", { value }, text)));
  const moment = element("input", { type: "datetime-local", step: "0.001", "aria-label": "Time" });
  const number = element("input", { type: "text", "aria-label": "Number", class: "short" });
  const topic = element("select", { "aria-label": "In which topic" }, element("option", { value: "" }, "in all its topics"));
  let known = "";

  function choose() {
    moment.hidden = way.value !== "time";
    number.hidden = way.value !== "offset" && way.value !== "by";
    said.replaceChildren();
  }

  function asked(dry) {
    const at = moment.value ? new Date(moment.value).toISOString() : "";
    const to = way.value === "time" ? at : way.value === "offset" || way.value === "by" ? number.value.trim() : way.value;
    return { to, topic: topic.value || null, dry_run: dry };
  }

  async function move(content) {
    await attempt(said, async () => {
      const { moves } = await change("POST", ["groups", group, "reset"], content);
      return [note("The group goes on there."), places(moves)];
    });
  }

  function look(event) {
    event.preventDefault();
    const wanted = asked(true);
    attempt(said, async () => {
      const { moves } = await change("POST", ["groups", group, "reset"], wanted);
      const go = element("button", { type: "button", class: "danger", onclick: () => move({ ...wanted, dry_run: false }) }, `Reset ${counted(moves.length, "queue")}`);
      return [note("This would be done. What its members have not committed comes again, or is passed over."), places(moves), element("div", { class: "bar" }, go)];
    });
  }

  function topics(names) {
    if (names.join() === known) return;
    known = names.join();
    const chosen = topic.value;
    topic.replaceChildren(element("option", { value: "" }, "in all its topics"), ...names.map((each) => element("option", { value: each }, each)));
    topic.value = names.includes(chosen) ? chosen : "";
  }

  choose();
  const form = element("form", { class: "bar", onsubmit: look }, way, moment, number, topic, element("button", null, "See what would be done"));
  return { node: element("details", { class: "change" }, element("summary", null, "Reset the group"), form, said), topics };
}

function places(moves) {
  return table([["topic"], ["queue", "number"], ["now", "number"], ["then", "number"]],
    moves.map((each) => [each.topic, String(each.queue), each.before === null ? "nowhere" : count(each.before), count(each.after)]), "What is moved");
}

const ALL = "Send all again ...";

export function redrive(group, done) {
  const said = element("div", { role: "status" });
  async function send(offsets) {
    const fine = await attempt(said, async () => {
      const { sent } = await change("POST", ["dead-letters", group, "redrive"], offsets ? { offsets } : {});
      return note(`Sent ${counted(sent.length, "message")} again.`);
    });
    if (fine) done();
  }
  const all = element("button", { type: "button", class: "danger", onclick: () => ask() }, ALL);
  const no = element("button", { type: "button", hidden: true, onclick: () => sure(false) }, "No");
  function sure(asking) {
    no.hidden = !asking;
    all.textContent = asking ? "Yes, send all that were not sent again" : ALL;
  }
  function ask() {
    if (no.hidden) return sure(true);
    sure(false);
    send(null);
  }
  return { node: element("div", { class: "change" }, element("div", { class: "bar" }, all, no), said),
    one: (offset) => element("button", { type: "button", class: "change small", onclick: () => send([offset]) }, "Send again") };
}
