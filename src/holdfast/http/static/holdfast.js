// What every page shares: the API, live streams, and building elements without ever parsing HTML.

import { at } from "./root.js";
import { isHosted, may, signIn, token, who } from "./session.js";

export { at, may, signIn, token, who };

export class Problem extends Error {
  constructor(body, status) {
    super(body.detail || body.title || `The server answered ${status}.`);
    this.code = body.code;
    this.status = status;
  }
}

// The bearer token goes into a header that no other site can make a browser send: there is nothing to forge. Where the
// host's cookie stands for it, the header of our own does the same.
export async function api(path, { method = "GET", body, form, headers = {} } = {}) {
  const sent = { "Holdfast-Console": "1", ...headers };
  if (token()) sent.Authorization = `Bearer ${token()}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const content = form ?? (body === undefined ? undefined : JSON.stringify(body));
  const answer = await fetch(at(path), { method, headers: sent, body: content }).catch(() => {
    throw new Problem({ detail: "The server cannot be reached." }, 0);
  });
  const text = await answer.text();
  const isJson = (answer.headers.get("content-type") || "").includes("json");
  const json = text && isJson ? JSON.parse(text) : null;
  if (!answer.ok) throw new Problem(json || {}, answer.status);
  return json ?? text;
}

// Follow a stream until the listener closes it. A lost connection is opened anew where it broke off: a ticket is good
// once. `lives` hears whether the stream is open.
export function follow(path, names, heard, lives = () => {}) {
  let stream = null;
  let last = "";
  let over = false;
  let waitMs = 500;
  const close = () => {
    over = true;
    stream?.close();
  };
  const again = () => {
    lives(false);
    if (!over) setTimeout(open, waitMs);
    waitMs = Math.min(waitMs * 2, 15000);
  };
  async function open() {
    if (over) return;
    try {
      const pass = isHosted ? {} : { ticket: (await api("/api/tickets", { method: "POST" })).ticket };
      if (over) return;
      stream = new EventSource(at(`${path}?${new URLSearchParams({ ...pass, lastEventId: last })}`));
    } catch {
      again();
      return;
    }
    stream.onopen = () => {
      waitMs = 500;
      lives(true);
    };
    stream.onerror = () => {
      stream.close();
      again();
    };
    for (const name of names) {
      stream.addEventListener(name, (event) => {
        last = event.lastEventId || last;
        heard(name, JSON.parse(event.data || "{}"), close);
      });
    }
  }
  open();
  return { close };
}

// An element. Children that are strings become text, whatever they contain. Handlers are properties, so that morph()
// can hand them over. What would do an act that this person's roles do not allow is not made at all.
export function el(tag, props = {}, ...children) {
  if (Object.values(props).some((value) => value?.act && !may(value.act))) return "";
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made[name] = value;
    else if (name === "class") made.className = value;
    else if (name === "key") made.dataset.key = value;
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(3).filter((one) => one !== null && one !== undefined && one !== false));
  return made;
}

const HANDLERS = ["onclick", "onsubmit", "onchange", "oninput", "onpointermove", "onpointerleave", "onpointerdown", "onpointerup"];
const keyOf = (node) => node.dataset?.key;

// Make `old` look like `next` in place: what has the focus keeps it, and what a hand is typing stays.
export function morph(old, next) {
  if (old.nodeName !== next.nodeName || keyOf(old) !== keyOf(next)) {
    old.replaceWith(next);
    return next;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return old;
  }
  for (const { name } of [...old.attributes])
    if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const name of HANDLERS) if (old[name] !== next[name]) old[name] = next[name];
  if ("disabled" in next) old.disabled = next.disabled;
  morphChildren(old, next);
  return old;
}

function morphChildren(old, next) {
  const kept = new Map();
  for (const child of old.childNodes) if (keyOf(child)) kept.set(keyOf(child), child);
  let at = old.firstChild;
  for (const child of [...next.childNodes]) {
    const key = keyOf(child);
    const fits = at && !keyOf(at) && at.nodeName === child.nodeName;
    const known = key ? kept.get(key) : fits ? at : null;
    if (!known) {
      old.insertBefore(child, at);
      continue;
    }
    if (known !== at) old.insertBefore(known, at);
    at = morph(known, child).nextSibling;
  }
  while (at) {
    const rest = at.nextSibling;
    at.remove();
    at = rest;
  }
}

export function clock(value) {
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleTimeString([], { hourCycle: "h23" });
}

export function uuid() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
