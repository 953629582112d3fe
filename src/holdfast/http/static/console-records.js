// Records: who did what.
import { api, el } from "./holdfast.js";
import { field, link, noted, table, when } from "./parts.js";

// People's acts, unless the kernel's own lines are asked for too.
export async function audit({ query }) {
  const asked = new URLSearchParams({ people: "true", ...Object.fromEntries(query) });
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
        ["On what", (row) => subject(row.subject)],
        ["System", "system"],
        ["Details", (row) => noted(row.data)],
      ],
      items,
      (row) => `${row.system}/${row.seq}`,
      "Nobody has done anything yet.",
    ),
    next ? el("p", {}, link(`#audit?${more}`, "Older")) : null,
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
