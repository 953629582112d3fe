// Grading for operators: submissions by how they stand, one with all that came for it, and the dead-letter queue.
import { api, el, uuid } from "../holdfast.js";
import { ago, ask, doing, facts, field, link, pill, pretty, short, table, text, when } from "../parts.js";

const STATUSES = ["", "PENDING", "PROCESSING", "REVIEW_REQUIRED", "COMPLETED", "FAILED"].map((one) => [
  one,
  one ? one.replaceAll("_", " ").toLowerCase() : "any",
]);
const ONLY = [
  ["", "all"],
  ["late", "with a late result"],
  ["flagged", "flagged for audit"],
];

export async function submissions({ query }, again) {
  const status = query.get("status") ?? "";
  const only = query.get("only") ?? "";
  const cursor = query.get("cursor") ?? "";
  const asked = new URLSearchParams({ limit: "50" });
  if (status) asked.set("status", status);
  if (only) asked.set(only, "true");
  if (cursor) asked.set("cursor", cursor);
  const page = await orNothing(api(`/api/ops/submissions?${asked}`));
  if (page === null) return elsewhere("Submissions");
  const refused = await api("/api/ops/refused-callbacks?limit=20");
  const go = (change) => {
    location.hash = `submissions?${new URLSearchParams({ status, only, ...change })}`;
  };
  return el(
    "div",
    {},
    el(
      "div",
      { class: "head" },
      el("h2", { tabindex: "-1" }, "Submissions"),
      el(
        "div",
        { class: "end" },
        chooser("status", "Status", STATUSES, status, (value) => go({ status: value })),
        chooser("only", "Show", ONLY, only, (value) => go({ only: value })),
      ),
    ),
    el("p", {}, link("#service", "Grading service"), ": its breakers, dead letters and jobs, where it runs apart."),
    table(
      [
        ["Submission", (row) => link(`#submission/${row.id}`, el("code", {}, row.id))],
        ["Learner", "userId"],
        ["Skill", "skill"],
        ["Attempt", "attempt"],
        ["Status", (row) => pill(row.status)],
        ["Why", "failureReason"],
        ["Marks", (row) => [row.isLate ? pill("late") : null, row.auditFlag ? pill("audit") : null]],
        ["Score", (row) => text((row.finalResult ?? row.aiResult)?.overallScore)],
        ["Came", (row) => ago(row.createdAt)],
        ["", (row) => resubmitButton(row, again)],
      ],
      page.items,
      (row) => row.id,
      "None.",
    ),
    page.nextCursor ? el("p", {}, link(`#submissions?${next(status, only, page.nextCursor)}`, "Older ones")) : null,
    refusedCallbacks(refused.items),
  );
}

// What came as a callback and was none. Most of it names nobody's submission, so that no other page shows it.
const refusedCallbacks = (rows) =>
  rows.length
    ? el(
        "section",
        {},
        el("h3", {}, "Refused callbacks"),
        table(
          [
            ["Why", "reason"],
            ["Request", (row) => el("code", {}, text(row.requestId))],
            ["Submission", (row) => el("code", {}, text(row.submissionId))],
            ["Times", "times"],
            ["Last", (row) => when(row.lastAt)],
          ],
          rows,
          (row) => row.fingerprint,
        ),
      )
    : null;

