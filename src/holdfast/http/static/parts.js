// What the console's views are made of: tables, pills, facts, dialogs, words about time.
import { actOn, drop, fieldsOf, nameDialog, restore } from "./drafts.js";
import { el } from "./holdfast.js";

const KINDS = {
  succeeded: "good",
  closed: "good",
  sent: "good",
  published: "good",
  resolved: "good",
  complete: "good",
  ok: "good",
  dead: "error",
  open: "error",
  over: "warn",
  escalated: "error",
  failed: "error",
  Critical: "error",
  review: "warn",
  half_open: "warn",
  unknown: "warn",
  waiting: "warn",
  cancelled: "warn",
  held: "warn",
  paused: "warn",
  draining: "warn",
  drained: "warn",
  silent: "error",
  running: "good",
  sending: "warn",
  ambiguous: "warn",
  triaged: "warn",
  remediated: "warn",
  High: "warn",
};
export const pill = (word) =>
  el("span", { class: `pill ${KINDS[word] ?? ""}` }, String(word ?? "").replaceAll("_", " "));

export function text(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function pretty(value) {
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

export const short = (value, most = 160) => (value.length > most ? `${value.slice(0, most)}…` : value);

export function when(value) {
  if (!value) return "";
  const date = new Date(value);
  const today = date.toDateString() === new Date().toDateString();
  const words = today ? date.toLocaleTimeString([], { hourCycle: "h23" }) : date.toLocaleString([], { hourCycle: "h23" });
  return el("time", { datetime: date.toISOString(), title: date.toISOString() }, words);
}

// What was noted beside an act: each name with its value, moments as everything else here shows them.
const asMoment = (name, value) => (name.endsWith("_at") && typeof value === "number" ? new Date(value).toISOString() : value);
const asChange = ({ path, before, after }) => `${path}: ${text(before)} \u2192 ${text(after)}`;
export const noted = (data) =>
  Object.entries(data ?? {})
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => [name, name === "changes" && Array.isArray(value) ? value.map(asChange).join(", ") : text(asMoment(name, value))])
    .flatMap(([name, words], at) => [at ? "; " : "", el("span", { class: "soft" }, `${name.replaceAll("_", " ")} `), sentence(words)]);
export const context = (data) => JSON.stringify(data, asMoment, 2);

// What a failure of this category most often comes of, for a person to confirm.
const CAUSES = { validation: "data", not_found: "data", policy_reject: "data", auth: "auth_config", bug_or_config: "code" };
export const likelyCause = (one) => CAUSES[one.category] ?? "transient";

// A sentence of the server's: its moments by the reader's clock, as everything else here shows them, and what one types
// as such.
const MOMENT = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)|\b\d\d:\d\d UTC\b)/;
export const sentence = (words) => String(words ?? "").split(MOMENT).flatMap((piece, at) => (at % 2 ? moment(piece) : typed(piece)));
const moment = (piece) => (piece.endsWith("UTC") ? clockTime(piece) : when(piece));
function clockTime(piece) {
  const date = new Date();
  date.setUTCHours(piece.slice(0, 2), piece.slice(3, 5));
  const words = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  return el("time", { datetime: `${piece.slice(0, 5)}Z`, title: piece }, words);
}
const typed = (words) => words.split("`").map((piece, at) => (at % 2 ? el("code", {}, piece) : piece));

export function span(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}
// In one piece: a column that is narrow breaks elsewhere.
export const ago = (value) => `${span(Math.max(0, (Date.now() - new Date(value).getTime()) / 1000))} ago`.replaceAll(" ", "\u00a0");
export const money = (micros) => (Number(micros) / 1e6).toFixed(4);
// The server counts jobs up to ten thousand of a sort: from there on there may be more.
export const many = (number) => `${number.toLocaleString("en")}${number >= 10000 ? "+" : ""}`;
export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
export const errorOf = (value) => (value?.error_class ? `${value.error_class}: ${value.message ?? ""}` : text(value));
// What a program raised by mistake begins with a name of its own, which says more than that it is a bug.
export const letterTitle = (row) => {
  const raised = row.error_class === "BUG" ? text(row.last_error).match(/^[A-Za-z_][\w.]*(?=: | \(|$)/)?.[0] : null;
  return `${raised ?? row.error_class} in ${row.stage}`;
};
// What a notice or an incident is about, as a person would say it.
const TOPICS = {
  letters_of_bugs: "a bug kills jobs",
  letters_open: "dead letters",
  letters_escalated: "escalated letters",
  jobs_dying: "many jobs die",
  waiting_long: "jobs wait too long",
  undeclared: "a stage nobody runs",
  provider_untried: "a provider nobody calls",
  outbox_lag: "the outbox lags",
  store_down: "database down",
  broker_down: "broker away",
};
export const topicWords = (topic) => TOPICS[topic] ?? topic.replaceAll("_", " ");
export const link = (href, ...words) => el("a", { href }, ...words);

// As much of each id as tells it from every other in the list, and eight characters at least, as the command line shows it.
function idLength(ids) {
  const sorted = ids.toSorted();
  const shared = (one, other) => [...one].findIndex((letter, at) => letter !== other[at]);
  return Math.max(8, ...sorted.slice(1).map((id, at) => 1 + shared(id, sorted[at])));
}

// A column's cell with the short id; what is read aloud, and what a tool tip shows, is the whole of it.
export function idCell(rows, view, name = "id") {
  const length = idLength(rows.map((row) => row[name]));
  return (row) =>
    el("a", { href: `#${view}/${encodeURIComponent(row[name])}`, title: row[name], "aria-label": row[name] }, el("code", {}, row[name].slice(0, length)));
}

// Columns are [title, name of a field or a function of the row, what stands in the head instead of the title]; `key` tells rows apart while they move.
export function table(columns, rows, key = null, none = "Nothing.") {
  if (!rows.length) return el("p", { class: "soft" }, none);
  // The title goes with the cell: on a narrow screen a row is a card, and has no heads above it.
  // A word is broken only where it is too long for any column.
  const cell = (row, title, one) => {
    const content = typeof one === "function" ? one(row) : typeof row[one] === "number" ? row[one].toLocaleString("en") : text(row[one]);
    const made = el("td", { "data-title": title || null }, Array.isArray(content) ? el("span", {}, content) : content); // one piece beside its title
    if (/\S{32}/.test(made.textContent)) made.className = "long";
    return made;
  };
  const cells = rows.map((row) => columns.map(([title, one]) => cell(row, title, one)));
  // A column that no row fills is left out, unless its head is how its order is chosen.
  const isFilled = columns.map(([, , shown], at) => shown || cells.some((line) => line[at].textContent || line[at].querySelector("input")));
  const filled = (all) => all.filter((_, at) => isFilled[at]);
  const head = (title, shown) => el("th", { scope: "col", "aria-sort": shown?.dataset.sorted ?? null }, shown ?? title);
  const heads = columns.map(([title, , shown]) => (title ? head(title, shown) : el("td")));
  const lines = rows.map((row, at) => el("tr", { key: key && String(key(row)) }, filled(cells[at])));
  return el(
    "div",
    { class: "scroll" },
    el("table", {}, el("thead", {}, el("tr", {}, filled(heads))), el("tbody", {}, lines)),
  );
}

// A long value gets the room of two, or the whole line.
const roomFor = (value) => {
  const length = (value.textContent ?? String(value)).length;
  return length > 60 ? "line" : length > 28 ? "two" : null;
};

export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el(
    "dl",
    { class: "facts" },
    known.map(([name, value]) => el("div", { class: roomFor(value) }, el("dt", {}, name), el("dd", {}, value))),
  );
}

