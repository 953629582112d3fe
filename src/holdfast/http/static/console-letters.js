// Dead letters: escalations on top, then grouped by what they have in common; a group is worked on as one.
import { api, el } from "./holdfast.js";
import { ago, count, doing, field, link, pill, short, table, text, when } from "./parts.js";

export const CAUSES = [
  ["transient", "transient: it was down and came back"],
  ["data", "data: the input was wrong"],
  ["auth_config", "auth or config: a key, a permission, an address"],
  ["code", "code: a defect of ours"],
];
export const ADVICE = {
  transient: "Verify that the provider has recovered and has room.",
  data: "Correct the source or its mapping.",
  auth_config: "Rotate or fix the credentials, the permissions, the endpoint.",
  code: "Deploy the fix, and validate it first where it can do no harm.",
};
const ORDER = ["escalated", "open", "triaged", "remediated", "replayed", "resolved"];

const letterLink = (row) => link(`#letter/${row.id}`, el("code", {}, row.id));
const COLUMNS = [
  ["Letter", letterLink],
  ["State", (row) => pill(row.state)],
  ["System", "system"],
  ["Kind", "kind"],
  ["Stage", "stage"],
  ["Error", "error_class"],
  ["Last words", (row) => short(row.last_error)],
  ["Tries", "attempts_made"],
  ["Died", (row) => when(row.last_failure_at)],
];

export async function letters({ query }) {
  const state = query.get("state") ?? "";
  const [{ items: groups }, { items: escalated }, { items, next }] = await Promise.all([
    api("/api/ops/dead-letters/groups?limit=200"),
    api("/api/ops/dead-letters?state=escalated&limit=50"),
    api(`/api/ops/dead-letters?${query}`),
  ]);
  const choose = (event) => {
    location.hash = event.target.value ? `dead?state=${event.target.value}` : "dead";
  };
  const all = grouped(groups);
  const quiet = all.filter((row) => row.cause === "input");
  const states = [["", "every state"], ...ORDER.map((one) => [one, one])];
  const chooser = field({ name: "state", label: "State", kind: "select", options: states, value: state });
  chooser.querySelector("select").onchange = choose;
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Dead letters"),
    escalated.length
      ? el(
          "section",
          { class: "callout error", "aria-label": "Escalated" },
          el(
            "strong",
            {},
            `${count(escalated.length, "escalation")}: replayed after a remediation, and dead again in the same way. An engineer is needed.`,
          ),
          table(COLUMNS, escalated, (row) => row.id),
        )
      : null,
    el("h3", {}, "By what they have in common"),
    groupTable(all.filter((row) => row.cause !== "input"), "No dead letters to work on. Nothing was lost."),
    quiet.length
      ? el(
          "details",
          { key: "quiet" },
          el("summary", {}, `Callers' own mistakes: ${count(quiet.length, "group")}; they were told, nobody here need do anything`),
          groupTable(quiet, ""),
        )
      : null,
    el("div", { class: "head" }, el("h3", {}, "One by one"), el("div", { class: "end" }, chooser)),
    table(COLUMNS, items, (row) => row.id, "No dead letter is in this state."),
    next ? el("p", {}, link(`#dead?${new URLSearchParams({ ...(state && { state }), next })}`, "Older")) : null,
  );
}

const groupTable = (rows, none) => table(GROUP_COLUMNS, rows, (row) => `${row.system}/${row.fingerprint}`, none);

const GROUP_COLUMNS = [
  ["Group", (row) => link(groupHref(row), `${row.error_class} in ${row.stage}`)],
  ["System", "system"],
  ["Kind", "kind"],
  ["Provider", "provider"],
  ["For example", (row) => short(text(row.last_error), 120)],
  [
    "Letters",
    (row) =>
      el(
        "span",
        {},
        ORDER.filter((state) => row.states[state]).map((state) => [`${row.states[state]} `, pill(state), " "]),
      ),
  ],
  ["First", (row) => when(row.first_at)],
  ["Last", (row) => ago(row.last_at)],
];
const groupHref = (row) => `#group/${encodeURIComponent(row.system)}/${encodeURIComponent(row.fingerprint)}`;