export async function submission({ parts }, again) {
  const [id] = parts;
  const one = await api(`/api/ops/submissions/${encodeURIComponent(id)}`);
  const json = (title, value) => (value ? [el("h3", {}, title), el("pre", {}, pretty(value))] : null);
  return el(
    "div",
    {},
    el(
      "div",
      { class: "head" },
      el("h2", { tabindex: "-1" }, "Submission ", el("code", {}, one.id)),
      pill(one.status),
      el("div", { class: "end" }, resubmitButton(one, again)),
    ),
    facts([
      ["Learner", one.userId],
      ["Request", el("code", {}, one.requestId)],
      ["Attempt", String(one.attempt)],
      ["Why it failed", one.failureReason],
      ["Deadline", when(one.deadlineAt)],
      ["Late result", one.isLate ? "yes" : null],
      ["Flagged for audit", one.auditFlag ? "yes" : null],
      ["Reviewed by", one.reviewedBy],
    ]),
    json("Final result", one.finalResult),
    json(one.isLate ? "The AI's result, which came too late" : "The AI's result", one.aiResult),
    json("The instructor's result", one.humanResult),
    el("h3", {}, "Earlier attempts"),
    table(
      [
        ["Attempt", "attempt"],
        ["Request", (row) => el("code", {}, row.requestId)],
        ["Why it failed", "failureReason"],
        ["Ended", (row) => when(row.finishedAt)],
        ["Submitted again by", "supersededBy"],
        ["What came for it", (row) => (row.aiResult ? short(text(row.aiResult)) : "")],
      ],
      one.attempts,
      (row) => row.requestId,
      "This is the first.",
    ),
    el("h3", {}, "Callbacks"),
    table(
      [
        ["Kind", "kind"],
        ["Outcome", (row) => pill(row.outcome)],
        ["Request", (row) => el("code", {}, row.requestId)],
        ["Came", (row) => when(row.processedAt)],
      ],
      one.callbacks,
      (row) => row.eventId,
      "None has come.",
    ),
    refusedCallbacks(one.refusedCallbacks),
  );
}

export async function letterQueue(_, again) {
  const page = await orNothing(api("/api/ops/dlq?limit=200"));
  if (page === null) return elsewhere("Dead-letter queue");
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Dead-letter queue"),
    el(
      "p",
      { class: "soft" },
      "What lies in grading.dlq, the oldest first. Looking takes nothing away; sending again and archiving do.",
    ),
    table(
      [
        ["Request", (row) => el("code", {}, text(row.requestId))],
        ["Submission", (row) => (row.submissionId ? link(`#submission/${row.submissionId}`, row.submissionId) : "")],
        ["Why", (row) => `${row.failureReason}: ${short(text(row.lastError))}`],
        ["Tries", "attemptsMade"],
        ["When", (row) => (row.timestamp ? ago(row.timestamp) : "")],
        ["State", (row) => pill(row.state)],
        ["", (row) => acts(row, again)],
      ],
      page.items,
      (row) => row.id,
      "The queue is empty.",
    ),
  );
}

function acts(row, again) {
  const act = (verb, title, done) =>
    doing(
      async () => {
        const fields = [{ name: "reason", label: "Why (for the audit)", required: true }];
        const given = await ask(title, { fields, verb: title });
        return given && api(`/api/ops/dlq/${row.id}/${verb}`, { method: "POST", body: given });
      },
      done,
      again,
      `/api/ops/dlq/{letter_id}/${verb}`,
    );
  const look = doing(
    async () => {
      const whole = await api(`/api/ops/dlq/${row.id}`);
      await ask("The letter", { words: el("pre", {}, pretty(whole.originalMessage)), verb: "Close", isNews: true });
      return null;
    },
    null,
    () => {},
  );
  return [
    el("button", { class: "quiet", onclick: look }, "Show"),
    row.state === "open"
      ? el("button", { onclick: act("resend", "Send again", "Its request is on its way again.") }, "Send again")
      : null,
    el("button", { class: "quiet", onclick: act("archive", "Archive", "It is archived.") }, "Archive"),
  ];
}

function resubmitButton(row, again) {
  if (row.status !== "FAILED") return null;
  const run = async () => {
    const words = "It becomes the next attempt, with a new request and a new deadline.";
    if (!(await ask("Submit again", { words, verb: "Submit again" }))) return null;
    const headers = { "Idempotency-Key": uuid() };
    return api(`/api/ops/submissions/${row.id}/resubmit`, { method: "POST", headers });
  };
  return el("button", { class: "quiet", onclick: doing(run, "The next attempt has begun.", again, "/api/ops/submissions/{submission_id}/resubmit") }, "Submit again");
}

function chooser(name, label, options, value, choose) {
  const made = field({ name, label, kind: "select", options, value });
  made.querySelector("select").onchange = (event) => choose(event.target.value);
  return made;
}

const next = (status, only, cursor) => new URLSearchParams({ status, only, cursor });

// Grading's main app may run elsewhere: then these routes are not here.
async function orNothing(asked) {
  try {
    return await asked;
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

const elsewhere = (title) =>
  el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, title),
    el("p", { class: "callout" }, "The main app of grading does not run in this process."),
  );
