// Records: who did what.
import { api, el } from "./holdfast.js";
import { count, field, link, noted, table, when } from "./parts.js";

// People's acts, unless the kernel's own lines are asked for too.
export async function audit({ query }) {
  const asked = new URLSearchParams({ people: "true", limit: "200", ...Object.fromEntries(query) });
  const { items, next } = await api(`/api/ops/audit?${asked}`);
  const submit = (event) => {
    event.preventDefault();
    const { elements } = event.currentTarget;
    const values = ["actor", "subject"].map((name) => [name, elements[name].value.trim()]);
    values.push(["people", elements.kernel.checked ? "false" : ""]);
    location.hash = `audit?${new URLSearchParams(values.filter(([, value]) => value))}`;
  };
  const more = new URLSearchParams(query);
  if (next) more.set("next", next);
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Audit"),
    el("p", { class: "soft" }, "Who did what; the kernel is Holdfast itself. Nothing here can be changed."),
    el(
      "form",
      { class: "row", onsubmit: submit, role: "search" },
      field({ name: "actor", label: "Who", value: query.get("actor") ?? "" }),
      field({ name: "subject", label: "On what", value: query.get("subject") ?? "" }),
      field({ name: "kernel", label: "With the kernel's own lines", kind: "checkbox", checked: query.get("people") === "false" }),
      el("button", {}, "Filter"),
    ),
    table(
      [
        ["When", (row) => when(row.at)],
        ["Who", "actor"],
        ["What", "action"],
        ["On what", (row) => (row.rows ? several(row.rows) : subject(row.subject))],
        ["System", "system"],
        ["Details", (row) => noted(row.data)],
      ],
      bursts(items),
      (row) => `${row.system}/${row.seq}`,
      "Nobody has done anything yet.",
    ),
    next ? el("p", {}, link(`#audit?${more}`, "Older")) : null,
  );
}

// What one person did to many in one go is one line, or it would bury what people did besides.
const GAP_MS = 10_000;
const FEW = 3;
function bursts(rows) {
  const found = [];
  for (const row of rows) {
    const alike = (one) => one.actor === row.actor && one.action === row.action && one.system === row.system;
    const burst = found.findLast((one) => alike(one[0]) && new Date(one.at(-1).at) - new Date(row.at) < GAP_MS);
    if (burst) burst.push(row);
    else found.push([row]);
  }
  const lines = found.flatMap((burst) => (burst.length > FEW ? [{ ...burst[0], rows: burst }] : burst));
  return lines.toSorted((one, other) => other.at.localeCompare(one.at) || other.seq - one.seq);
}

const NOUNS = { case: "letter" };
function several(rows) {
  const kind = rows[0].subject.split(":")[0];
  return el(
    "details",
    {},
    el("summary", {}, count(rows.length, NOUNS[kind] ?? kind)),
    el("ul", { class: "plain" }, rows.map((row) => el("li", {}, subject(row.subject)))),
  );
}

function subject(name) {
  const [kind, ...rest] = name.split(":");
  const id = rest.join(":");
  if (kind === "job") return link(`#job/${encodeURIComponent(id)}`, el("code", {}, name));
  if (kind === "incident") return link(`#incident/${encodeURIComponent(id)}`, el("code", {}, name));
  if (kind === "case") return link(`#letter/${encodeURIComponent(id)}`, el("code", {}, name));
  return el("code", {}, name);
}