// The API counts by state; a person sees a group once.
function grouped(rows) {
  const found = new Map();
  for (const row of rows) {
    const key = `${row.system}/${row.fingerprint}`;
    const one = found.get(key) ?? { ...row, states: {} };
    one.states[row.state] = row.letters;
    if (row.first_at < one.first_at) one.first_at = row.first_at;
    if (row.last_at > one.last_at) one.last_at = row.last_at;
    found.set(key, one);
  }
  const urgency = (one) => ORDER.findIndex((state) => one.states[state]);
  return [...found.values()].sort((a, b) => urgency(a) - urgency(b) || b.last_at.localeCompare(a.last_at));
}

// One group, worked on as one

let chosen = new Set();

export async function group({ parts: [system, fingerprint] }, again) {
  const where = new URLSearchParams({ system, fingerprint, limit: "200" });
  const [{ items }, { items: groups }] = await Promise.all([
    api(`/api/ops/dead-letters?${where}`),
    api(`/api/ops/dead-letters/groups?${new URLSearchParams({ system, limit: "200" })}`),
  ]);
  if (!items.length) return el("p", { class: "soft" }, "There is no such group any more.");
  chosen = new Set(items.map((row) => row.id).filter((id) => chosen.has(id)));
  // The list shows the newest letters; how many there are of each state is counted by the server.
  const counted = new Map(
    groups
      .filter((one) => one.system === system && one.fingerprint === fingerprint)
      .map((one) => [one.state, one.letters]),
  );
  const ticked = (state) => items.filter((row) => row.state === state && chosen.has(row.id)).length;
  const number = (...states) =>
    states.reduce((sum, state) => sum + (chosen.size ? ticked(state) : (counted.get(state) ?? 0)), 0);
  const bulk = (verb, state, body) =>
    api(`/api/ops/dead-letters/bulk/${verb}?${new URLSearchParams({ system })}`, {
      method: "POST",
      body: { filter: { fingerprint, state, ...(chosen.size ? { ids: [...chosen] } : {}) }, ...body },
    });
  const tick = (row) =>
    el("input", {
      type: "checkbox",
      "aria-label": `Choose ${row.id}`,
      checked: chosen.has(row.id),
      onchange: (event) => {
        if (event.target.checked) chosen.add(row.id);
        else chosen.delete(row.id);
        again();
      },
    });
  const first = items[0];
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, `${first.error_class} in ${first.stage}`),
    el(
      "p",
      { class: "soft" },
      `${first.kind}, system ${system}, provider ${first.provider ?? "none"}: `,
      count(
        [...counted.values()].reduce((sum, one) => sum + one, 0),
        "letter",
      ),
      chosen.size
        ? `, ${chosen.size} chosen below; only those are acted on`
        : ", all of them are acted on unless some are chosen below",
    ),
    el("ol", { class: "steps" }, steps(number, bulk, again)),
    table([["", tick], ...COLUMNS], items, (row) => row.id),
  );
}

function total(answer, word) {
  const refused = answer.refused.length ? `, ${answer.refused.length} refused: ${answer.refused[0].detail}` : "";
  return `${count(answer.done.length, "letter")} ${word}${refused}${answer.remaining ? `; ${answer.remaining} remain` : ""}.`;
}

