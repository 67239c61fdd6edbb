// The groups, and one of them: members or workers, and how far it is in each queue.

import { ask } from "./api.js";
import { address, element, filled, link, note, order, pairs, table } from "./elements.js";
import { reset } from "./changes.js";
import { count, counted, duration, rate } from "./numbers.js";
import { lag } from "./overview.js";
import { show } from "./patch.js";
import { byName } from "./topics.js";

export function groupsPage() {
  let last = null;
  const list = element("div");
  const field = element("input", { type: "search", placeholder: "part of a name", "aria-label": "Only groups with this in their names", oninput: () => draw() });
  const by = order([["name", "by name", byName], ["lag", "furthest behind first", (one, other) => lag(other) - lag(one) || byName(one, other)],
    ["letters", "most dead letters first", (one, other) => other.dead_letters - one.dead_letters || byName(one, other)]], () => draw());
  const draw = () => last && show(list, ...groupList(last, field.value, by));
  const node = element("div", null, element("h1", null, "Groups"), element("div", { class: "bar" }, field, by.node), list);
  return { node, update: (status) => { last = status; draw(); } };
}

function groupList(status, part, by) {
  const wanted = status.groups.filter((each) => each.name.toLowerCase().includes(part.toLowerCase()));
  if (!wanted.length) return [note(status.groups.length ? "No group has such a name." : "There are no groups. A consumer with a group makes one.")];
  const rows = by.sorted(wanted).map((each) => [link(address("group", each.name), each.name, "name"), who(each), count(lag(each)), rate(status.rates?.groups[each.name]),
    count(each.queues.length), each.dead_letters ? link(address("letters", each.name), count(each.dead_letters)) : "0", each.paused ? "paused" : ""]);
  const headings = [["group"], ["members"], ["behind by", "number"], ["committed", "number"], ["queues", "number"], ["dead letters", "number"], ["state"]];
  return [table(...filled(headings, rows), "Groups"),
    note(counted(wanted.length, "group"))];
}

function who(group) {
  const order = group.key_ordered ? ", in order by key" : group.queue_ordered ? ", in order by queue" : "";
  if (group.workers.length) return counted(group.workers.length, "worker") + order;
  return group.members.length ? counted(group.members.length, "consumer") : "none";
}

export function groupPage([name = ""], signal) {
  const about = element("div");
  const more = element("div");
  const places = element("div");
  const moves = reset(name);
  const node = element("div", null, element("h1", null, element("small", null, "Group "), name), about, more, places, moves.node);
  const detail = async () => {
    try {
      show(more, ...details(await ask(["groups", name], {}, signal)));
    } catch (error) {
      if (error.name !== "AbortError") show(more);
    }
  };
  const update = (status) => {
    const group = status.groups.find((each) => each.name === name);
    if (!group) return show(about, note("There is no group of this name.", "wrong"));
    show(about, pairs([["behind by", counted(lag(group), "message")], ["committed", rate(status.rates?.groups[name]) || "..."], ["members", who(group)],
      ["state", group.paused ? "paused" : ""], ["dead letters", group.dead_letters ? link(address("letters", name), count(group.dead_letters)) : "0"],
      ["removed before it read them", group.queues.some((each) => each.removed_messages) ? count(group.queues.reduce((sum, each) => sum + each.removed_messages, 0)) : ""]]));
    show(places, ...queueTable(group));
    moves.topics([...new Set(group.queues.map((each) => each.topic))].sort());
    detail();
  };
  return { node, update };
}

function details(group) {
  const made = group.held_up.map((each) => note(each, "wrong"));
  if (group.retries) made.push(note(`${counted(group.retries, "message")} failed and will be tried again` +
    (group.next_retry_s === null ? "" : `, the next in ${duration(Math.max(0, group.next_retry_s) * 1000)}`)));
  if (group.members.length) made.push(element("h2", null, "Consumers"), table([["pid", "number"], ["topics"], ["queues"]],
    group.members.map((each) => [String(each.pid), each.topics.join(", "), each.queues.map(([topic, queue]) => `${topic}/${queue}`).join(", ")]), "Consumers"));
  if (group.workers.length) made.push(element("h2", null, "Workers"), table([["pid", "number"], ["topics"], ["in hand", "number"]],
    group.workers.map((each) => [String(each.pid), each.topics.join(", "), count(each.in_hand)]), "Workers"));
  return made;
}

function queueTable(group) {
  if (!group.queues.length) return [note("It has committed nothing yet.")];
  const owners = new Map();
  for (const each of group.members) for (const [topic, queue] of each.queues) owners.set(`${topic}/${queue}`, `pid ${each.pid}`);
  const rows = [...group.queues].sort((one, other) => other.lag_messages - one.lag_messages).map((each) => [link(address("topic", each.topic), each.topic, "name"),
    String(each.queue), count(each.committed), count(each.lag_messages), each.removed_messages ? count(each.removed_messages) : "", owners.get(`${each.topic}/${each.queue}`) ?? ""]);
  const headings = [["topic"], ["queue", "number"], ["committed", "number"], ["behind by", "number"], ["removed unread", "number"], ["consumer"]];
  return [element("h2", null, "Queues"), table(...filled(headings, rows), "Queues of the group")];
}
