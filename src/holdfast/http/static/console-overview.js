// The first look: what asks for a person, then each system's last hour.
import { api, el } from "./holdfast.js";
import { timeChart } from "./charts.js";
import { incidentCard, placeOf, worstFirst } from "./console-incidents.js";
import * as systems from "./console-systems.js";
import { failureChart, jobsBehind, pace, providerChart } from "./console-time.js";
import { count, link, many, sentence, span, topicWords } from "./parts.js";

export async function overview(place, again) {
  const [now, going, past, more] = await Promise.all([
    api("/api/ops/overview"),
    api("/api/ops/incidents?state=open").catch(() => ({ items: [] })), // a database that is away has none to tell
    api("/api/ops/charts?minutes=60").catch(() => ({ items: [] })), // a database that is away leaves its charts empty
    systems.asks(),
  ]);
  const byName = new Map(past.items.map((one) => [one.system, one]));
  const all = now.items.toSorted(byUrgency);
  const [quiet, busy] = [true, false].map((wanted) => all.filter((one) => isAtRest(one, byName.get(one.system)) === wanted));
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Overview"),
    worstFirst(going.items).map((one) => incidentCard(one, again, now.items.length > 1 ? one.system : null)),
    asks(now.items, more, going.items),
    busy.map((one) => card(one, byName.get(one.system))),
    quiet.length ? atRest(quiet) : null,
  );
}

// The broken ones first, then the busy ones; a system at rest can wait below.
const URGENCY = ["red", "yellow", "green"];
const live = (one) => (one.lanes ?? []).reduce((sum, lane) => sum + lane.jobs, 0);
const byUrgency = (one, other) =>
  URGENCY.indexOf(one.light) - URGENCY.indexOf(other.light) || live(other) - live(one) || Number(other.runs_jobs) - Number(one.runs_jobs);

// An incident says it already; the rest is listed.
function asks(items, more, going) {
  const several = items.length > 1;
  const covered = new Set(going.map((one) => `${one.system}/${one.topic}/${one.subject}`));
  const notices = items
    .flatMap((one) => one.asks.map((notice) => ({ system: one.system, title: one.title, notice })))
    .filter(({ system, notice }) => !covered.has(`${system}/${notice.topic}/${notice.subject}`));
  notices.sort((one, other) => (one.notice.severity === "page" ? 0 : 1) - (other.notice.severity === "page" ? 0 : 1));
  const lines = notices.map(({ system, title, notice }) => {
    const words = sentence(several ? `${title}: ${notice.sentence}` : notice.sentence);
    if (notice.severity === "page") words.push(el("small", {}, sentence(notice.to_do)));
    const place = placeOf(system, notice);
    return el("li", { class: notice.severity }, place ? link(place, ...words) : el("span", {}, words));
  });
  lines.push(...more.map((line) => el("li", { class: "ticket" }, line)));
  if (!lines.length && going.length) return null;
  if (!lines.length) return allWell(items);
  const worst = notices.some((one) => one.notice.severity === "page") ? "error" : "warn";
  return el(
    "div",
    { class: `callout ${worst}`, key: "asks", role: "status" },
    el("strong", {}, "Asks for a person"),
    el("ul", { class: "notices" }, lines),
  );
}

function allWell(items) {
  const sum = (number) => items.reduce((all, one) => all + number(one), 0);
  const ended = sum((one) => (one.finished_last_hour ?? []).reduce((all, row) => all + row.jobs, 0));
  const words = [count(items.length, "system"), count(sum((one) => one.workers ?? 0), "worker"), `${count(ended, "job")} ended in the last hour`];
  return el(
    "div",
    { class: "callout good well", key: "well" },
    el("strong", {}, "Nothing asks for a person."),
    el("span", { class: "small" }, words.join(", ")),
  );
}

// Systems that did nothing for an hour, and need nothing: a line each, below those that somebody may want to see.
function atRest(items) {
  const week = (one) => link(`#time?minutes=10080&system=${encodeURIComponent(one.system)}`, "The last 7 days");
  const line = (one) =>
    el(
      "li",
      { key: one.system },
      el("span", {}, one.title),
      state(one),
      el("span", { class: "soft small" }, one.runs_jobs ? count(one.workers, "worker") : "no jobs of its own"),
      one.runs_jobs ? week(one) : null,
    );
  return el("section", { class: "card", key: "rest", "aria-label": "At rest" }, el("h2", {}, "At rest"), el("ul", { class: "rest" }, items.map(line)));
}