function steps(number, bulk, again) {
  const both = async (verb, states, body) => {
    const parts = [];
    for (const state of states) if (number(state)) parts.push(await bulk(verb, state, body));
    return {
      done: parts.flatMap((one) => one.done),
      refused: parts.flatMap((one) => one.refused),
      remaining: parts.reduce((sum, one) => sum + one.remaining, 0),
    };
  };
  const step = (title, states, words, fields, verb, run) => {
    const letters = number(...states);
    const form = el(
      "form",
      {
        onsubmit: doing(
          (event) => run(event.target.elements),
          (answer) => total(answer, words.done),
          again,
        ),
        key: title,
      },
      fields.map(field),
      el("button", {}, `${verb} ${count(letters, "letter")}`),
    );
    return el(
      "li",
      { class: letters ? "now" : "later", key: title },
      el("h3", {}, title),
      letters ? form : el("p", { class: "soft small" }, words.none),
    );
  };
  return [
    step(
      "Triage",
      ["escalated", "open"],
      { done: "triaged", none: "None is open." },
      [
        { name: "cause", label: "What kind of cause was it?", kind: "select", options: CAUSES, id: "g-cause" },
        { name: "found", label: "What you found", id: "g-found" },
      ],
      "Triage",
      (f) => both("triage", ["escalated", "open"], { cause: f.cause.value, notes: f.found.value || null }),
    ),
    step(
      "Remediate",
      ["triaged"],
      { done: "remediated", none: "None waits for evidence." },
      [
        {
          name: "evidence",
          label: "What was mended, and how is that known?",
          kind: "long",
          required: true,
          id: "g-evidence",
        },
      ],
      "Record the evidence for",
      (f) => bulk("remediate", "triaged", { evidence: f.evidence.value }),
    ),
    ...replaySteps(number("remediated"), bulk, again),
    step(
      "Verify and close",
      ["replayed"],
      { done: "resolved", none: "None was replayed." },
      [{ name: "notes", label: "How it ended", kind: "long", required: true, id: "g-notes" }],
      "Resolve",
      (f) => bulk("resolve", "replayed", { notes: f.notes.value }),
    ),
  ];
}

// The dry run is the validation: nothing is replayed before it was looked at, and a look is good only for what it saw.
let looked = null;

function replaySteps(letters, bulk, again) {
  const key = [location.hash, letters, ...chosen].join();
  const seen = looked?.key === key ? looked.answer : null;
  const dry = async () => {
    looked = { key, answer: await bulk("replay", "remediated", { dry_run: true }) };
    return looked.answer;
  };
  const go = (event) => {
    const { rate, full } = event.target.elements;
    return bulk("replay", "remediated", { full: full.checked, per_minute: rate.value ? Number(rate.value) : null });
  };
  const none = el("p", { class: "soft small" }, "None is remediated: a replay needs recorded evidence.");
  const told =
    seen &&
    el(
      "p",
      { role: "status" },
      `${seen.done.length} would be replayed from their failed stage, ${seen.refused.length} refused. Nothing was changed.`,
    );
  return [
    el(
      "li",
      { class: !letters ? "later" : seen ? "done" : "now", key: "validate" },
      el("h3", {}, "Validate"),
      letters
        ? el(
            "div",
            {},
            el(
              "p",
              { class: "small" },
              "Effects that have happened are not repeated: the ledger knows them. A dry run says what a replay would do.",
            ),
            el(
              "button",
              { type: "button", class: "quiet", onclick: doing(dry, "Nothing was changed.", again) },
              "Dry run",
            ),
            told,
          )
        : none,
    ),
    el(
      "li",
      { class: seen ? "now" : "later", key: "replay" },
      el("h3", {}, "Replay"),
      seen
        ? el(
            "form",
            { key: "go", onsubmit: doing(go, (answer) => total(answer, "replayed"), again) },
            field({
              name: "rate",
              label: "How many a minute? Empty: all at once",
              kind: "number",
              min: "1",
              value: "60",
              id: "g-rate",
            }),
            field({
              name: "full",
              label: "Restart from the first stage, paying for all of them again",
              kind: "checkbox",
              id: "g-full",
            }),
            el("button", {}, `Replay ${count(seen.done.length, "letter")}`),
          )
        : el("p", { class: "soft small" }, "After the dry run."),
    ),
  ];
}
