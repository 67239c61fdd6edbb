// Brings what is shown to a fresh state and leaves alone what is the same, so that a poll takes away neither a selection, nor the
// focus, nor how far a table is scrolled.

export function show(holder, ...fresh) {
  const wanted = fresh.filter((each) => each !== null);
  children(holder, wanted);
}

function children(old, wanted) {
  const had = [...old.childNodes];
  wanted.forEach((each, at) => {
    if (at >= had.length) old.append(each);
    else patch(had[at], each);
  });
  for (const each of had.slice(wanted.length)) each.remove();
}

function patch(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if (old.nodeType === Node.TEXT_NODE) {
    old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  children(old, [...fresh.childNodes]);
}
