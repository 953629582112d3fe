// Jobs: a list with filters that live in the address, and one job with its whole story.
import { api, el } from "./holdfast.js";
import {
  ask,
  count,
  doing,
  errorOf,
  facts,
  field,
  link,
  money,
  pill,
  pretty,
  short,
  span,
  table,
  text,
  when,
} from "./parts.js";

const STATES = ["queued", "processing", "waiting", "succeeded", "dead", "cancelled"];
const FILTERS = ["system", "state", "kind", "stage", "provider", "owner", "queue"];

export async function jobs({ query }) {
  const here = location.hash;
  const [{ items, next }, { items: systems }] = await Promise.all([
    api(`/api/ops/jobs?${query}`),
    api("/api/ops/overview"),
  ]);
  const wanted = query.get("q");
  if (wanted && !query.get("next") && items.length === 1) {
    if (location.hash === here) location.replace(`#job/${items[0].id}`);
    return null;
  }
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, wanted ? `Jobs that fit ${wanted}` : "Jobs"),
    queryForm(wanted ?? ""),
    wanted ? el("p", {}, link("#jobs", "All jobs")) : filterForm(query, systems),
    table(
      COLUMNS,
      items,
      (row) => row.id,
      wanted ? "No job here fits this." : "No job fits these filters.",
    ),
    el(
      "div",
      { class: "acts" },
      query.get("next") ? link(`#jobs?${turned(query, null)}`, "Newest") : null,
      next ? link(`#jobs?${turned(query, next)}`, "Older") : null,
    ),
  );
}

const COLUMNS = [
  ["Job", (row) => link(`#job/${row.id}`, el("code", {}, row.id))],
  ["State", (row) => el("span", {}, pill(row.state), row.parked ? " held" : "")],
  ["System", "system"],
  ["Kind", "kind"],
  ["Stage", "stage"],
  ["Failures", "failures"],
  ["Owner", "owner"],
  ["Updated", (row) => when(row.updated_at)],
  ["Error", (row) => short(errorOf(row.error))],
];

function turned(query, next) {
  const other = new URLSearchParams(query);
  if (next) other.set("next", next);
  else other.delete("next");
  return other;
}

const EXAMPLE = 'state:held provider:llm owner:carla age:>10m error:422 input.order_id:7 "some text"';

function queryForm(wanted) {
  const submit = (event) => {
    event.preventDefault();
    const value = event.currentTarget.elements.q.value.trim();
    location.hash = value ? `jobs?${new URLSearchParams({ q: value })}` : "jobs";
  };
  return el(
    "form",
    { class: "row", onsubmit: submit, role: "search", "aria-label": "Query jobs" },
    field({ name: "q", id: "query", label: "Query", value: wanted, placeholder: EXAMPLE, size: "70", spellcheck: "false" }),
    el("button", {}, "Find"),
  );
}

function filterForm(query, systems) {
  const options = (words, values) => [["", words], ...values.map((value) => [value, value])];
  const given = (name) => query.get(name) ?? "";
  const submit = (event) => {
    event.preventDefault();
    const values = FILTERS.map((name) => [name, event.currentTarget.elements[name].value.trim()]);
    location.hash = `jobs?${new URLSearchParams(values.filter(([, value]) => value))}`;
  };
  return el(
    "form",
    { class: "row", onsubmit: submit, role: "search", "aria-label": "Filter jobs" },
    field({
      name: "system",
      label: "System",
      kind: "select",
      options: options(
        "every system",
        systems.map((one) => one.system),
      ),
      value: given("system"),
    }),
    field({
      name: "state",
      label: "State",
      kind: "select",
      options: options("every state", STATES),
      value: given("state"),
    }),
    FILTERS.slice(2).map((name) => field({ name, label: name[0].toUpperCase() + name.slice(1), value: given(name) })),
    el("button", {}, "Filter"),
  );
}

// One job

