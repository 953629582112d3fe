// One job with its whole story: why it is where it is, its life on a time axis, and everything that was written down.
import { api, el } from "./holdfast.js";
import { ask, count, doing, facts, field, idCell, letterTitle, link, money, pill, pretty, sentence, short, span, table, text, when } from "./parts.js";
import { PRIORITIES } from "./console-bulk.js";
import { EDITABLE, ways } from "./console-letter.js";
import { waterfall } from "./waterfall.js";

export async function job({ parts: [id] }, again) {
  const one = await api(`/api/ops/jobs/${encodeURIComponent(id)}`);
  return el(
    "div",
    { "data-tab": `${one.kind} ${one.id.slice(0, 8)} ${one.parked ? "held" : one.state}` },
    el(
      "div",
      { class: "head" },
      el("h2", { tabindex: "-1" }, one.kind),
      pill(one.parked ? (one.hold === "pause" ? "paused" : "held") : one.state),
      el("div", { class: "end" }, copies(one), actions(one, again)),
    ),
    el("p", { class: `callout ${tone(one)}` }, el("strong", {}, "Why it is here: "), sentence(one.why)),
    facts([
      ["Job", el("code", {}, one.id)],
      ["Spawned by", one.parent ? link(`#job/${one.parent}`, el("code", {}, one.parent)) : null],
      ["System", one.system],
      ["Stage", one.stage],
      ["Attempt", text(one.attempt)],
      ["Failures in this stage", one.failures || null],
      ["Lost workers in this stage", one.crashes || null],
      ["Owner", one.owner],
      ["Key", one.job_key],
      ["Trace", one.trace],
      ["Accepted", when(one.created_at)],
      ["Deadline", when(one.deadline_at)],
      ["Spent", `${money(one.cost_micros)} in ${count(one.calls.length, "call")}`],
    ]),
    one.dead_letter ? deadLetter(one.dead_letter, again) : null,
    answerForm(one, again),
    el("section", { class: "card" }, el("h3", {}, "Waterfall"), waterfall(one)),
    children(one),
    logs(one),
    el("details", {}, el("summary", {}, "Timeline in words"), timeline(one)),
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

// What each attempt logged, as its worker wrote it down with the attempt's end.
function logs(one) {
  if (!one.logs.length) return null;
  const book = ({ attempt, number, lines }) =>
    el(
      "details",
      { key: `log/${attempt}`, open: one.logs.length === 1 },
      el("summary", {}, `Attempt ${attempt}: ${count(number, "line")}${number > lines.length ? `, the first ${lines.length} kept` : ""}`),
      el("pre", {}, lines.map(([at, level, name, words]) => `${at.slice(11, 23)} ${level} ${name}: ${words}`).join("\n")),
    );
  return el("section", { "aria-label": "Logs" }, el("h3", {}, "Logs"), one.logs.map(book));
}

function actions(one, again) {
  const post = (verb, body) => api(`/api/ops/jobs/${one.id}/${verb}`, { method: "POST", body });
  const remove = async () => {
    const sure = await ask("Delete this job?", { words: "It goes with its history; what was sent stays in the ledger.", verb: "Delete the job", danger: true });
    if (sure) await post("delete");
    if (sure) location.hash = "jobs";
    return sure;
  };
  if (!["queued", "processing", "waiting"].includes(one.state)) {
    return el("button", { class: "danger", onclick: doing(remove, "The job is deleted.", again, "/api/ops/jobs/{job_id}/delete") }, "Delete");
  }
  const reorder = async () => {
    const given = await ask("Another priority", { fields: [{ name: "priority", label: "Priority", kind: "select", options: PRIORITIES, value: String(one.priority) }], verb: "Set it" });
    return given && post("priority", { priority: Number(given.priority) });
  };
  const waits = one.state === "queued" && new Date(one.run_at) > new Date(one.now);
  const cancel = async () => {
    const sure = await ask("Cancel this job?", {
      words: "It ends at once. A worker that runs it can write nothing more.",
      verb: "Cancel the job",
      danger: true,
    });
    return sure && api(`/api/ops/jobs/${one.id}/cancel`, { method: "POST" });
  };
  return [
    waits ? el("button", { class: "quiet", onclick: doing(() => post("run-now"), "The job is due.", again, "/api/ops/jobs/{job_id}/run-now") }, "Run now") : null,
    el("button", { class: "quiet", onclick: doing(reorder, "The job has another priority.", again, "/api/ops/jobs/{job_id}/priority") }, "Priority"),
    el("button", { class: "danger", onclick: doing(cancel, "The job is cancelled.", again, "/api/ops/jobs/{job_id}/cancel") }, "Cancel"),
  ];
}

// A job that waits for somebody outside is told what it waits for, as JSON.
function answerForm(one, again) {
  if (one.state !== "waiting" || one.wait_key.startsWith("join:")) return null;
  const run = (event) => {
    let value;
    try {
      value = JSON.parse(event.currentTarget.elements.answer.value);
    } catch (error) {
      throw new Error(`The answer is not JSON: ${error.message}`);
    }
    return api(`/api/ops/jobs/${one.id}/answer`, { method: "POST", body: { value } });
  };
  return el(
    "form",
    { class: "card", onsubmit: doing(run, "The job has its answer.", again, "/api/ops/jobs/{job_id}/answer"), "aria-label": "Answer" },
    el("p", {}, "It waits for an answer under the key ", el("code", {}, one.wait_key), "."),
    field({ name: "answer", label: "The answer, as JSON", kind: "long", required: true, placeholder: '{"approved": true}' }),
    el("button", {}, "Answer it"),
  );
}

function children(one) {
  if (!one.children.length) return null;
  const sizes = one.joins.map((join) => `${join.size - join.unended} of ${join.size} ended`).join("; ");
  return el(
    "section",
    {},
    el("h3", {}, `Children: ${sizes}`),
    table(
      [
        ["Job", idCell(one.children, "job")],
        ["State", (row) => pill(row.state)],
        ["Kind", "kind"],
        ["Stage", "stage"],
        ["Took", (row) => (row.finished_at ? span((new Date(row.finished_at) - new Date(row.created_at)) / 1000) : "")],
      ],
      one.children,
      (row) => row.id,
    ),
  );
}

// A browser lends its clipboard only to a safe address; elsewhere the words are shown, to be copied by hand.
async function copy(words, what) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(words);
    return what;
  }
  const box = { name: "copy", label: what, kind: "long", value: words, readonly: true };
  return (await ask("Copy", { fields: [box], verb: "Close", isNews: true })) && what;
}

