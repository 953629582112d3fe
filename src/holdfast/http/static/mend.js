// Fix and replay in one dialog: what failed, the input as a form, what a replay would do, and the button. The difference
// and the preview are the server's, asked anew whenever something is typed.
import { nameDialog, restore, drop, fieldsOf } from "./drafts.js";
import { api, el } from "./holdfast.js";
import { count, field, letterTitle, likelyCause, money, pretty, say, table, text, when } from "./parts.js";

const REST_MS = 300;
const AGAIN_MS = 3000; // a server that cannot be reached is asked again without a key being pressed

// The fields of an input: its name, how it is asked for, and how it is read. What is no simple value is asked for as JSON.
export function fieldsFor(input, schema) {
  const properties = schema?.properties ?? {};
  const names = [...new Set([...Object.keys(properties), ...Object.keys(input)])];
  return names.map((name) => [name, ask(name, input[name], resolve(properties[name], schema))]);
}

function resolve(type, schema) {
  if (!type) return {};
  if (type.$ref) return schema.$defs?.[type.$ref.split("/").at(-1)] ?? {};
  const some = type.anyOf?.filter((each) => each.type !== "null");
  return some?.length === 1 ? { ...resolve(some[0], schema), title: type.title } : type;
}

function ask(name, value, type) {
  const common = { name: `input.${name}`, id: `mend-${name}`, label: name };
  if (type.enum) {
    const options = type.enum.map((each) => [String(each), String(each)]);
    return { ...common, kind: "select", options, value: String(value), read: (given) => type.enum.find((each) => String(each) === given) };
  }
  if (typeof value === "boolean" || type.type === "boolean")
    return { ...common, kind: "checkbox", checked: value === true, read: (given, input) => input.checked };
  if (["number", "integer"].includes(type.type) && (typeof value === "number" || value === undefined))
    return { ...common, kind: "number", step: "any", value: text(value), read: (given) => (given === "" ? null : Number(given)) };
  if (typeof value === "string" || (value === undefined && type.type === "string"))
    return { ...common, kind: value?.length > 80 ? "long" : "text", value: value ?? "", read: (given) => given };
  return { ...common, label: `${name} (JSON)`, kind: "long", value: value === undefined ? "" : pretty(value), read: readJson };
}

function readJson(given) {
  try {
    return given.trim() === "" ? null : JSON.parse(given);
  } catch (error) {
    throw new Error(`That is not JSON: ${error.message}`);
  }
}

// Only what was changed is sent: a masked value that nobody touched stays what it is.
function changesIn(form, asked) {
  const changed = {};
  for (const [name, { read }] of asked) {
    const input = form.elements[`input.${name}`];
    const isSame = input.type === "checkbox" ? input.checked === input.defaultChecked : input.value === input.dataset.start;
    if (!isSame) changed[name] = read(input.value, input);
  }
  return Object.keys(changed).length ? changed : null;
}

export function mendDialog(one, again) {
  const isForm = one.input !== null && typeof one.input === "object" && !Array.isArray(one.input);
  const asked = isForm ? fieldsFor(one.input, one.input_schema) : [];
  const body = (form) => ({
    set: changesIn(form, asked),
    evidence: form.elements.evidence.value.trim() || null,
    full: form.elements.full.value === "yes",
    cause: changesIn(form, asked) ? "data" : (one.cause ?? "transient"),
  });
  // What a field begins with is noted before a draft comes back into it.
  const ready = (form) => {
    for (const [name] of asked) {
      const input = form.elements[`input.${name}`];
      input.dataset.start = input.value;
    }
  };
  openDialog(
    {
      title: "Fix and replay",
      fields: [
        el("p", { class: "callout error" }, el("strong", {}, `${letterTitle(one)}: `), one.last_error),
        asked.length ? el("fieldset", {}, el("legend", {}, "Input"), asked.map(([, each]) => field(shown(each)))) : null,
        evidenceField(),
        stageField(one.replay_stage ?? one.stage),
      ],
      path: `/api/ops/dead-letters/${one.id}/mend`,
      body,
      preview,
      done: (answer) => {
        say(`Replayed from ${answer.stage}.`);
        location.hash = `job/${answer.job_id}`;
      },
    },
    again,
    ready,
  );
}

