// Mend and replay in one dialog: what failed, the input as a form, what a replay would do, and the button. The difference
// and the preview are the server's, asked anew whenever something is typed.
import { nameDialog, restore, drop, fieldsOf } from "./drafts.js";
import { api, el } from "./holdfast.js";
import { count, field, money, pretty, say, table, text, when } from "./parts.js";

const REST_MS = 300;

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
  const seen = el("div", { class: "preview", "aria-live": "polite" }, "Asking what a replay would do…");
  const send = el("button", { value: "yes" }, "Replay");
  const form = el(
    "form",
    { method: "dialog", oninput: () => later(), onsubmit: (event) => submit(event) },
    el("h2", {}, "Mend and replay"),
    el("p", { class: "callout error" }, el("strong", {}, `${one.error_class} in ${one.stage}: `), one.last_error),
    asked.length ? el("fieldset", {}, el("legend", {}, "Input"), asked.map(([, each]) => field(shown(each)))) : null,
    field({ name: "evidence", id: "mend-evidence", label: "What was mended, and how is that known?", placeholder: "empty: replayed as it is" }),
    field({
      name: "full",
      id: "mend-full",
      label: "From where?",
      kind: "select",
      options: [
        ["", `from ${one.replay_stage ?? one.stage}, keeping what is done`],
        ["yes", "from the first stage, paying for all of them again"],
      ],
    }),
    seen,
    el("div", { class: "acts" }, send, el("button", { class: "quiet", type: "button", onclick: () => box.close() }, "Leave it")),
  );
  const box = el("dialog", { "aria-label": "Mend and replay", class: "wide" }, form);
  for (const [name] of asked) {
    const input = form.elements[`input.${name}`];
    input.dataset.start = input.value;
  }
  const body = () => ({
    set: changesIn(form, asked),
    evidence: form.elements.evidence.value.trim() || null,
    full: form.elements.full.value === "yes",
    cause: changesIn(form, asked) ? "data" : (one.cause ?? "transient"),
  });
  const post = (more) => api(`/api/ops/dead-letters/${one.id}/mend`, { method: "POST", body: { ...body(), ...more } });
  let turn = 0;
  let waits = null;
  async function look() {
    const mine = ++turn;
    let words;
    try {
      words = preview(await post({ dry_run: true }));
      if (mine === turn) send.disabled = false;
    } catch (error) {
      words = el("p", { class: "callout error", role: "alert" }, error.message);
      if (mine === turn) send.disabled = true;
    }
    if (mine === turn) seen.replaceChildren(words);
  }
  function later() {
    clearTimeout(waits);
    waits = setTimeout(look, REST_MS);
  }
  async function submit(event) {
    event.preventDefault();
    send.disabled = true;
    try {
      const done = await post({});
      drop(fieldsOf(form));
      box.close();
      say(`Replayed from ${done.stage}.`);
      location.hash = `job/${done.job_id}`;
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
    seen.gate && seen.gate !== "closed"
      ? ["warn", `The breaker of ${seen.provider} is ${seen.gate.replace("_", " ")}: it waits until that closes.`]
      : seen.gate
        ? ["", `The breaker of ${seen.provider} is closed.`]
        : null,
    seen.not_before ? ["warn", el("span", {}, "The provider asked to be left alone until ", when(seen.not_before), ".")] : null,
  ].filter(Boolean);
  const changes = [
    ["Field", (row) => el("code", {}, row.path)],
    ["Before", (row) => el("del", {}, text(row.before))],
    ["After", (row) => el("ins", {}, text(row.after))],
  ];
  return el(
    "div",
    {},
    seen.changes.length ? table(changes, seen.changes) : el("p", { class: "soft" }, "The input stays as it is."),
    el("ul", { class: "checks" }, lines.map(([kind, words]) => el("li", { class: kind }, words))),
  );
}
