// The broker as a whole: what is wrong, its processes, how far the log is.

import { element, filled, note, pairs, table } from "./elements.js";
import { bytes, count, counted, duration, rate, time } from "./numbers.js";
import { show } from "./patch.js";

const SILENT_MS = 30000;

export function overviewPage() {
  const node = element("div", null, note("Looking at the broker ..."));
  return { node, update: (status) => show(node, ...overview(status)) };
}

function overview(status) {
  return [
    element("h1", null, "Overview"),
    complaints(status),
    element("div", { class: "tiles" },
      tile("health", status.health.state, `the broker is ${status.state}`, status.health.state),
      tile("stored", rate(total(status.rates?.topics)) || "...", `${counted(status.topics.length, "topic")}, ` +
        counted(status.topics.reduce((sum, each) => sum + each.queues.length, 0), "queue")),
      tile("consumed", rate(total(status.rates?.groups)) || "...", `${counted(status.groups.length, "group")} behind by ` +
        count(status.groups.reduce((sum, each) => sum + lag(each), 0))),
      tile("dead letters", count(status.groups.reduce((sum, each) => sum + each.dead_letters, 0)), "given up by groups",
        status.groups.some((each) => each.dead_letters) ? "degraded" : ""),
      tile("log", bytes(status.positions.wrote - status.positions.min_offset), `oldest message ${time(status.oldest_ms) || "none"}`)),
    element("h2", null, "Processes"),
    table(...filled([["process"], ["state"], ["pid", "number"], ["life", "number"], ["last sign of life", "number"], ["error"]],
      status.actors.map((each) => [each.name, element("span", { class: `state ${grade(each)}` }, each.state), String(each.pid),
        count(each.epoch), `${duration(each.heartbeat_age_ms)} ago`, each.error ? `errno ${each.error}` : ""])), "Processes"),
    element("h2", null, "Log"),
    positions(status),
    element("h2", null, "Broker"),
    pairs([["store", status.store], ["version", status.version], ["pid", String(status.pid)], ["sessions", count(status.sessions.length)],
      ["receipts", status.flush === "batch" ? "after every message is on disk" : `on disk at most ${duration(status.flush_interval_ms)} later, unless the sender waits`],
      ["messages are kept", status.retention_hours ? counted(status.retention_hours, "hour") : "for ever"],
      ["RocketMQ's clients", status.listens || "nowhere"],
      ["open transactions", status.open_transactions ? `${count(status.open_transactions)}, oldest ${time(status.oldest_transaction_ms)}` : "0"]]),
  ];
}

function complaints(status) {
  const list = [...status.health.reasons, ...status.notes];
  return element("div", { class: "complaints" }, list.length ? element("ul", null, list.map((each) => element("li", null, each))) : []);
}

function positions(status) {
  const at = status.positions;
  const rows = ["wrote", "flushed", "reput"].map((name) => [name, count(at[name]), bytes(at.wrote - at[name]),
    status.rates ? `${bytes(Math.round(status.rates.positions[name]))}/s` : "", at[`${name}_error`] ? `errno ${at[`${name}_error`]}` : ""]);
  return table(...filled([["position"], ["bytes", "number"], ["behind", "number"], ["rate", "number"], ["error"]], rows), "Positions in the log");
}

function grade(actor) {
  if (actor.state === "failed") return "refusing";
  return actor.state === "running" && actor.heartbeat_age_ms <= SILENT_MS ? "ok" : "degraded";
}

function tile(name, value, more, kind = "") {
  return element("div", { class: `tile ${kind}` }, element("span", null, name), element("strong", null, value), element("small", null, more));
}

export function total(rates) {
  return rates ? Object.values(rates).reduce((sum, each) => sum + each, 0) : null;
}

export function lag(group) {
  return group.queues.reduce((sum, each) => sum + each.lag_messages, 0);
}