// A field of a form: {name, label, kind, options, value, required, ...}
export function field({ name, label, kind = "text", options = [], id = `f-${name}`, ...rest }) {
  if (kind === "checkbox") {
    return el(
      "label",
      { class: "inline" },
      el("input", { type: "checkbox", name, id, ...rest }),
      el("span", {}, label),
    );
  }
  const inner =
    kind === "select"
      ? el(
          "select",
          { id, name },
          options.map(([value, words]) => el("option", { value, selected: value === rest.value }, words)),
        )
      : kind === "long"
        ? el("textarea", { id, name, ...rest }, rest.value ?? null)
        : el("input", { id, name, type: kind, ...rest });
  return el("div", {}, el("label", { for: id }, label), inner);
}

// The drafts of the dialogs that an action has asked with: they end when it was done.
let asked = [];

// Ask in a dialog; null if the person thinks better of it.
export function ask(title, { words = null, fields = [], verb = "Go on", danger = false, isNews = false } = {}) {
  return new Promise((answer) => {
    const form = el(
      "form",
      { method: "dialog" },
      el("h2", {}, title),
      words && el(typeof words === "string" ? "p" : "div", {}, words),
      fields.map(field),
      el(
        "div",
        { class: "acts" },
        el("button", { value: "yes", class: danger ? "danger" : null }, verb),
        !isNews &&
          el("button", { value: "no", class: "quiet", type: "button", onclick: () => box.close("no") }, "Leave it"),
      ),
    );
    const box = el("dialog", { "aria-label": title }, form);
    box.addEventListener("close", () => {
      const given = Object.fromEntries(new FormData(form));
      asked = [...asked, ...fieldsOf(form)];
      box.remove();
      answer(box.returnValue === "yes" ? given : null);
    });
    nameDialog(box);
    document.body.append(box);
    box.showModal();
    restore(box);
  });
}

// Say what became of an action; it goes by itself, an error stays until it is clicked away.
export function say(words, kind = "good") {
  const one = el("div", { class: `callout ${kind}`, role: kind === "error" ? "alert" : "status" }, words);
  const box = document.querySelector("#said");
  for (const old of box.querySelectorAll("[role=status]")) old.remove();
  box.append(one);
  if (kind === "error") one.append(" ", el("button", { class: "icon", onclick: () => one.remove() }, "Close"));
  else setTimeout(() => one.remove(), 6000);
}

// Run an action of a person: its problem is shown where it was asked for, and the view is drawn anew. `act` is the
// address of what it does in the API: nobody who may not do that gets to see it.
export const doing = (run, done, again, act = null) => acting(act, handle(run, done, again));
export const acting = (act, handler) => Object.assign(handler, { act });
const handle = (run, done, again) => async (event) => {
  event?.preventDefault?.();
  const button = event?.submitter ?? event?.currentTarget;
  const typed = event?.type === "submit" ? fieldsOf(event.currentTarget) : [];
  actOn(button);
  asked = [];
  document.querySelector("#said").replaceChildren(); // what was wrong with the try before is no news of this one
  if (button) button.disabled = true;
  try {
    const result = await run(event);
    if (result !== null && !result?.dry_run) drop([...typed, ...asked]);
    if (result !== null) say(typeof done === "function" ? done(result) : done);
  } catch (error) {
    say(error.message, "error");
  } finally {
    if (button) button.disabled = false;
    await again();
  }
};
