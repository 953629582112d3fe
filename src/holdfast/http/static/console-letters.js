// Dead letters: escalations on top, then grouped by what they have in common; a group is worked on as one.
import { api, el } from "./holdfast.js";
import { mendGroupDialog } from "./mend.js";
import { acting, ago, ask, count, doing, field, idCell, letterTitle, link, pill, short, table, text, when } from "./parts.js";

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

// Why an unknown exception was tried again is said on the letter's own page.
const gist = (row) => text(row.last_error).replace(/ \(unknown exception, [^()]*\)$/, "");

// The letters of a group have all but their error in common, so that is said once, above them.
const groupColumns = (rows) => [
  ["Letter", idCell(rows, "letter")],
  ["State", (row) => pill(row.state)],
  ["Last error", (row) => short(gist(row))],
  ["Attempts", "attempts_made"],
  ["Died", (row) => when(row.last_failure_at)],
];
const columns = (rows) => {
  const [letter, state, ...rest] = groupColumns(rows);
  return [letter, state, ["System", "system"], ["Kind", "kind"], ["Stage", "stage"], ["Error", "error_class"], ...rest];
};

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
          table(columns(escalated), escalated, (row) => row.id),
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
    table(columns(items), items, (row) => row.id, "No dead letter is in this state."),
    next ? el("p", {}, link(`#dead?${new URLSearchParams({ ...(state && { state }), next })}`, "Older")) : null,
  );
}

const groupTable = (rows, none) => table(GROUP_COLUMNS, rows, (row) => `${row.system}/${row.fingerprint}`, none);

const GROUP_COLUMNS = [
  ["Group", (row) => link(groupHref(row), letterTitle(row))],
  ["System", "system"],
  ["Kind", "kind"],
  ["Provider", "provider"],
  ["For example", (row) => short(gist(row), 120)],
  [
    "Letters",
    (row) =>
      el(
        "span",
        {},
        ORDER.filter((state) => row.states[state]).map((state) => [el("span", { class: "whole" }, `${row.states[state]} `, pill(state)), " "]),
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
  const [{ items }, { items: groups }, { items: runs }] = await Promise.all([
    api(`/api/ops/dead-letters?${where}`),
    api(`/api/ops/dead-letters/groups?${new URLSearchParams({ system, limit: "200" })}`),
    api(`/api/ops/replays?${new URLSearchParams({ system, fingerprint, limit: "20" })}`),
  ]);
  if (!items.length) return el("p", { class: "soft" }, "There is no such group any more.");
  chosen = new Set(items.map((row) => row.id).filter((id) => chosen.has(id)));
  // The list shows the newest letters; how many there are of each state is counted by the server.
  const counted = new Map(groups.filter((one) => one.fingerprint === fingerprint).map((one) => [one.state, one.letters]));
  const number = (states) =>
    chosen.size
      ? items.filter((row) => states.includes(row.state) && chosen.has(row.id)).length
      : states.reduce((sum, state) => sum + (counted.get(state) ?? 0), 0);
  const first = items[0];
  const which = { system, fingerprint, ids: chosen.size ? [...chosen] : null, number };
  return el(
    "div",
    {},
    el(
      "div",
      { class: "head" },
      el("h2", { tabindex: "-1" }, letterTitle(first)),
      ORDER.filter((state) => counted.get(state)).map((state) => [`${counted.get(state)} `, pill(state)]),
      el("div", { class: "end" }, hands(which, first, again)),
    ),
    el(
      "p",
      { class: "soft" },
      `${first.kind}, system ${system}, provider ${first.provider ?? "none"}. `,
      chosen.size ? `${count(chosen.size, "letter")} chosen below: only those are acted on.` : "All of them are acted on unless some are chosen below.",
    ),
    el("p", { class: "callout error" }, first.last_error),
    closing(which, again),
    runs.length ? [el("h3", {}, "Replays of it"), table(RUN_COLUMNS, runs, (row) => row.id)] : null,
    el("h3", {}, "Letters"),
    table([["", tick(again)], ...groupColumns(items)], items, (row) => row.id),
  );
}

const RUN_COLUMNS = [
  ["Begun", (row) => link(`#replay/${row.id}`, when(row.created_at))],
  ["State", (row) => pill(row.state)],
  ["Who", "actor"],
  ["What was fixed", (row) => row.evidence ?? "replayed as it is"],
  ["A minute", (row) => text(row.per_minute ?? "all at once")],
];
const TO_REPLAY = ["escalated", "open", "triaged", "remediated"];

const tick = (again) => (row) =>
  el("input", {
    type: "checkbox",
    "aria-label": `Choose ${row.id}`,
    checked: chosen.has(row.id),
    onchange: acting("/api/ops/dead-letters/bulk/resolve", (event) => {
      if (event.target.checked) chosen.add(row.id);
      else chosen.delete(row.id);
      again();
    }),
  });

// Fix and replay all of them, or let them go with a reason.
function hands({ system, fingerprint, ids, number }, first, again) {
  const letters = count(number(TO_REPLAY), "letter");
  if (!number(TO_REPLAY)) return null;
  const begun = () => (chosen = new Set());
  const mend = () => mendGroupDialog({ system, fingerprint, ids, first, causes: CAUSES, begun }, again);
  const close = async () => {
    const given = await ask(`Close ${letters} without a replay?`, {
      words: "No replay of them has succeeded; the reason says why that is right.",
      fields: [{ name: "without_replay", label: "Why", kind: "long", required: true }],
      verb: "Close them",
      danger: true,
    });
    return given && resolve(system, { fingerprint, ...(ids ? { ids } : {}) }, given);
  };
  return [
    el("button", { onclick: acting("/api/ops/dead-letters/groups/{fingerprint}/mend", mend) }, `Fix and replay ${letters}`),
    el(
      "button",
      { class: "danger", onclick: doing(close, (answer) => total(answer, "closed"), again, "/api/ops/dead-letters/bulk/resolve") },
      `Close ${letters} without a replay`,
    ),
  ];
}

async function resolve(system, filter, body) {
  const answer = await api(`/api/ops/dead-letters/bulk/resolve?${new URLSearchParams({ system })}`, { method: "POST", body: { filter, ...body } });
  chosen = new Set();
  return answer;
}

// Letters whose replay has succeeded; the server refuses those whose outcome is not known.
export function closing({ system, fingerprint, ids, number }, again) {
  const replayed = number(["replayed"]);
  if (!replayed) return null;
  const run = (event) =>
    resolve(system, { fingerprint, state: "replayed", ...(ids ? { ids } : {}) }, { notes: event.target.elements.notes.value });
  return el(
    "form",
    { key: "closing", class: "card", onsubmit: doing(run, (answer) => total(answer, "resolved"), again, "/api/ops/dead-letters/bulk/resolve") },
    field({ name: "notes", label: "How it ended", required: true, id: "g-notes" }),
    el("button", {}, `Resolve what has succeeded of ${count(replayed, "replayed letter")}`),
  );
}

function total(answer, word) {
  const refused = answer.refused.length ? `, ${answer.refused.length} refused: ${answer.refused[0].detail}` : "";
  return `${count(answer.done.length, "letter")} ${word}${refused}${answer.remaining ? `; ${answer.remaining} remain` : ""}.`;
}
