// The console: which page is shown, and the poll that keeps it fresh.

import { ask, setToken, takeToken } from "./api.js";
import { element } from "./elements.js";
import { groupPage, groupsPage } from "./groups.js";
import { letterGroupsPage, lettersPage } from "./letters.js";
import { messagePage } from "./message.js";
import { overviewPage } from "./overview.js";
import { topicPage, topicsPage } from "./topics.js";

const POLL_MS = 2000;
const PAGES = { "": overviewPage, topics: topicsPage, topic: topicPage, groups: groupsPage, group: groupPage,
  message: messagePage, "dead-letters": letterGroupsPage, letters: lettersPage };

let shown = null; // the page: { node, update(status) }
let leaving = null; // ends the questions of the page before
let status = null;
let asking = false;

function open() {
  const [name, ...parts] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  leaving?.abort();
  leaving = new AbortController();
  const page = PAGES[name] ?? overviewPage;
  const main = document.getElementById("main");
  shown = page(parts, leaving.signal);
  main.replaceChildren(shown.node);
  if (status) shown.update?.(status);
  const place = name === "topic" ? "topics" : name === "group" ? "groups" : name === "letters" ? "dead-letters" : name;
  for (const each of document.querySelectorAll("nav a")) {
    if (each.getAttribute("href") === `#/${place}`) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  document.title = [parts[0], "OrbitMQ"].filter(Boolean).join(" - ");
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function poll() {
  if (asking || document.hidden) return;
  asking = true;
  try {
    status = await ask(["status"]);
    trouble(null);
    document.body.classList.remove("stale");
    document.body.classList.toggle("changes", status.changes);
    const broker = document.getElementById("broker");
    broker.replaceChildren(element("span", { class: `state ${status.health.state}` }, status.health.state), " ", status.name);
    shown?.update?.(status);
  } catch (error) {
    document.body.classList.add("stale");
    document.getElementById("broker").replaceChildren(element("span", { class: "state stopped" }, error.code === 401 ? "locked" : "no answer"));
    trouble(error);
  } finally {
    asking = false;
  }
}

function trouble(error) {
  const place = document.getElementById("trouble");
  const text = error ? error.message : "";
  if (place.dataset.said === text) return;
  place.dataset.said = text;
  place.hidden = !error;
  if (!error) return place.replaceChildren();
  if (error.code === 401) return place.replaceChildren(tokenForm());
  const more = error.hint ? element("p", { class: "hint" }, error.hint) : null;
  place.replaceChildren(...[element("p", null, sentence(text)), more].filter(Boolean));
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function tokenForm() {
  const field = element("input", { type: "password", autocomplete: "off", "aria-label": "Token", placeholder: "token" });
  const take = (event) => {
    event.preventDefault();
    setToken(field.value);
    document.getElementById("trouble").dataset.said = "";
    poll().then(open);
  };
  return element("form", { class: "bar", onsubmit: take },
    element("p", null, "This console wants its token. orbitmq console prints it as a part of the address."),
    field, element("button", null, "Enter"));
}

takeToken();
window.addEventListener("hashchange", () => {
  takeToken();
  open();
  poll();
});
document.addEventListener("visibilitychange", poll);
open();
poll();
setInterval(poll, POLL_MS);
