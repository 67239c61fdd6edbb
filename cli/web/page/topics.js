// The topics, and one of them: its queues, who reads it, and its messages.

import { address, element, filled, link, note, order, pairs, table } from "./elements.js";
import { browser } from "./browser.js";
import { deletion } from "./changes.js";
import { count, counted, rate } from "./numbers.js";
import { show } from "./patch.js";

export function topicsPage() {
  let last = null;
  const list = element("div");
  const field = element("input", { type: "search", placeholder: "part of a name", "aria-label": "Only topics with this in their names", oninput: () => draw() });
  const own = element("input", { type: "checkbox", onchange: () => draw() });
  const rateOf = (topic) => last.rates?.topics[topic.name] ?? 0;
  const by = order([["name", "by name", byName], ["messages", "most messages first", (one, other) => messages(other) - messages(one) || byName(one, other)],
    ["rate", "most stored now first", (one, other) => rateOf(other) - rateOf(one) || byName(one, other)]], () => draw());
  const draw = () => last && show(list, ...topicList(last, field.value, own.checked, by));
  const node = element("div", null, element("h1", null, "Topics"),
    element("div", { class: "bar" }, field, by.node, element("label", null, own, " also the broker's own")), list);
  return { node, update: (status) => { last = status; draw(); } };
}

// Names that RocketMQ or the broker gives.
function isOwn(name) {
  return /^(%RETRY%|%DLQ%|rmq_sys_|RMQ_SYS_|SCHEDULE_TOPIC_XXXX|TRANS_CHECK_MAX_TIME_TOPIC|TBW102$)/.test(name);
}

export function byName(one, other) {
  return one.name < other.name ? -1 : one.name > other.name ? 1 : 0;
}

function topicList(status, part, own, by) {
  const wanted = status.topics.filter((each) => (own || !isOwn(each.name)) && each.name.toLowerCase().includes(part.toLowerCase()));
  if (!wanted.length) return [note(status.topics.length ? "No topic has such a name." : "There are no topics. orbitmq topic create NAME makes one.")];
  const rows = by.sorted(wanted).map((each) => [link(address("topic", each.name), each.name, "name"), count(each.queues.length), count(messages(each)),
    rate(status.rates?.topics[each.name]), each.retention_hours === null ? "" : kept(each), each.perm === 6 ? "" : permissions(each.perm)]);
  return [table(...filled([["topic"], ["queues", "number"], ["messages", "number"], ["stored", "number"], ["kept"], ["permissions"]], rows), "Topics"),
    note(counted(wanted.length, "topic"))];
}

function messages(topic) {
  return topic.queues.reduce((sum, each) => sum + each.max_offset - each.min_offset, 0);
}

function kept(topic) {
  return topic.retention_hours === null ? "as the broker says" : topic.retention_hours ? counted(topic.retention_hours, "hour") : "for ever";
}

function permissions(perm) {
  return [perm & 4 ? "read" : "", perm & 2 ? "write" : ""].filter(Boolean).join(", ") || "none";
}

export function topicPage([name = ""], signal) {
  const about = element("div");
  const queues = element("div");
  const held = element("details", null, element("summary", null, "Queues and groups"), queues);
  const node = element("div", null, element("h1", null, element("small", null, "Topic "), name), about, held,
    browser(["topics", name, "messages"], { topic: name, signal }).node, deletion(name));
  const update = (status) => {
    const topic = status.topics.find((each) => each.name === name);
    if (!topic) return show(about, note("There is no topic of this name.", "wrong"));
    show(about, pairs([["messages", count(messages(topic))], ["queues", count(topic.queues.length)], ["stored", rate(status.rates?.topics[name]) || "..."],
      ["kept", kept(topic)], ["permissions", permissions(topic.perm)], ["receipts wait for", topic.durability]]));
    show(queues, ...queueTables(status, topic));
  };
  return { node, update };
}

function queueTables(status, topic) {
  const rows = topic.queues.map((each) => [String(each.queue), count(each.min_offset), count(each.max_offset), count(each.max_offset - each.min_offset)]);
  const made = [table([["queue", "number"], ["first offset", "number"], ["next offset", "number"], ["messages", "number"]], rows, "Queues")];
  const readers = status.groups.map((group) => [group, group.queues.filter((each) => each.topic === topic.name)]).filter(([, own]) => own.length);
  if (!readers.length) return [...made, note("No group reads this topic.")];
  return [...made, table([["group"], ["behind by", "number"]],
    readers.map(([group, own]) => [link(address("group", group.name), group.name, "name"), count(own.reduce((sum, each) => sum + each.lag_messages, 0))]), "Groups")];
}
