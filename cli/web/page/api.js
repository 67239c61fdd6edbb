// Asks the console's server. The token comes with the address once, after "#", which browsers do not send, and stays in this tab.

const KEPT = "orbitmq-console-token";

export class Refused extends Error {
  constructor(code, error) {
    super(error.message);
    this.code = code;
    this.hint = error.hint;
    this.option = error.option;
    this.sent = error.sent;
  }
}

// "#token=TOKEN" or "#token=TOKEN/topic/orders".
export function takeToken() {
  const found = /^#token=([^/]+)(.*)$/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(KEPT, decodeURIComponent(found[1]));
  history.replaceState(null, "", `${location.pathname}#${found[2] || "/"}`);
}

export function setToken(token) {
  sessionStorage.setItem(KEPT, token.trim());
}

export async function ask(path, query, signal) {
  const answer = await request("GET", path, query, null, signal);
  return answer.json();
}

export async function download(path) {
  return (await request("GET", path)).blob();
}

// method: POST or DELETE.
export async function change(method, path, content) {
  const answer = await request(method, path, null, content ?? {});
  return answer.json();
}

async function request(method, path, query, content, signal) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = given.length ? "?" + new URLSearchParams(given) : "";
  const headers = { authorization: `Bearer ${sessionStorage.getItem(KEPT) ?? ""}` };
  if (content) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch("/api/" + path.map(encodeURIComponent).join("/") + search,
      { method, headers, signal, body: content ? JSON.stringify(content) : undefined, credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { message: "The console does not answer: its process has ended, or cannot be reached." });
  }
  if (answer.ok) return answer;
  let error = { message: `the console answered with ${answer.status}` };
  try {
    error = (await answer.json()).error ?? error;
  } catch {
    // not of the console's own; the code says enough
  }
  throw new Refused(answer.status, error);
}