export async function job({ parts: [id] }, again) {
  const one = await api(`/api/ops/jobs/${encodeURIComponent(id)}`);
  return el(
    "div",
    {},
    el(
      "div",
      { class: "head" },
      el("h2", { tabindex: "-1" }, one.kind),
      pill(one.state),
      one.parked ? pill("held") : null,
      el("div", { class: "end" }, actions(one, again)),
    ),
    el("p", { class: `callout ${tone(one)}` }, el("strong", {}, "Why it is here: "), one.why),
    facts([
      ["Job", el("code", {}, one.id)],
      ["System", one.system],
      ["Stage", one.stage],
      ["Attempt", text(one.attempt)],
      ["Failures in this stage", text(one.failures)],
      ["Lost workers", text(one.crashes)],
      ["Owner", one.owner],
      ["Key", one.job_key],
      ["Trace", one.trace],
      ["Accepted", when(one.created_at)],
      ["Deadline", when(one.deadline_at)],
      ["Spent", `${money(one.cost_micros)} in ${count(one.calls.length, "call")}`],
    ]),
    one.dead_letter ? deadLetter(one.dead_letter) : null,
    el("h3", {}, "Timeline"),
    timeline(one),
    part("Attempts", attempts(one), [
      ["Attempt", "attempt"],
      ["Stage", "stage"],
      ["Began", (row) => when(row.began)],
      ["Took", (row) => row.took],
      ["How it ended", (row) => row.ended],
      ["Calls", (row) => text(row.calls)],
      ["Cost", (row) => money(row.cost)],
    ]),
    part("Stages done", one.results, [
      ["Stage", "stage"],
      ["Attempt", "attempt"],
      ["When", (row) => when(row.at)],
      ["Late", (row) => (row.is_late ? "yes, kept aside" : "")],
      ["Result", (row) => details(row.value)],
    ]),
    part("Provider calls", one.calls, [
      ["Provider", "provider"],
      ["Stage", "stage"],
      ["Attempt", "attempt"],
      ["Outcome", (row) => pill(row.outcome)],
      ["Status", "status"],
      ["Error", "error_class"],
      ["Took", (row) => span(row.duration_ms / 1000)],
      ["Cost", (row) => money(row.cost_micros)],
      ["Units", (row) => text(row.units)],
    ]),
    part("External effects", one.effects, [
      ["Key", (row) => el("code", {}, row.key)],
      ["Provider", "provider"],
      ["Status", (row) => pill(row.status)],
      ["Sends", "sends"],
      ["Provider's id", "provider_id"],
      ["Error", "error"],
    ]),
    part("Messages", one.outbox, [
      ["To", "destination"],
      ["Type", "message_type"],
      ["Status", (row) => pill(row.status)],
      ["Written", (row) => when(row.created_at)],
      ["Published", (row) => when(row.processed_at)],
      ["Error", "error_message"],
    ]),
    part("By hand", one.audit, [
      ["When", (row) => when(row.at)],
      ["Who", "actor"],
      ["What", "action"],
    ]),
    el("h3", {}, "Input"),
    el("pre", {}, pretty(one.payload)),
  );
}

const tone = (one) =>
  ({ succeeded: "good", dead: "error", cancelled: "warn" })[one.state] ?? (one.parked ? "warn" : "");
const part = (title, rows, columns) =>
  rows?.length ? el("section", {}, el("h3", {}, title), table(columns, rows)) : null;
function details(value) {
  const words = text(value);
  return words.length < 120
    ? words
    : el("details", {}, el("summary", {}, short(words, 80)), el("pre", {}, pretty(value).slice(0, 20000)));
}

function actions(one, again) {
  if (!["queued", "processing", "waiting"].includes(one.state)) return null;
  const cancel = async () => {
    const sure = await ask("Cancel this job?", {
      words: "It ends at once. A worker that runs it can write nothing more.",
      verb: "Cancel the job",
      danger: true,
    });
    return sure && api(`/api/ops/jobs/${one.id}/cancel`, { method: "POST" });
  };
  return el("button", { class: "danger", onclick: doing(cancel, "The job is cancelled.", again) }, "Cancel");
}

function deadLetter(one) {
  return el(
    "p",
    { class: "callout error" },
    el("strong", {}, "Dead letter: "),
    `${one.error_class} in ${one.stage}, `,
    pill(one.state),
    " ",
    link(`#letter/${one.id}`, "Work on it"),
  );
}

