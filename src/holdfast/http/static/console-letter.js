// One dead letter: its five steps are the page. What is done shows who did it; what is next has its form.
import { api, el } from "./holdfast.js";
import { mendDialog } from "./mend.js";
import { ADVICE, CAUSES } from "./console-letters.js";
import { acting, ask, context, count, doing, facts, field, letterTitle, likelyCause, link, noted, pill, pretty, sentence, table, text, when } from "./parts.js";

const REASONS = {
  permanent: "no retry can fix it",
  exhausted: "its attempts are used up",
  no_time: "the next try could only have come after its deadline",
  deadline: "its deadline passed",
  taken_back: "it had succeeded, but an effect of it did not happen",
  poison: "it lost three workers",
  discarded: "it was given up on purpose",
};
const AT = { open: 0, escalated: 0, triaged: 1, remediated: 2, replayed: 4, resolved: 5 };

export const EDITABLE = ["open", "escalated", "triaged", "remediated"];

// The difference that a person has looked at, by letter, with the words that it was made from.
const previews = new Map();

// What a person has confirmed of the validation, by letter and replay; it is asked for anew after another death.
const confirmed = new Set();

export async function letter({ parts: [id] }, again) {
  const one = await api(`/api/ops/dead-letters/${encodeURIComponent(id)}`);
  const [job, { items: gates }] = await Promise.all([
    api(`/api/ops/jobs/${one.job_id}`),
    api(`/api/ops/breakers?${new URLSearchParams({ system: one.system })}`),
  ]);
  const isConfirmed = confirmed.has(`${one.id}/${one.deaths}`);
  const at = AT[one.state] === 2 && isConfirmed ? 3 : AT[one.state];
  const steps = [triage, remediate, validate, replay, verify].map((make, number) => {
    const [title, ...body] = make({ one, job, gates, again, at, isConfirmed });
    const kind = number < at ? "done" : number === at ? "now" : "later";
    return el(
      "li",
      { class: kind, key: `${title}-${kind}-${one.state}`, "aria-current": kind === "now" ? "step" : null },
      el("h3", {}, title),
      body,
    );
  });
  return el(
    "div",
    {},
    el(
      "div",
      { class: "head" },
      el("h2", { tabindex: "-1" }, letterTitle(one)),
      pill(one.state),
      el("div", { class: "end" }, link(`#job/${one.job_id}`, "The job's whole story"), ways(one, again)),
    ),
    one.state === "escalated"
      ? el(
          "p",
          { class: "callout error", role: "note" },
          "Escalated: it was fixed and replayed, and died again of the same error that no retry can fix. An engineer is needed.",
        )
      : null,
    el("p", { class: "callout" }, el("strong", {}, "Next: "), one.next_step, "."),
    el("ol", { class: "steps" }, steps),
    correction(one, again),
    closeEarly(one, again),
    el("h3", {}, "What is known"),
    facts([
      ["Kind", one.kind],
      ["System", one.system],
      ["Provider", one.provider],
      ["Category", one.category],
      ["Request", one.request_id],
      ["First failure", when(one.first_failure_at)],
      ["Last failure", when(one.last_failure_at)],
      ["Died", count(one.deaths, "time")],
      ["Replayed", count(one.replays, "time")],
      ["Group", link(`#group/${encodeURIComponent(one.system)}/${one.fingerprint}`, one.fingerprint)],
      ["Original", text(one.original)],
    ]),
    one.last_stack ? el("details", { key: "stack", open: one.category === "bug_or_config" }, el("summary", {}, "Stack"), el("pre", {}, one.last_stack)) : null,
    el("details", { key: "context" }, el("summary", {}, "Context"), el("pre", {}, context(one.sanitized_context))),
    el("h3", {}, "History"),
    table(
      [
        ["When", (row) => when(row.at)],
        ["Who", "actor"],
        ["What", "action"],
        ["Details", (row) => noted(row.data)],
      ],
      one.audit,
    ),
  );
}

