// Dead letters: which groups have some, and those of one.

import { browser } from "./browser.js";
import { address, element, link, note, table } from "./elements.js";
import { redrive } from "./changes.js";
import { count, counted } from "./numbers.js";
import { show } from "./patch.js";

const PREFIX = "%DLQ%";

export function letterGroupsPage() {
  const list = element("div");
  const update = (status) => {
    const groups = status.topics.filter((each) => each.name.startsWith(PREFIX))
      .map((each) => [each.name.slice(PREFIX.length), each.queues.reduce((sum, queue) => sum + queue.max_offset - queue.min_offset, 0)]);
    if (!groups.length) return show(list, note("No group has dead letters: messages that it has given up."));
    show(list, table([["group"], ["dead letters, sent again or not", "number"]], groups.map(([name, letters]) => [link(address("letters", name), name, "name"), count(letters)]), "Dead letters"));
  };
  return { node: element("div", null, element("h1", null, "Dead letters"), list), update };
}

export function lettersPage([group = ""], signal) {
  const letters = browser(["dead-letters", group], { topic: null, signal, row: (letter) => about(letter, again), empty: "It has no dead letters." });
  const again = redrive(group, () => letters.again());
  return { node: element("div", null, element("h1", null, element("small", null, "Dead letters of "), group), again.node, letters.node) };
}

function about(letter, again) {
  return [element("span", null, `${counted(letter.tries, "try").replace("trys", "tries")} of ${letter.original_topic ?? "an unknown topic"}`),
    letter.reason ? element("span", { class: "reason" }, letter.reason) : null,
    letter.redriven ? link(address("message", letter.redriven), "sent again", "tag") : again.one(letter.offset)];
}