function copies(one) {
  const still = async () => {};
  const button = (title, words, what) =>
    el("button", { class: "quiet", onclick: doing(() => copy(words(), what), `${what} copied.`, still) }, title);
  return [
    button("Copy link", () => location.href, "The link is"),
    button("Copy as JSON", () => JSON.stringify(one, null, 2), "The job is"),
  ];
}

// Red as long as somebody has to work on it; what was replayed is only to be looked at and closed.
function deadLetter(one, again) {
  const isOpen = EDITABLE.includes(one.state);
  return el(
    "div",
    { class: isOpen ? "callout error" : "callout" },
    el("strong", {}, "Dead letter: "),
    `${letterTitle(one)}, `,
    pill(one.state),
    " ",
    link(`#letter/${one.id}`, isOpen ? "Work on it" : one.state === "resolved" ? "See it" : "See how it ended, and close it"),
    el("div", { class: "acts" }, ways(one, again)),
  );
}

const WORDS = {
  created: () => "Accepted",
  claimed: (data, event) => `Attempt ${event.attempt} began`,
  advanced: (data) => `Stage done; next is ${data.stage}`,
  rewound: (data) => `Back to ${data.stage}, which the code has before it`,
  retried: (data) =>
    `Failed: ${data.error_class}: ${data.message}; again at ${new Date(data.run_at).toLocaleTimeString([], { hourCycle: "h23" })}`,
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
