// The console's frame: a view for each address after the #, drawn anew when the server says that something happened.
import { api, el, follow, morph, signIn, who } from "./holdfast.js";
import { restore } from "./drafts.js";
import { icon } from "./icons.js";
import { ask, say } from "./parts.js";
import { overview } from "./console-overview.js";
import { jobs } from "./console-jobs.js";
import { incident, incidents } from "./console-incidents.js";
import { time } from "./console-time.js";
import * as systems from "./console-systems.js";

// The systems that run here add their own, before the workers.
const TABS = [
  ["overview", "Overview", "o"],
  ["incidents", "Incidents", "i"],
  ["time", "Time", "t"],
  ["jobs", "Jobs", "j"],
  ["dead", "Dead letters", "d"],
  ["breakers", "Breakers", "b"],
  ["outbox", "Outbox", "m"],
  ["machines", "Workers", "w"],
  ["audit", "Audit", "a"],
];
// What a first look does not need is loaded when somebody goes there. A module that could not be had is asked for under
// another address the next time: a browser remembers the failure.
function later(file, name) {
  let tries = 0;
  let loaded = null;
  return async (...given) => {
    tries += 1;
    try {
      loaded ??= await import(tries === 1 ? file : `${file}?${tries}`);
    } catch (error) {
      await api("/api/session"); // says why: the server is away, or lets this person in no more
      throw error;
    }
    return loaded[name](...given);
  };
}

const openPalette = later("./palette.js", "openPalette");
const VIEWS = {
  overview,
  time,
  incidents,
  incident,
  jobs,
  job: later("./console-job.js", "job"),
  dead: later("./console-letters.js", "letters"),
  group: later("./console-letters.js", "group"),
  letter: later("./console-letter.js", "letter"),
  replay: later("./console-replay.js", "replay"),
  breakers: later("./console-breakers.js", "breakers"),
  breaker: later("./console-breakers.js", "breaker"),
  outbox: later("./console-outbox.js", "outbox"),
  machines: later("./console-machines.js", "machines"),
  schedule: later("./console-machines.js", "schedule"),
  audit: later("./console-records.js", "audit"),
};
const BELONGS = {
  incident: "incidents",
  job: "jobs",
  letter: "dead",
  group: "dead",
  replay: "dead",
  breaker: "breakers",
  schedule: "machines",
};
const REFRESH_MS = 5000;
const REST_MS = 1000;

const view = document.querySelector("#view");
const nav = document.querySelector("#nav");
const live = document.querySelector("#live");
const stale = document.querySelector("#stale");
let turn = 0;
let drawnAt = 0;
let triedAt = 0;
let isDrawing = false;
let isStale = false;
let waits = null;
let counts = {};
let tabs = TABS;

function place() {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const [name, ...parts] = path.split("/");
  const known = Object.hasOwn(VIEWS, name) ? name : "overview";
  return { name: known, parts: parts.map(decodeURIComponent), query: new URLSearchParams(query) };
}

function drawTabs(name) {
  const tab = BELONGS[name] ?? name;
  const line = ([key, title, , path]) =>
    el(
      "a",
      { href: `#${key}`, class: key === tab ? "current" : null, "aria-current": key === tab ? "page" : null },
      icon(key, path),
      el("span", {}, title),
      counts[key]
        ? el("span", { class: "count", "aria-label": `${counts[key]} to work on` }, String(counts[key]))
        : null,
    );
  morph(nav, el("nav", { "aria-label": "Console", id: "nav" }, tabs.map(line)));
}

// Draw the view of the address. Where a person has gone to another one, nothing of what was shown stays.
async function show() {
  const mine = ++turn;
  isDrawing = true;
  isStale = false;
  const where = place();
  const hash = location.hash;
  drawTabs(where.name);
  let made;
  let problem = null;
  try {
    made = await VIEWS[where.name](where, () => show());
  } catch (error) {
    problem = error;
  }
  if (mine !== turn) return;
  isDrawing = false;
  triedAt = Date.now();
  warn(problem);
  if (isStale) refresh();
  if (problem) {
    if (view.dataset.place === hash && !view.dataset.failed) return; // what is seen is better than an excuse
    made = trouble(problem);
  } else drawnAt = triedAt;
  if (made === null) return;
  const now = el("main", { id: "view", tabindex: "-1", "data-place": hash, "data-failed": problem ? "yes" : null }, made);
  const before = view.dataset.place;
  view.dataset.place = hash;
  if (before === hash) morph(view, now);
  else view.replaceChildren(...now.childNodes);
  if (problem) view.dataset.failed = "yes";
  else delete view.dataset.failed;
  entitle();
  if (restore(view)) say("What you had typed here is back.");
  if (before === hash || before === undefined) return;
  nav.querySelector(".current")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  // The heading is where reading goes on; but a hand that already types elsewhere is not to be pulled away.
  if (!document.activeElement.matches("input, textarea, select")) view.querySelector("h2")?.focus();
}