// A whole group: what was mended, for all of them, how fast, and what that would do.
export function mendGroupDialog({ system, fingerprint, ids, first, causes, begun }, again) {
  const body = ({ elements: f }) => ({
    set: f.path.value.trim() ? { [f.path.value.trim()]: readValue(f.value.value) } : null,
    evidence: f.evidence.value.trim() || null,
    cause: f.cause.value,
    full: f.full.value === "yes",
    per_minute: f.rate.value ? Number(f.rate.value) : null,
    ids,
  });
  openDialog(
    {
      title: "Fix and replay the group",
      fields: [
        el("p", { class: "callout error" }, el("strong", {}, `${letterTitle(first)}: `), first.last_error),
        field({ name: "cause", id: "mend-cause", label: "What kind of cause was it?", kind: "select", options: causes, value: first.cause ?? likelyCause(first) }),
        evidenceField(),
        el(
          "div",
          { class: "row" },
          field({ name: "path", id: "mend-path", label: "Set this field in all inputs", placeholder: "empty: none" }),
          field({ name: "value", id: "mend-value", label: "to", placeholder: "text, or JSON" }),
          field({ name: "rate", id: "mend-rate", label: "Letters a minute", kind: "number", min: "1", value: "60", placeholder: "all at once" }),
        ),
        stageField(first.replay_stage ?? first.stage),
      ],
      path: `/api/ops/dead-letters/groups/${encodeURIComponent(fingerprint)}/mend?${new URLSearchParams({ system })}`,
      body,
      preview: previewGroup,
      done: (answer) => {
        begun();
        say(`${count(answer.letters, "letter")} on the way.`);
        location.hash = `replay/${answer.id}`;
      },
    },
    again,
  );
}

const evidenceField = () =>
  field({ name: "evidence", id: "mend-evidence", label: "What was fixed, and how is that known?", placeholder: "empty: replayed as it is" });
const stageField = (start) =>
  field({
    name: "full",
    id: "mend-full",
    label: "From where?",
    kind: "select",
    options: [
      ["", `from ${start}, keeping what is done`],
      ["yes", "from the first stage, paying for all of them again"],
    ],
  });

// What is no JSON is a text.
function readValue(given) {
  try {
    return JSON.parse(given);
  } catch {
    return given;
  }
}

// A dialog whose preview is asked for anew whenever something is typed; the button sends the same without `dry_run`.
function openDialog({ title, fields, path, body, preview, done }, again, ready = () => {}) {
  const seen = el("div", { class: "preview", "aria-live": "polite" }, "Asking what a replay would do…");
  const send = el("button", { value: "yes" }, "Replay");
  const form = el(
    "form",
    { method: "dialog", oninput: () => later(), onsubmit: (event) => submit(event) },
    el("h2", {}, title),
    fields,
    seen,
    el("div", { class: "acts" }, send, el("button", { class: "quiet", type: "button", onclick: () => box.close() }, "Leave it")),
  );
  const box = el("dialog", { "aria-label": title, class: "wide" }, form);
  const post = (more) => api(path, { method: "POST", body: { ...body(form), ...more } });
  let turn = 0;
  let waits = null;
  async function look() {
    const mine = ++turn;
    let words;
    let isRefused = true;
    try {
      words = preview(await post({ dry_run: true }));
      isRefused = false;
    } catch (error) {
      words = el("p", { class: "callout error", role: "alert" }, error.message);
      if ((error.status === 0 || error.status >= 500) && box.open) later(AGAIN_MS);
    }
    if (mine !== turn) return;
    send.disabled = isRefused;
    seen.replaceChildren(words);
  }
  function later(afterMs = REST_MS) {
    clearTimeout(waits);
    waits = setTimeout(look, afterMs);
  }
  async function submit(event) {
    event.preventDefault();
    send.disabled = true;
    try {
      const answer = await post({});
      drop(fieldsOf(form));
      box.close();
      done(answer);
    } catch (error) {
      seen.replaceChildren(el("p", { class: "callout error", role: "alert" }, error.message));
      send.disabled = false;
    }
  }
  box.addEventListener("close", () => {
    clearTimeout(waits);
    box.remove();
    again();
  });
  ready(form);
  nameDialog(box);
  document.body.append(box);
  box.showModal();
  restore(box);
  look();
}

