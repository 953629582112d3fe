// The grading service, where it is another process: its breakers, dead letters and jobs, through the main app's API.
import { api, el } from "../holdfast.js";
import { ask, count, doing, errorOf, facts, link, pill, pretty, short, table, text, when } from "../parts.js";
import { EDITABLE, differences } from "../console-letter.js";
import { CAUSES } from "../console-letters.js";

const ofService = (path, body) => api(`/api/ops/service/${path}`, body === undefined ? {} : { method: "POST", body });
const jobHref = (id) => `#service/jobs/${id}`;

export async function service({ parts: [noun, id] }, again) {
  return noun === "jobs" && id ? job(id) : lists(again);
}

async function lists(again) {
  const [breakers, letters, jobs] = await Promise.all([
    ofService("breakers"),
    ofService("dead-letters?limit=50"),
    ofService("jobs?limit=50"),
  ]);
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Grading service"),
    el("p", { class: "soft" }, "As the service itself tells it. What you do here is done there, under your name."),
    el("h3", {}, "Breakers"),
    table(
      [
        ["Provider", "name"],
        ["Gate", (row) => pill(row.gate)],
        ["Last calls", (row) => `${row.failures_in_window} of ${count(row.calls_in_window, "call")} failed`],
        ["Jobs held", "parked"],
        ["Why", "reason"],
        ["", (row) => breakerButton(row, again)],
      ],
      breakers.items,
      (row) => row.name,
    ),
    el("h3", {}, "Dead letters"),
    table(
      [
        ["Letter", (row) => el("code", {}, row.id)],
        ["State", (row) => pill(row.state)],
        ["Stage", "stage"],
        ["Error", "error_class"],
        ["Last error", (row) => short(text(row.last_error))],
        ["Died", (row) => when(row.last_failure_at)],
        ["Job", (row) => link(jobHref(row.job_id), "its story")],
        ["", (row) => [stepButton(row, again), correctButton(row, again)]],
      ],
      letters.items,
      (row) => row.id,
      "No dead letters. Nothing was lost.",
    ),
    el("h3", {}, "Jobs"),
    table(
      [
        ["Job", (row) => link(jobHref(row.id), el("code", {}, row.id))],
        ["State", (row) => pill(row.state)],
        ["Stage", "stage"],
        ["Attempt", "attempt"],
        ["Created", (row) => when(row.created_at)],
      ],
      jobs.items,
      (row) => row.id,
      "It has no jobs.",
    ),
  );
}

async function job(id) {
  const row = await ofService(`jobs/${encodeURIComponent(id)}`);
  return el(
    "div",
    {},
    el("div", { class: "head" }, el("h2", { tabindex: "-1" }, "Job of the grading service"), pill(row.state)),
    el("p", { class: "callout" }, row.why),
    facts([
      ["Job", el("code", {}, row.id)],
      ["Stage", row.stage],
      ["Attempt", text(row.attempt)],
      ["Created", when(row.created_at)],
      ["Error", errorOf(row.error)],
    ]),
    el("h3", {}, "What happened"),
    table(
      [
        ["When", (event) => when(event.at)],
        ["What", (event) => pill(event.type)],
        ["Stage", "stage"],
        ["Data", (event) => short(text(event.data))],
      ],
      row.events,
    ),
    el("p", {}, link("#service", "All of the grading service")),
  );
}

function breakerButton(row, again) {
  const verb = row.gate === "closed" ? "open" : "close";
  const title = verb === "open" ? "Open" : "Close";
  const run = async () => {
    const fields = [{ name: "reason", label: "Why", required: true }];
    const given = await ask(`${title} the breaker of ${row.name}?`, {
      fields,
      verb: `${title} it`,
      danger: verb === "open",
    });
    return given && ofService(`breakers/${encodeURIComponent(row.name)}/${verb}`, given);
  };
  const done = `The breaker of ${row.name} is ${verb === "open" ? "open" : "closed"}.`;
  return el("button", { class: verb === "open" ? "danger" : null, onclick: doing(run, done, again, "/api/ops/service/breakers/{name}/{verb}") }, title);
}

// What may be done about a letter next, and what has to be said for it.
const CAUSE = { name: "cause", label: "Cause", kind: "select", options: CAUSES };
const EVIDENCE = { name: "evidence", label: "What was fixed, and how that is known", required: true };
const STEPS = {
  open: ["triage", "Triage", [CAUSE]],
  escalated: ["triage", "Triage", [CAUSE]],
  triaged: ["remediate", "Remediate", [EVIDENCE]],
  remediated: ["replay", "Replay", []],
  replayed: ["resolve", "Resolve", [{ name: "notes", label: "How it ended" }]],
};

function stepButton(row, again) {
  if (!STEPS[row.state]) return null;
  const [step, title, fields] = STEPS[row.state];
  const run = async () => {
    const given = await ask(`${title} this letter?`, { fields, verb: title });
    return given && ofService(`dead-letters/${row.id}/${step}`, given);
  };
  return el("button", { class: "quiet", onclick: doing(run, `Done: ${step}.`, again, `/api/ops/service/dead-letters/{case_id}/${step}`) }, title);
}

// Correct the input of a letter's job: the difference is looked at before anything is written.
function correctButton(row, again) {
  if (!EDITABLE.includes(row.state)) return null;
  const path = `dead-letters/${row.id}`;
  const run = async () => {
    const whole = await ofService(path);
    const fields = [
      { name: "input", label: "The input; masked values stay as they are", kind: "long", rows: "12", value: pretty(whole.input) },
      { name: "reason", label: "Why it is corrected" },
    ];
    const given = await ask("Correct the input", { fields, verb: "Show the difference" });
    if (!given) return null;
    const body = { input: JSON.parse(given.input), reason: given.reason || null };
    const seen = await ofService(`${path}/correct`, { ...body, dry_run: true });
    const words = [differences(seen.changes), el("p", {}, seen.replay_reason)];
    return (await ask("Correct it so?", { words, verb: "Correct it" })) && ofService(`${path}/correct`, body);
  };
  return el("button", { class: "quiet", onclick: doing(run, "The input is corrected.", again, "/api/ops/service/dead-letters/{case_id}/correct") }, "Correct");
}
