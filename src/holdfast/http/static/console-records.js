// Records: who did what, which workers are alive, what runs on a schedule, what providers cost.
import { api, el } from "./holdfast.js";
import { ago, field, link, money, pill, table, text, when } from "./parts.js";

export async function audit({ query }) {
  const { items, next } = await api(`/api/ops/audit?${query}`);
  const submit = (event) => {
    event.preventDefault();
    const { elements } = event.currentTarget;
    const values = ["actor", "subject"].map((name) => [name, elements[name].value.trim()]);
    values.push(["people", elements.people.checked ? "true" : ""]);
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
      field({ name: "people", label: "Only people", kind: "checkbox", checked: query.get("people") === "true" }),
      el("button", {}, "Filter"),
    ),
    table(
      [
        ["When", (row) => when(row.at)],
        ["Who", "actor"],
        ["What", "action"],
        ["On what", (row) => subject(row.subject)],
        ["System", "system"],
        ["Details", (row) => text(row.data)],
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

export async function machines() {
  const [{ items: workers }, cost, { items: schedules }] = await Promise.all([
    api("/api/ops/workers"),
    api("/api/ops/costs?days=7"),
    api("/api/ops/schedules"),
  ]);
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Workers and cost"),
    el("h3", {}, "Workers"),
    table(
      [
        ["Worker", (row) => el("code", {}, row.name)],
        ["System", "system"],
        ["Alive", (row) => (row.alive ? pill("ok") : pill("silent"))],
        ["Jobs in flight", "in_flight"],
        ["Last heard", (row) => ago(row.seen_at)],
        ["Since", (row) => when(row.started_at)],
      ],
      workers,
      (row) => row.name,
      "No worker has ever reported: start one with holdfast worker.",
    ),
    el("h3", {}, `Provider calls of seven days: ${money(cost.total_cost_micros)} spent`),
    table(
      [
        ["Day", "day"],
        ["Provider", "provider"],
        ["System", "system"],
        ["Kind of job", (row) => row.kind ?? el("span", { class: "soft" }, "pruned")],
        ["Calls", "calls"],
        ["Failed", "failed"],
        ["Cost", (row) => money(row.cost_micros)],
      ],
      cost.items,
      (row) => `${row.day}/${row.system}/${row.provider}/${row.kind}`,
      "No provider was called.",
    ),
    el("h3", {}, "Schedules"),
    table(
      [
        ["Name", "name"],
        ["System", "system"],
        ["Cron", (row) => el("code", {}, row.cron)],
        ["Kind", "kind"],
        ["Next", (row) => when(row.next_at)],
        ["Last", (row) => when(row.last_at)],
      ],
      schedules,
      (row) => row.name,
      "Nothing is scheduled.",
    ),
  );
}
