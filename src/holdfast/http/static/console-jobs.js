// Jobs: a list with filters that live in the address.
import { api, el } from "./holdfast.js";
import { bulkBar, keepChosen, tick } from "./console-bulk.js";
import { ask, doing, errorOf, field, link, pill, short, table, when } from "./parts.js";

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
    views(again),
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
  ["State", (row) => el("span", {}, pill(row.state), row.parked ? ` ${row.hold === "pause" ? "paused" : "held"}` : "")],
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

// Views are kept in this browser, for whoever uses it: a look needs no right to write. What is shared is the address, which
// holds all of it.
const KEPT = "holdfast.views";
function kept() {
  try {
    return Object.entries(JSON.parse(localStorage.getItem(KEPT) ?? "{}"));
  } catch {
    return [];
  }
}
const keep = (all) => localStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(all)));

function views(again) {
  const save = async () => {
    const given = await ask("Save this view", { fields: [{ name: "name", label: "Its name", required: true, maxlength: "60" }], verb: "Save" });
    const name = given?.name.trim();
    if (!name) return null;
    keep([...kept().filter(([other]) => other !== name), [name, location.hash]]);
    return name;
  };
  const drop = (name) => keep(kept().filter(([other]) => other !== name));
  const copy = () => navigator.clipboard.writeText(location.href);
  const line = ([name, hash]) =>
    el(
      "li",
      { key: name },
      link(hash, name),
      " ",
      el("button", { class: "icon", "aria-label": `Forget the view ${name}`, onclick: doing(() => drop(name), "Forgotten.", again) }, "\u00d7"),
    );
  return el(
    "div",
    { class: "acts", role: "group", "aria-label": "Views" },
    el("ul", { class: "views" }, kept().map(line)),
    el("button", { class: "quiet", onclick: doing(save, (name) => `Saved as ${name}.`, again) }, "Save this view"),
    el("button", { class: "quiet", onclick: doing(copy, "The link is copied.", again) }, "Copy link"),
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