// The short ways back: all steps in one dialog, or one click that leaves its evidence too.
export function ways(one, again) {
  if (!EDITABLE.includes(one.state)) return null;
  const asItIs = async () => {
    const done = await api(`/api/ops/dead-letters/${one.id}/mend`, { method: "POST", body: {} });
    location.hash = `job/${done.job_id}`;
    return done;
  };
  const whole = async () => mendDialog(await api(`/api/ops/dead-letters/${one.id}`), again);
  return [
    el("button", { onclick: acting("/api/ops/dead-letters/{case_id}/mend", whole) }, "Fix and replay"),
    el("button", { class: "quiet", onclick: doing(asItIs, (done) => `Replayed from ${done.stage}.`, again, "/api/ops/dead-letters/{case_id}/mend") }, "Replay as it is"),
  ];
}

const post = (one, verb, body) => api(`/api/ops/dead-letters/${one.id}/${verb}`, { method: "POST", body });
// Where a replay begins: the failed stage, or an earlier one whose input was corrected.
const start = (one) => one.replay_stage ?? one.stage;
const by = (one, action) => {
  const act = one.audit.findLast((entry) => entry.action === action);
  return act ? el("span", { class: "soft small" }, ` by ${act.actor} at `, when(act.at)) : null;
};

function triage({ one, again, at }) {
  const confirm = facts([
    ["Error", el("code", {}, one.error_class)],
    ["Stage", one.stage],
    ["Why it ended", `${one.failure_reason}: ${REASONS[one.failure_reason] ?? ""}`],
    ["Tries", text(one.attempts_made)],
    ["Last error", one.last_error],
  ]);
  if (at > 0)
    return [
      "Triage",
      confirm,
      el("p", {}, "Cause: ", el("strong", {}, text(one.cause)), by(one, "case.triaged")),
      one.notes && one.state !== "resolved" ? el("p", { class: "soft" }, one.notes) : null,
    ];
  const run = (event) =>
    post(one, "triage", { cause: event.target.elements.cause.value, notes: event.target.elements.found.value || null });
  return [
    "Triage",
    confirm,
    el(
      "form",
      { onsubmit: doing(run, "Triaged.", again, "/api/ops/dead-letters/{case_id}/triage") },
      field({ name: "cause", label: "What kind of cause was it?", kind: "select", options: CAUSES, value: likelyCause(one) }),
      field({ name: "found", label: "What you found" }),
      el("button", {}, "Triage"),
    ),
  ];
}

function remediate({ one, again, at }) {
  if (at < 1) return ["Remediate", el("p", { class: "small" }, "Fix the cause, and say how that is known.")];
  if (at > 1) return ["Remediate", el("p", {}, "Evidence: ", one.evidence, by(one, "case.remediated"))];
  const run = (event) => post(one, "remediate", { evidence: event.target.elements.evidence.value });
  return [
    "Remediate",
    el("p", {}, ADVICE[one.cause] ?? ""),
    el(
      "form",
      { onsubmit: doing(run, "The evidence is recorded.", again, "/api/ops/dead-letters/{case_id}/remediate") },
      field({
        name: "evidence",
        label: "What was fixed, and how is that known?",
        kind: "long",
        required: true,
        placeholder: "INC-7: key rotated, the probe is green",
      }),
      el("button", {}, "Record the evidence"),
    ),
  ];
}

export const differences = (rows) =>
  table(
    [
      ["Field", (row) => el("code", {}, row.path)],
      ["Before", (row) => el("del", {}, text(row.before))],
      ["After", (row) => el("ins", {}, text(row.after))],
    ],
    rows,
  );

// Correct, then replay: the input as it is, the difference before anything is written, and what was corrected so far.
function correction(one, again) {
  const past = one.corrections.map((each) =>
    el(
      "div",
      { class: "soft" },
      el("p", {}, `Corrected by ${each.actor} at `, when(each.at), each.reason ? `: ${each.reason}` : ""),
      differences(each.changes),
    ),
  );
  const original = one.original_input
    ? el("details", {}, el("summary", {}, "The original input"), el("pre", {}, pretty(one.original_input)))
    : null;
  if (!EDITABLE.includes(one.state) || one.input === null) {
    return past.length ? el("section", {}, el("h3", {}, "Corrections"), past, original) : null;
  }
  return el(
    "details",
    { key: `correct-${one.id}`, open: previews.has(one.id) || null },
    el("summary", {}, "Correct the input"),
    past,
    original,
    correctionForm(one, again),
  );
}