const WORDS = {
  created: () => "Accepted",
  claimed: (data, event) => `Attempt ${event.attempt} began`,
  advanced: (data) => `Stage done; next is ${data.stage}`,
  rewound: (data) => `Back to ${data.stage}, which the code has before it`,
  rewound: (data) => `Back to ${data.stage}, which the code has before it`,
  retried: (data) =>
    `Failed: ${data.error_class}: ${data.message}; again at ${new Date(data.run_at).toLocaleTimeString()}`,
  parked: () => "Held: its provider's breaker is not closed",
  held: (data) => `Put back at no cost: ${data.note ?? "its provider is not called at present"}`,
  lost: () => "Its worker was lost",
  snoozed: (data) => `Asked to be run later: ${data.note ?? ""}`,
  released: () => "Given back by a worker that stops",
  buried: (data) => `Died (${data.reason}): ${data.error_class}: ${data.message}`,
  expired: () => "Its deadline passed",
  cancelled: (data) => `Cancelled ${data.note ?? ""}`,
  succeeded: () => "Succeeded",
  taken_back: (data) => `Taken back: its effect ${data.effect} did not happen`,
  replayed: (data) => `Replayed from ${data.stage}${data.full ? ", from the start" : ""}`,
  stale: () => "An answer of an old attempt came and was refused",
};
const TONES = {
  succeeded: "good",
  retried: "warn",
  lost: "warn",
  held: "warn",
  parked: "warn",
  buried: "error",
  expired: "error",
  cancelled: "warn",
};

function timeline(one) {
  const lines = [
    ...one.events.map((event) => [
      event.at,
      "job",
      (WORDS[event.type] ?? (() => `${event.type} ${text(event.data)}`))(event.data ?? {}, event),
      TONES[event.type],
    ]),
    ...one.calls.map((call) => [
      call.started_at,
      "call",
      `${call.provider} called in ${call.stage}: ${call.outcome}${call.error_class ? `, ${call.error_class}` : ""}, ${span(call.duration_ms / 1000)}, cost ${money(call.cost_micros)}`,
      call.outcome === "ok" ? "" : "warn",
    ]),
    ...one.effects
      .filter((effect) => effect.first_sent_at)
      .map((effect) => [
        effect.last_sent_at,
        "effect",
        `${effect.key} sent through ${effect.provider}, ${count(effect.sends, "send")}`,
        "",
      ]),
    ...one.effects
      .filter((effect) => effect.marked_at)
      .map((effect) => [
        effect.marked_at,
        "effect",
        `${effect.key} is known to have happened: ${effect.provider_id ?? "by a person's word"}`,
        "good",
      ]),
    ...one.outbox.map((message) => [
      message.processed_at ?? message.created_at,
      "message",
      `${message.message_type} to ${message.destination}: ${message.status}${message.error_message ? `, ${message.error_message}` : ""}`,
      message.status === "failed" ? "error" : "",
    ]),
    ...one.audit.map((act) => [act.at, "person", `${act.actor}: ${act.action}`, ""]),
  ];
  const order = ["job", "call", "effect", "message", "person"];
  lines.sort((a, b) => a[0].localeCompare(b[0]) || order.indexOf(a[1]) - order.indexOf(b[1]));
  return el(
    "ol",
    { class: "story" },
    lines.map(([at, tag, words, kind]) =>
      el("li", { class: kind }, when(at), el("span", { class: "tag" }, tag), words),
    ),
  );
}

function attempts(one) {
  const made = new Map();
  for (const event of one.events) {
    if (event.type === "claimed")
      made.set(event.attempt, { attempt: event.attempt, began: event.at, ended: "under way", took: "" });
    const known = made.get(event.attempt);
    if (!known || ["claimed", "progress", "stale"].includes(event.type) || known.over) continue;
    Object.assign(known, {
      over: true,
      ended: pill(event.type),
      took: span((new Date(event.at) - new Date(known.began)) / 1000),
    });
  }
  for (const row of made.values()) {
    const calls = one.calls.filter((call) => call.attempt === row.attempt);
    const known = calls[0] ?? one.results.find((result) => result.attempt === row.attempt);
    Object.assign(row, {
      calls: calls.length,
      cost: calls.reduce((sum, call) => sum + call.cost_micros, 0),
      stage: known?.stage ?? (row.attempt === one.attempt ? one.stage : ""),
    });
  }
  return [...made.values()];
}