function card(one, past) {
  const lanes = one.lanes ?? [];
  const depth = (state) => lanes.filter((lane) => lane.state === state).reduce((sum, lane) => sum + lane.jobs, 0);
  return el(
    "section",
    { class: "card", key: one.system, "aria-label": one.title },
    el(
      "div",
      { class: "head" },
      el("h2", {}, one.title),
      state(one),
      one.lanes === undefined || !one.runs_jobs
        ? el("span", { class: "soft small" }, one.lanes === undefined ? "its database does not answer" : "has no jobs of its own")
        : null,
    ),
    one.lanes !== undefined && one.runs_jobs ? figures(one, depth) : null,
    past && charts(past, one, depth),
  );
}

// What there is now, each a way to the jobs behind it; a red number is one that should not be so.
function figures(one, depth) {
  const open = depth("queued") + depth("parked") + depth("paused");
  const cells = [
    ["queued", depth("queued"), "jobs?q=state:queued", null],
    ["held", depth("parked"), "jobs?q=state:held", "warn"],
    depth("paused") ? ["paused", depth("paused"), "machines", "warn"] : null,
    ["running", depth("processing"), "jobs?q=state:running", null],
    ["waiting for a callback", depth("waiting"), "jobs?q=state:waiting", null],
    ["dead letters", one.dead_letters_open, "dead", "error"],
    [one.workers === 1 ? "worker" : "workers", one.workers, "machines", one.workers || !open ? null : "error"],
  ].filter(Boolean);
  const cell = ([words, number, place, kind]) =>
    el(
      "a",
      { class: `figure ${number || words === "workers" ? (kind ?? "") : "none"}`, href: `#${place}${place.startsWith("jobs") ? `&system=${encodeURIComponent(one.system)}` : ""}` },
      el("strong", {}, many(number)),
      " ",
      el("span", {}, words),
    );
  return el("div", { class: "figures" }, cells.map(cell));
}

// Empty charts say nothing at the price of a screen.
const isAtRest = (one, past) =>
  one.light === "green" &&
  !live(one) &&
  Boolean(past?.points.every((point) => !(point.stages || point.failed || point.waiting || point.running || point.outbox)));

// The light is the server's: no page of its own may call a system well.
const LIGHTS = { red: "error", yellow: "warn", green: "good" };
const state = (one) => pill2(LIGHTS[one.light], one.asks[0] ? topicWords(one.asks[0].topic) : "well");
const pill2 = (kind, words) => el("span", { class: `pill ${kind}` }, words);

const manyOf = (value) => many(Math.round(value));
const whole = (value) => Math.round(value).toLocaleString("en");
const messages = (past) =>
  timeChart("Messages to publish", past, [{ name: "messages", kind: "line", value: (point) => point.outbox }], { show: whole });

// The figure beside a chart is how it is now, where the overview knows it: a point has the most of its minute.
function charts(past, one, depth) {
  const jobs = jobsBehind(null);
  if (!one.runs_jobs) return el("div", { class: "charts" }, messages(past));
  return el(
    "div",
    { class: "charts" },
    timeChart("Stages", past, [
      { name: "done", kind: "bar", value: (point) => point.stages },
      { name: "failed", kind: "bad", value: (point) => point.failed },
    ], { show: whole, now: pace(past, true), jobs }),
    timeChart("Waiting jobs", past, [
      { name: "waiting", kind: "line", value: (point) => point.waiting },
      { name: "held", kind: "second", value: (point) => point.held },
    ], { show: manyOf, jobs, now: one.lanes && many(depth("queued") + depth("parked") + depth("paused")) }),
    timeChart("Oldest waits", past, [{ name: "oldest", kind: "line", value: (point) => point.oldest_age_s }], { show: span, jobs, now: one.lanes && span(Math.max(one.oldest_age_s, one.oldest_held_age_s)) }),
    failureChart(past, { jobs }),
    past.points.some((point) => point.outbox) ? messages(past) : null,
    providersOf(past, one).map((provider) => providerChart(provider, past, { jobs })),
  );
}

// Those that are not called at present, then the busiest: a row of them; the others are in the view of time.
const PROVIDERS_DRAWN = 4;
function providersOf(past, one) {
  const calls = (provider) => provider.points.reduce((sum, point) => sum + point.calls, 0);
  const isHeld = (provider) => Number(one.breakers_not_closed?.includes(provider.name) ?? false);
  return past.providers.toSorted((a, b) => isHeld(b) - isHeld(a) || calls(b) - calls(a)).slice(0, PROVIDERS_DRAWN);
}