function correctionForm(one, again) {
  const seen = previews.get(one.id);
  const run = async (event) => {
    const { input, reason } = event.target.elements;
    const isPreview = event.submitter.value !== "correct";
    if (!isPreview && seen?.words !== input.value) throw new Error("Look at the difference first.");
    let given;
    try {
      given = JSON.parse(input.value);
    } catch (error) {
      throw new Error(`The input is not JSON: ${error.message}`);
    }
    const answer = await post(one, "correct", { input: given, reason: reason.value || null, dry_run: isPreview });
    if (isPreview) previews.set(one.id, { words: input.value, answer });
    else previews.delete(one.id);
    return answer;
  };
  const said = (answer) => (answer.dry_run ? "Nothing was changed yet." : "The input is corrected.");
  return el(
    "form",
    { onsubmit: doing(run, said, again, "/api/ops/dead-letters/{case_id}/correct"), key: `correct-form-${one.corrections.length}` },
    el("label", { for: "f-input" }, "The input; masked values stay as they are"),
    el("textarea", { id: "f-input", name: "input", rows: "12", spellcheck: "false" }, pretty(one.input)),
    field({ name: "reason", label: "Why it is corrected" }),
    seen
      ? el(
          "div",
          { class: "callout", role: "note" },
          differences(seen.answer.changes),
          el("p", {}, seen.answer.replay_reason),
          seen.answer.effects_performed.length
            ? el(
                "p",
                {},
                `Under the old input: ${seen.answer.effects_performed.map((row) => `${row.key} is ${row.status}`).join(", ")}`,
              )
            : null,
        )
      : null,
    el(
      "div",
      { class: "acts" },
      el("button", { value: "preview", class: seen ? "quiet" : null }, "Show the difference"),
      seen ? el("button", { value: "correct" }, "Correct it") : null,
    ),
  );
}

function validate({ one, job, gates, again, at, isConfirmed }) {
  if (at < 2)
    return [
      "Validate",
      el("p", { class: "small" }, "Before a replay: is the evidence on record, and is a second run safe?"),
    ];
  if (at > 3)
    return [
      "Validate",
      el("p", {}, one.replays ? "Looked at before the replay." : "Not needed: it was closed without a replay."),
    ];
  if (isConfirmed) return ["Validate", checks(one, job, gates)];
  const run = async () => {
    const dry = await api(`/api/ops/dead-letters/bulk/replay?${new URLSearchParams({ system: one.system })}`, {
      method: "POST",
      body: { filter: { ids: [one.id] }, dry_run: true },
    });
    if (!dry.done.length) throw new Error(dry.refused[0]?.detail ?? "The dry run found nothing to replay.");
    confirmed.add(`${one.id}/${one.deaths}`);
    return dry;
  };
  return [
    "Validate",
    checks(one, job, gates),
    el(
      "form",
      { onsubmit: doing(run, "The dry run is fine; nothing was changed.", again, "/api/ops/dead-letters/bulk/replay") },
      field({
        name: "safe",
        label: "I have looked at the evidence and at what a second run may do",
        kind: "checkbox",
        required: true,
      }),
      el("button", {}, "Dry run"),
    ),
  ];
}