// The tab says which view it is, and before it how much asks for a person.
function entitle() {
  const asks = (counts.overview ?? 0) + (counts.incidents ?? 0) + (counts.dead ?? 0);
  const about = view.querySelector("[data-tab]")?.dataset.tab ?? view.querySelector("h2")?.textContent ?? "Console";
  document.title = `${asks ? `(${asks}) ` : ""}${about} - Holdfast`;
}

const wayIn = (error) => {
  const address = error.status === 401 ? signIn("console") : null;
  return address ? el("a", { href: address }, "Sign in again") : null;
};
const trouble = (error) =>
  el("div", {}, el("p", { class: "callout error", role: "alert" }, error.message), el("p", {}, wayIn(error)));

// In a corner: from when what is seen is, and why nothing newer came.
function warn(error) {
  const isShown = Boolean(error) && view.dataset.place === location.hash && !view.dataset.failed;
  stale.hidden = !isShown;
  if (!isShown) return;
  const words = `As of ${new Date(drawnAt).toLocaleTimeString([], { hourCycle: "h23" })}. ${error.message} Trying again. `;
  stale.replaceChildren(words, wayIn(error) ?? "");
}

// Many changes in a moment are one drawing; and none begins before the last has ended, or a slow server would be asked
// for ever and never be shown.
function refresh() {
  isStale = isDrawing;
  if (waits || isDrawing || document.hidden) return;
  waits = setTimeout(
    () => {
      waits = null;
      (isLoaded ? Promise.resolve() : loadSystems()).then(show);
      tally();
    },
    Math.max(0, triedAt + REST_MS - Date.now()),
  );
}

async function tally() {
  try {
    const { items } = await api("/api/ops/overview");
    const sum = (number) => items.reduce((all, one) => all + (number(one) ?? 0), 0);
    counts = {
      overview: sum((one) => one.light === "red" && !one.incidents), // a database that is away can keep no incident
      incidents: sum((one) => one.incidents),
      dead: sum((one) => one.dead_letters_open),
      breakers: sum((one) => one.breakers_not_closed?.length),
    };
    drawTabs(place().name);
    entitle();
  } catch {
    /* the view itself says what is wrong */
  }
}

let isLoaded = false;
async function loadSystems() {
  try {
    await systems.load();
    tabs = [...TABS.slice(0, -2), ...systems.tabs(), ...TABS.slice(-2)];
    Object.assign(VIEWS, systems.views());
    Object.assign(BELONGS, systems.belongs());
    isLoaded = true;
  } catch {
    /* the view itself says what is wrong */
  }
}

const describeKeys = () =>
  el(
    "div",
    {},
    el("p", {}, "Ctrl+K opens the palette, / finds by any id. g and then a letter goes to:"),
    el(
      "ul",
      {},
      tabs.map(([, title, key]) => el("li", {}, el("code", {}, `g ${key}`), ` ${title}`)),
    ),
  );
const showKeys = () => ask("Keys", { words: describeKeys(), verb: "Close", isNews: true });
let goes = false;

function onKey(event) {
  if (event.key === "k" && (event.ctrlKey || event.metaKey) && !event.altKey) {
    event.preventDefault();
    openPalette(tabs);
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input, textarea, select")) return;
  const tab = goes ? tabs.find(([, , key]) => key === event.key) : null;
  goes = event.key === "g";
  if (tab) location.hash = tab[0];
  else if (event.key === "/") document.querySelector("#q").focus();
  else if (event.key === "?") showKeys();
  else return;
  event.preventDefault();
}

// A browser opens six connections to a host: a tab that nobody looks at keeps none of them.
let stream = null;
function listen() {
  if (document.hidden) {
    stream?.close();
    stream = null;
  } else if (!stream && who()) {
    stream = follow("/api/ops/changes", ["changed"], refresh, (on) => {
      live.dataset.on = on;
      live.textContent = on ? "live" : "reconnecting";
    });
  }
}

async function begin() {
  const me = who();
  document.querySelector("#who").textContent = me ? me.sub : "not signed in";
  document.querySelector("#skip").addEventListener("click", (event) => {
    event.preventDefault(); // what stands after the # is the view's address
    view.focus();
  });
  document.querySelector("#keys").addEventListener("click", showKeys);
  document.querySelector("#find").addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = event.target.q.value.trim();
    event.target.q.blur();
    if (wanted) location.hash = `jobs?${new URLSearchParams({ q: wanted })}`;
  });
  addEventListener("hashchange", show);
  addEventListener("keydown", onKey);
  addEventListener("unhandledrejection", (event) => say(event.reason?.message ?? String(event.reason), "error"));
  setInterval(() => {
    if (Date.now() - triedAt >= REFRESH_MS) refresh();
  }, REFRESH_MS);
  document.addEventListener("visibilitychange", () => {
    listen();
    refresh();
  });
  listen();
  await loadSystems();
  show();
  tally();
}

begin();