const shown = ({ read, ...rest }) => rest;

function preview(seen) {
  const lines = [
    ["", `It begins at ${seen.replay_from}.`],
    ["", seen.stages_kept.length ? `Kept, and not paid for again: ${seen.stages_kept.join(", ")}.` : "No completed stage is kept."],
    seen.stages_again.length ? ["warn", `Completed stages that run again: ${seen.stages_again.join(", ")}.`] : null,
    seen.effects_kept.length
      ? ["", `${count(seen.effects_kept.length, "effect")} happened and will not be repeated: ${seen.effects_kept.join(", ")}.`]
      : ["", "Nothing was sent to the outside yet."],
    seen.effects_in_doubt.length
      ? ["warn", `In doubt; looked up, or asked of a person, before it is sent again: ${seen.effects_in_doubt.map((row) => row.key).join(", ")}.`]
      : null,
    ["", `Calls of the stages that run cost ${money(seen.cost_again_micros)} so far; ${money(seen.cost_kept_micros)} is kept.`],
    gateLine(seen),
    seen.not_before ? ["warn", el("span", {}, "The provider asked to be left alone until ", when(seen.not_before), ".")] : null,
  ].filter(Boolean);
  return sum(seen.changes, lines);
}

function previewGroup(seen) {
  const why = seen.refused[0]?.detail;
  if (why && seen.refused.length === seen.sampled) throw new Error(`No letter can be corrected so: ${why}`);
  const stages = (counts) => Object.entries(counts).map(([name, jobs]) => `${name} (${jobs})`).join(", ");
  const lines = [
    ["", `${count(seen.letters, "letter")}${seen.owners ? ` of ${count(seen.owners, "customer")}` : ""} begin at ${seen.replay_from}.`],
    ["", el("span", {}, "The last of them begins at ", when(seen.last_begins_at), ".")],
    ["", stages(seen.stages_kept) ? `Kept, and not paid for again: ${stages(seen.stages_kept)}.` : "No completed stage is kept."],
    stages(seen.stages_again) ? ["warn", `Completed stages that run again: ${stages(seen.stages_again)}.`] : null,
    ["", seen.effects_kept ? `${count(seen.effects_kept, "effect")} happened and will not be repeated.` : "Nothing was sent to the outside yet."],
    seen.effects_in_doubt ? ["warn", `${count(seen.effects_in_doubt, "effect")} in doubt: looked up, or asked of a person, before anything is sent again.`] : null,
    ["", `Calls of the stages that run cost ${money(seen.cost_again_micros)} so far; ${money(seen.cost_kept_micros)} is kept.`],
    gateLine(seen),
    seen.refused.length ? ["error", `${seen.refused.length} of the first ${seen.sampled} cannot be corrected so: ${why}`] : null,
  ].filter(Boolean);
  return sum(seen.changes, lines);
}

const gateLine = (seen) =>
  seen.gate && seen.gate !== "closed"
    ? ["warn", `The breaker of ${seen.provider} is ${seen.gate.replace("_", " ")}: what is replayed waits until it closes.`]
    : seen.gate
      ? ["", `The breaker of ${seen.provider} is closed.`]
      : null;

function sum(changed, lines) {
  const changes = [
    ["Field", (row) => el("code", {}, row.path)],
    ["Before", (row) => el("del", {}, text(row.before) || "empty")],
    ["After", (row) => el("ins", {}, text(row.after) || "empty")],
  ];
  return el(
    "div",
    {},
    changed.length ? table(changes, changed) : el("p", { class: "soft" }, "The input stays as it is."),
    el("ul", { class: "checks" }, lines.map(([kind, words]) => el("li", { class: kind }, words))),
  );
}