function checks(one, job, gates) {
  const gate = gates.find((row) => row.name === one.provider)?.gate;
  const sent = job.effects.filter((row) => row.status === "sent");
  const doubt = job.effects.filter((row) => ["review", "unknown", "sending"].includes(row.status));
  const blind = job.effects.filter((row) => row.provider_class === "neither");
  const lines = [
    one.evidence ? ["", "The remediation is recorded."] : ["error", "No remediation is recorded: a replay refuses."],
    sent.length
      ? [
          "",
          `${count(sent.length, "effect")} happened and will not be repeated: ${sent.map((row) => row.key).join(", ")}`,
        ]
      : ["", "Nothing was sent to the outside yet."],
    doubt.length
      ? [
          "warn",
          `${count(doubt.length, "effect")} in doubt; each is looked up, or asks for a person, before it is sent again: ${doubt.map((row) => row.key).join(", ")}`,
        ]
      : null,
    blind.length
      ? [
          "warn",
          "A provider offers neither a token nor a lookup: a repeated send cannot be ruled out by anybody but a person.",
        ]
      : null,
    [
      "",
      job.results.length
        ? `Completed stages are kept and not paid for again: ${job.results.map((row) => row.stage).join(", ")}`
        : "No stage was completed: nothing is paid for twice.",
    ],
    gate && gate !== "closed"
      ? ["warn", `The breaker of ${one.provider} is ${gate.replace("_", " ")}: a replayed job waits until it closes.`]
      : gate
        ? ["", `The breaker of ${one.provider} is closed.`]
        : null,
  ].filter(Boolean);
  return el(
    "ul",
    { class: "checks" },
    lines.map(([kind, words]) => el("li", { class: kind }, words)),
  );
}

function replay({ one, again, at }) {
  if (at < 3) return ["Replay", el("p", { class: "small" }, `From ${start(one)}, or from the start.`)];
  if (at > 3)
    return [
      "Replay",
      el(
        "p",
        {},
        one.replays ? `Replayed${one.replays > 1 ? `, ${one.replays} times in all` : ""}` : "Closed without a replay",
        by(one, "case.replayed"),
      ),
    ];
  const run = (event) =>
    post(one, "replay", {
      full: event.target.elements.full.value === "true",
      delay_s: Number(event.target.elements.delay.value) || 0,
    });
  return [
    "Replay",
    el(
      "form",
      { onsubmit: doing(run, (done) => `Replayed from ${done.stage}.`, again, "/api/ops/dead-letters/{case_id}/replay") },
      field({
        name: "full",
        label: "From where?",
        kind: "select",
        options: [
          [
            "false",
            one.replay_stage
              ? `from ${one.replay_stage}, whose input was corrected`
              : `from the failed stage, ${one.stage}`,
          ],
          ["true", "from the first stage, paying for all of them again"],
        ],
      }),
      field({ name: "delay", label: "Seconds to wait before it runs", kind: "number", min: "0", value: "0" }),
      el("button", {}, "Replay"),
    ),
  ];
}

function verify({ one, job, again, at }) {
  if (one.state === "resolved") return ["Verify and close", el("p", {}, one.notes, by(one, "case.resolved"))];
  if (at < 4) return ["Verify and close", el("p", { class: "small" }, "Did it end well, and did it arrive?")];
  const ended = { succeeded: "good", dead: "error" }[job.state] ?? "warn";
  const told = job.effects.map((row) =>
    el("li", { class: row.status === "sent" ? "" : "warn" }, `${row.key}: ${row.status}`),
  );
  const known = [
    "Verify and close",
    el("p", {}, "The job is ", pill(job.state), el("span", { class: ended }, " ", sentence(job.why))),
    told.length ? el("ul", { class: "checks" }, told) : null,
  ];
  if (["queued", "processing", "waiting"].includes(job.state))
    return [...known, el("p", { class: "small" }, "The replay has not ended: it can be closed when its outcome is known.")];
  if (job.state !== "succeeded") return [...known, closeEarly({ ...one, state: "open" }, again)];
  const run = (event) => post(one, "resolve", { notes: event.target.elements.notes.value });
  return [
    ...known,
    el(
      "form",
      { onsubmit: doing(run, "Resolved.", again, "/api/ops/dead-letters/{case_id}/resolve") },
      field({ name: "notes", label: "How it ended", kind: "long", required: true }),
      el("button", {}, "Resolve"),
    ),
  ];
}

function closeEarly(one, again) {
  if (one.state === "resolved" || one.state === "replayed") return null;
  const run = async () => {
    const given = await ask("Close it without a replay?", {
      words: "No replay of it has succeeded; the reason says why that is right.",
      fields: [{ name: "without_replay", label: "Why", kind: "long", required: true }],
      verb: "Close it",
      danger: true,
    });
    return given && post(one, "resolve", given);
  };
  return el("button", { class: "danger", onclick: doing(run, "Closed.", again, "/api/ops/dead-letters/{case_id}/resolve") }, "Close without a replay");
}
