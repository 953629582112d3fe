// Who is signed in, in this browser. A token lives as long as its tab; signing out ends it in every tab. Where the pages
// are mounted in another application (data-host), that one signs people in, and there is no token.
import { at } from "./root.js";

const page = document.documentElement.dataset;
export const isHosted = "host" in page;
const KEY = "holdfast.token";
const LEFT = "signed out";
const ASKS = "who has one?";
const BUSY_MS = 5000; // a tab that is known to be there may be slow to answer
const BLIND_MS = 300; // nobody may be there

export const token = () => (isHosted ? null : sessionStorage.getItem(KEY));
export function keep(given) {
  sessionStorage.setItem(KEY, given);
  show();
}
export function forget() {
  sessionStorage.removeItem(KEY);
  letGo?.();
  letGo = null;
}

// A tab that has a token holds a lock of this name, so that another knows whether it is worth asking. The browser lets
// go of it with the tab. It has locks only where the address is safe (https, or this machine).
let letGo = null;
function show() {
  if (letGo) return;
  const kept = new Promise((end) => {
    letGo = end;
  });
  navigator.locks?.request(KEY, { mode: "shared" }, () => kept);
}
async function isWorthAsking() {
  return !navigator.locks || (await navigator.locks.query()).held.some((lock) => lock.name === KEY);
}

// A new tab of the same site asks the others for theirs before it asks for a sign-in.
const tabs = new BroadcastChannel(KEY);
tabs.onmessage = ({ data }) => {
  if (data === ASKS && token()) tabs.postMessage({ token: token() });
  if (data === LEFT && token()) leave();
};

async function borrow() {
  if (!(await isWorthAsking())) return;
  const asking = new BroadcastChannel(KEY);
  const lent = await new Promise((answer) => {
    asking.onmessage = ({ data }) => {
      if (data?.token) answer(data.token);
    };
    asking.postMessage(ASKS);
    setTimeout(answer, navigator.locks ? BUSY_MS : BLIND_MS);
  });
  asking.close();
  if (lent) keep(lent);
}
const isGiven = location.pathname === at("/login") || location.hash.startsWith("#token=");
if (token()) show();
else if (!isGiven && !isHosted) await borrow();
const guest = isHosted ? await fetch(at("/api/session")).then((answer) => (answer.ok ? answer.json() : null)) : null;

// Where one signs in, to come back to this view; null where the host has not said it.
export const signIn = (next) => (isHosted ? page.signIn || null : at(`/login?next=${next}${location.hash}`));

// Who the token is for, as it says itself. Only for showing: the server decides what it allows.
export function who() {
  if (isHosted) return guest;
  try {
    const part = token().split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(part), (sign) => sign.charCodeAt(0));
    const { sub, roles } = JSON.parse(new TextDecoder().decode(bytes));
    return { sub: String(sub), roles: Array.isArray(roles) ? roles.map(String) : [] };
  } catch {
    return null;
  }
}

// What the roles of this person allow, as the server says; until it has said so, nothing.
let acts = new Set();
export const allow = (paths) => {
  acts = new Set(paths);
};
export const may = (path) => acts.has(path);

function leave() {
  forget();
  sessionStorage.clear();
  location.replace(at("/login"));
}

// The server takes the console's cookie back for whoever shows the token: no other site can do that to somebody.
export async function signOut() {
  const headers = { Authorization: `Bearer ${token()}` };
  await fetch(at("/api/session"), { method: "DELETE", headers }).catch(() => null); // away or expired: the tab forgets anyway
  tabs.postMessage(LEFT);
  leave();
}

const button = document.querySelector("#sign-out");
if (button && token()) {
  button.hidden = false;
  button.addEventListener("click", signOut);
}
