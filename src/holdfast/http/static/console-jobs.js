// Jobs: a list with filters that live in the address.
import { api, el } from "./holdfast.js";
import { bulkBar, keepChosen, tick } from "./console-bulk.js";
import { errorOf, field, link, pill, short, table, when } from "./parts.js";

const STATES = ["queued", "processing", "waiting", "succeeded", "dead", "cancelled"];
const FILTERS = ["system", "state", "kind", "stage", "provider", "owner", "queue"];

export async function jobs({ query }, again) {
  const here = location.hash;
  const wanted = query.get("q");
  const fitting = { q: wanted ?? asQuery(query), ...(query.get("system") && { system: query.get("system") }) };
  const [{ items, next }, { items: systems }, { counts, is_all: isAll }] = await Promise.all([
    api(`/api/ops/jobs?${query}`),
    api("/api/ops/overview"),
    fitting.q ? api(`/api/ops/jobs/counts?${new URLSearchParams(fitting)}`) : { counts: {}, is_all: true },
  ]);
  keepChosen(items.map((row) => row.id));
  if (wanted && !query.get("next") && items.length === 1) {
    if (location.hash === here) location.replace(`#job/${items[0].id}`);
    return null;
  }
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, wanted ? `Jobs that fit ${wanted}` : "Jobs"),
    queryForm(wanted ?? ""),
    wanted ? el("p", {}, link("#jobs", "All jobs")) : filterForm(query, systems),
    bulkBar({ ...fitting, counts, isAll }, again),
    table(
      [["Choose", tick(again)], ...COLUMNS],
      items,
      (row) => row.id,
      wanted ? "No job here fits this." : "No job fits these filters.",
    ),
    el(
      "div",
      { class: "acts" },
      query.get("next") ? link(`#jobs?${turned(query, null)}`, "Newest") : null,
      next ? link(`#jobs?${turned(query, next)}`, "Older") : null,
    ),
  );
}

// The filters of the form, as the query that means the same.
const asQuery = (query) =>
  FILTERS.slice(1)
    .filter((name) => query.get(name))
    .map((name) => `${name}:"${query.get(name).replaceAll('"', "")}"`)
    .join(" ");

const COLUMNS = [
  ["Job", (row) => link(`#job/${row.id}`, el("code", {}, row.id))],
  ["State", (row) => el("span", {}, pill(row.state), row.parked ? " held" : "")],
  ["System", "system"],
  ["Kind", "kind"],
  ["Stage", "stage"],
  ["Failures", "failures"],
  ["Owner", "owner"],
  ["Updated", (row) => when(row.updated_at)],
  ["Error", (row) => short(errorOf(row.error))],
];

function turned(query, next) {
  const other = new URLSearchParams(query);
  if (next) other.set("next", next);
  else other.delete("next");
  return other;
}

const EXAMPLE = 'state:held provider:llm owner:carla age:>10m error:422 input.order_id:7 "some text"';

function queryForm(wanted) {
  const submit = (event) => {
    event.preventDefault();
    const value = event.currentTarget.elements.q.value.trim();
    location.hash = value ? `jobs?${new URLSearchParams({ q: value })}` : "jobs";
  };
  return el(
    "form",
    { class: "row", onsubmit: submit, role: "search", "aria-label": "Query jobs" },
    field({ name: "q", id: "query", label: "Query", value: wanted, placeholder: EXAMPLE, size: "70", spellcheck: "false" }),
    el("button", {}, "Find"),
  );
}

function filterForm(query, systems) {
  const options = (words, values) => [["", words], ...values.map((value) => [value, value])];
  const given = (name) => query.get(name) ?? "";
  const submit = (event) => {
    event.preventDefault();
    const values = FILTERS.map((name) => [name, event.currentTarget.elements[name].value.trim()]);
    location.hash = `jobs?${new URLSearchParams(values.filter(([, value]) => value))}`;
  };
  return el(
    "form",
    { class: "row", onsubmit: submit, role: "search", "aria-label": "Filter jobs" },
    field({
      name: "system",
      label: "System",
      kind: "select",
      options: options(
        "every system",
        systems.map((one) => one.system),
      ),
      value: given("system"),
    }),
    field({
      name: "state",
      label: "State",
      kind: "select",
      options: options("every state", STATES),
      value: given("state"),
    }),
    FILTERS.slice(2).map((name) => field({ name, label: name[0].toUpperCase() + name.slice(1), value: given(name) })),
    el("button", {}, "Filter"),
  );
}
