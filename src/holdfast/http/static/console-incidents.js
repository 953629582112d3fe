// Incidents: what is wrong, since when, who is hit, what happens next, when it hurts, and what to do.
import { api, el } from "./holdfast.js";
import { ask, count, doing, facts, idCell, link, many, pill, sentence, span, table, text, topicWords, when } from "./parts.js";

export const incidentHref = (one) => `#incident/${encodeURIComponent(one.id)}`;
const topicOf = (one) => topicWords(one.topic).replace(/^./, (letter) => letter.toUpperCase());
const titleOf = (one) => `${topicOf(one)}${one.subject ? `: ${one.subject}` : ""}`;
const lasted = (one) => span((new Date(one.ended_at ?? Date.now()) - new Date(one.began_at)) / 1000);

// The jobs that a notice is about, in the query language.
const quoted = (words) => `"${words.replaceAll('"', "")}"`;
const ofKind = (subject, error = "") => {
  const [kind, stage, name] = subject.split("/");
  return `kind:${quoted(kind)} stage:${quoted(stage)}${error && name ? ` ${error}${quoted(name)}` : ""}`;
};
const BEHIND = {
  provider_down: ({ subject }) => `state:held provider:${quoted(subject)}`,
  no_worker: ({ subject }) => `state:queued queue:${quoted(subject)}`,
  waiting_long: ({ subject }) => `state:queued queue:${quoted(subject)}`,
  undeclared: ({ subject }) => `state:queued ${ofKind(subject)}`,
  jobs_dying: ({ subject }) => `state:dead ${ofKind(subject, "error:")}`,
  deadlines_at_risk: () => "sort:deadline",
};
function jobsOf(system, notice) {
  const words = BEHIND[notice.topic]?.(notice);
  return words ? `#jobs?${new URLSearchParams({ q: words, system })}` : null;
}

// Where a person goes from a notice; the server decides what is one (holdfast.operator.attention).
const PLACES = {
  provider_down: (system, { subject }) => `#breaker/${encodeURIComponent(system)}/${encodeURIComponent(subject)}`,
  provider_untried: (system, notice) => PLACES.provider_down(system, notice),
  letters_open: () => "#dead",
  letters_escalated: () => "#dead",
  letters_of_bugs: () => "#dead",
  jobs_dying: () => "#dead",
  effects_in_doubt: () => "#outbox",
  broker_down: () => "#outbox",
  outbox_lag: () => "#outbox",
  messages_set_aside: () => "#outbox",
  no_worker: () => "#machines",
  paused: () => "#machines",
};
export const placeOf = (system, notice) => PLACES[notice.topic]?.(system, notice) ?? jobsOf(system, notice);
const NAMES = { breaker: "Its breaker", dead: "Dead letters", outbox: "Outbox", machines: "Workers", jobs: "Its jobs" };

// What wakes somebody stands above what can wait.
export const worstFirst = (items) => items.toSorted((one, other) => Number(other.severity === "page") - Number(one.severity === "page"));

// The card of the first screen; it must say all without a click.
export function incidentCard(one, again, title = null) {
  const now = one.now ?? {};
  const isOpen = one.state === "open";
  return el(
    "section",
    { class: `card incident ${isOpen ? one.severity : "past"}`, key: one.id, "aria-label": `Incident ${titleOf(one)}` },
    el(
      "div",
      { class: "head" },
      el("h3", {}, link(incidentHref(one), title ? `${title}: ${titleOf(one)}` : titleOf(one))),
      isOpen ? el("span", { class: `pill ${one.severity === "page" ? "error" : "warn"}` }, one.severity) : pill(one.state),
      el("span", { class: "soft small", title: one.assignee }, one.assignee ? `assigned to ${one.assignee}` : "not acknowledged"),
      el("div", { class: "end" }, acts(one, again)),
    ),
    el("p", {}, isOpen ? null : el("span", { class: "soft" }, "As it was seen last: "), sentence(now.sentence ?? one.sentence)),
    facts([
      ["Since", since(one, now)],
      [one.unit === "job" ? "Who is hit" : "What is hit", whom(one, now)],
      ["What comes next", now.next_at ? el("span", {}, "next trial at ", when(now.next_at)) : ""],
      ["First deadline missed", now.late_at ? el("span", {}, "at ", when(now.late_at)) : ""],
    ]),
    now.to_do ? el("p", { class: "to-do" }, el("strong", {}, "What to do: "), sentence(now.to_do), " ", wayTo(one)) : null,
  );
}

// What came back within a quarter of an hour is the same incident; its card says since when it is there again.
const since = (one, now) =>
  new Date(now.since_at) - new Date(one.began_at) > 60000
    ? el("span", {}, when(now.since_at), ", and first at ", when(one.began_at))
    : el("span", {}, when(one.began_at), ` (${lasted(one)})`);

// Those that wait now; where they have gone on or died, as many as there were.
function whom(one, now) {
  const words = hit(now.number, now.owners, one.unit);
  if (!words) return one.jobs_max > 1 ? `at most ${hit(one.jobs_max, one.owners_max, one.unit)}, none now` : "";
  const place = one.unit === "job" ? jobsOf(one.system, one) : null;
  return place ? link(place, words) : words;
}

function wayTo(one) {
  const place = placeOf(one.system, one);
  return place ? link(place, NAMES[place.match(/\w+/)[0]]) : null;
}

const hit = (number, owners, unit = "job") => (number ? `${many(number)} ${unit}${number === 1 ? "" : "s"}${owners ? ` of ${count(owners, "customer")}` : ""}` : "");

function acts(one, again) {
  const post = (verb, body) => api(`/api/ops/incidents/${one.id}/${verb}`, { method: "POST", body });
  const button = (verb, words, run, said, kind = "quiet") =>
    el("button", { class: kind, onclick: doing(run, said, again, `/api/ops/incidents/{incident_id}/${verb}`) }, words);
  const asked = async (title, field, verb) => {
    const given = await ask(title, { fields: [{ required: true, ...field }], verb });
    return given;
  };
  const list = [];
  if (one.state !== "closed" && !one.acknowledged_at)
    list.push(button("acknowledge", "Acknowledge", () => post("acknowledge"), "It is yours.", null));
  if (one.state !== "closed")
    list.push(
      button("assign", "Assign", async () => {
        const given = await asked("Assign the incident", { name: "assignee", label: "To whom" }, "Assign");
        return given && post("assign", given);
      }, "Assigned."),
    );
  list.push(
    button("comment", "Comment", async () => {
      const given = await asked("Comment on the incident", { name: "text", label: "Comment", kind: "long" }, "Add");
      return given && post("comment", given);
    }, "Added to the timeline."),
  );
  if (one.state === "over")
    list.push(
      button("close", "Close", async () => {
        const label = "What was it, what helped, what is to change?";
        const given = await asked("Close the incident", { name: "summary", label, kind: "long" }, "Close it");
        return given && post("close", given);
      }, "Closed.", null),
    );
  return list;
}

export async function incidents({ query }, again) {
  const { items, next } = await api(`/api/ops/incidents?${query}`);
  const more = new URLSearchParams(query);
  if (next) more.set("next", next);
  const going = items.filter((one) => one.state === "open");
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Incidents"),
    going.length ? worstFirst(going).map((one) => incidentCard(one, again)) : el("p", { class: "callout good" }, "No incident is open."),
    el("h3", {}, "Earlier"),
    table(
      [
        ["What", (row) => link(incidentHref(row), titleOf(row))],
        ["System", "system"],
        ["State", (row) => pill(row.state)],
        ["Began", (row) => when(row.began_at)],
        ["Lasted", lasted],
        ["Hit at most", (row) => hit(row.jobs_max, row.owners_max, row.unit)],
        ["Assigned to", (row) => text(row.assignee)],
        ["Summary", (row) => text(row.summary)],
      ],
      items.filter((one) => one.state !== "open"),
      (row) => row.id,
      "No earlier incident.",
    ),
    next ? el("p", {}, link(`#incidents?${more}`, "Older")) : null,
  );
}

const ROLES = { held: "waited", dead: "died", late: "missed their deadline" };

export async function incident({ parts: [id] }, again) {
  const one = await api(`/api/ops/incidents/${encodeURIComponent(id)}`);
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, `Incident: ${titleOf(one)}`),
    incidentCard(one, again),
    one.summary ? el("p", { class: "callout" }, one.summary) : null,
    facts([
      ["State", pill(one.state)],
      ["Over", when(one.ended_at)],
      ["Closed", when(one.closed_at)],
      ["Acknowledged", one.acknowledged_by ? el("span", {}, when(one.acknowledged_at), ` by ${one.acknowledged_by}`) : ""],
      ["Whom it hit", one.hit.map((row) => `${hit(row.jobs, row.owners)} ${ROLES[row.role]}`).join("; ")],
      ["Keep it", el("button", { class: "quiet", onclick: () => postMortem(one) }, "Post-mortem as Markdown")],
    ]),
    el("h3", {}, "Timeline"),
    el(
      "ol",
      { class: "story" },
      one.timeline.map((line) =>
        el("li", {}, when(line.at), " ", el("strong", {}, `${line.who ? `${line.who} ` : ""}${line.what}`), line.text ? [": ", sentence(line.text)] : ""),
      ),
    ),
    el("h3", {}, "Jobs"),
    table(
      [
        ["Job", idCell(one.jobs, "job", "job_id")],
        ["Kind", (row) => text(row.kind)],
        ["Whose", (row) => text(row.owner)],
        ["What became of it", (row) => el("span", {}, ROLES[row.role], " ", row.state ? pill(row.state) : "")],
        ["Dead letter", (row) => (row.letter_id ? link(`#letter/${encodeURIComponent(row.letter_id)}`, text(row.error_class)) : "")],
      ],
      one.jobs,
      (row) => row.job_id,
      "No job of it was noted.",
    ),
  );
}

async function postMortem(one) {
  const page = await api(`/api/ops/incidents/${one.id}/post-mortem`);
  await ask("Post-mortem", { words: el("pre", {}, page), verb: "Close", isNews: true });
}
