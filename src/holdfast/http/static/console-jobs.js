// Jobs: a query that lives in the address, what fits it by state, and acts on many.
import { api, el } from "./holdfast.js";
import { bulkBar, keepChosen, tick } from "./console-bulk.js";
import { ask, doing, errorOf, field, idCell, link, many, pill, short, table, when } from "./parts.js";

const STATES = ["queued", "held", "running", "waiting", "succeeded", "dead", "cancelled"];
const FILTERS = ["state", "kind", "stage", "provider", "owner", "queue"];

export async function jobs({ query }, again) {
  const here = location.hash;
  const wanted = query.get("q") ?? asQuery(query);
  const system = query.get("system");
  const which = new URLSearchParams({ ...(wanted && { q: wanted }), ...(system && { system }) });
  const page = new URLSearchParams([...which, ...[...query].filter(([name]) => name === "next")]);
  const { items: systems } = await api("/api/ops/overview");
  const form = queryForm(wanted, system, systems);
  const found = await Promise.all([
    api(`/api/ops/jobs?${page}`),
    wanted ? api(`/api/ops/jobs/counts?${which}`) : { counts: {}, is_all: true },
  ]).catch((error) => {
    if (error.status !== 422) throw error;
    return error.message;
  });
  // A query that cannot be read stays in its field, to be mended there.
  if (typeof found === "string") return el("div", {}, el("h2", { tabindex: "-1" }, "Jobs"), form, el("p", { class: "callout error", role: "alert" }, found));
  const [{ items, next }, { counts, is_all: isAll }] = found;
  keepChosen(items.map((row) => row.id));
  if (query.get("q") && !/(^|\s)sort:/i.test(wanted) && !query.get("next") && items.length === 1) {
    if (location.hash === here) location.replace(`#job/${items[0].id}`);
    return null;
  }
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, wanted ? `Jobs that fit ${wanted}` : "Jobs"),
    form,
    views(again),
    stateTabs(wanted, system, wanted ? counts : standing(systems, system), isAll),
    HOLDS[orderOf(wanted)] ? el("p", { class: "soft small" }, HOLDS[orderOf(wanted)]) : null,
    bulkBar({ q: wanted, system, counts, isAll }, again),
    table([["Choose", tick(again), el("span", { class: "unseen" }, "Choose")], ...columns(items, systems, wanted, system)], items, (row) => row.id, none(wanted, system)),
    el(
      "div",
      { class: "acts" },
      query.get("next") ? link(`#jobs?${which}`, "First page") : null,
      next ? link(`#jobs?${turned(query, next)}`, /(^|\s)sort:/i.test(wanted) ? "More" : "Older") : null,
    ),
  );
}

// A word that no job has in its ids or its input may be the name of an error: that is one click away.
function none(wanted, system) {
  if (!wanted) return "There are no jobs yet.";
  const reach = /(^|\s)("|input\.|[^\s:"]+(\s|$))/.test(wanted)
    ? "Text is looked for among the newest 10,000 jobs, fields that their kind declares for search among all. "
    : "";
  if (!/^[\w.]+$/.test(wanted)) return `No job here fits this. ${reach}`;
  const address = new URLSearchParams({ q: `error:${wanted}`, ...(system && { system }) });
  return [`No job here fits this. ${reach}`, link(`#jobs?${address}`, `Look for it among the errors: error:${wanted}`)];
}

// How many jobs there are in each state; a click narrows the query to one of them.
function stateTabs(wanted, system, counts, isAll) {
  const rest = wanted.replace(/(^|\s)state:(\S+)/i, "").trim();
  const current = wanted.match(/(?:^|\s)state:"?(\w+)/i)?.[1].toLowerCase();
  const tab = (state) => {
    const q = [state && `state:${state}`, rest].filter(Boolean).join(" ");
    const address = new URLSearchParams({ ...(q && { q }), ...(system && { system }) });
    const number = state === "running" ? (counts.running ?? counts.processing) : counts[state];
    const words = number === undefined ? "" : ` ${many(number)}${isAll || !wanted ? "" : "+"}`;
    return el("a", { href: `#jobs?${address}`, "aria-current": (current ?? null) === state ? "true" : null }, state ?? "all", words && el("b", {}, words));
  };
  return el("nav", { class: "tabs", "aria-label": "States" }, [null, ...STATES].map(tab));
}

// What the server counts at every look: the jobs that have not ended, by lane.
const LANES = { queued: "queued", parked: "held", paused: "held", processing: "running", waiting: "waiting" };
function standing(systems, system) {
  const counts = { queued: 0, held: 0, running: 0, waiting: 0 };
  for (const lane of systems.filter((one) => !system || one.system === system).flatMap((one) => one.lanes ?? []))
    counts[LANES[lane.state]] += lane.jobs;
  return counts;
}

// The filters of the form, as the query that means the same.
const asQuery = (query) =>
  FILTERS.filter((name) => query.get(name))
    .map((name) => `${name}:"${query.get(name).replaceAll('"', "")}"`)
    .join(" ");

const stateOf = (row) => (row.parked ? (row.hold === "pause" ? "paused" : "held") : row.state === "processing" ? "running" : row.state);

// The kind, and below it in a line the error that the job has met last.
const kindCell = (row) => (row.error ? el("div", {}, row.kind, el("small", { class: "clip error", title: errorOf(row.error) }, short(errorOf(row.error)))) : row.kind);

const orderOf = (wanted) => wanted.match(/(?:^|\s)sort:(\w+)/i)?.[1].toLowerCase() ?? "newest";
// An order whose index holds some jobs only shows only those.
const HOLDS = {
  deadline: "Sorted by deadline: only jobs that have one and have not ended.",
  failures: "Sorted by failures: only jobs that have failed in their present stage.",
};

// A head that sorts: a link to the same query in another order, which the server walks an index for.
function sorter(wanted, system) {
  const present = orderOf(wanted);
  const rest = wanted.replace(/(^|\s)sort:\S+/i, "").trim();
  return (words, ...orders) => {
    const next = orders[orders.indexOf(present) + 1] ?? "newest";
    const q = [rest, next === "newest" ? "" : `sort:${next}`].filter(Boolean).join(" ");
    const isHere = orders.includes(present);
    const sign = !isHere ? "" : ["newest", "failures"].includes(present) ? " \u2193" : " \u2191";
    const sorted = !isHere ? null : sign === " \u2193" ? "descending" : "ascending";
    const address = new URLSearchParams({ ...(q && { q }), ...(system && { system }) });
    return el("a", { class: "sort", href: `#jobs?${address}`, title: `Sort by ${next}`, "data-sorted": sorted }, `${words}${sign}`);
  };
}

// What no row fills is left out.
function columns(items, systems, wanted, system) {
  const any = (test) => items.some(test);
  const sort = sorter(wanted, system);
  return [
    ["Job", idCell(items, "job")],
    ["State", (row) => pill(stateOf(row))],
    systems.length > 1 && ["System", "system"],
    ["Kind", kindCell],
    ["Stage", "stage"],
    any((row) => row.provider) && ["Provider", "provider"],
    any((row) => row.owner) && ["Owner", "owner"],
    any((row) => row.failures) && ["Failures", "failures", sort("Failures", "failures")],
    ["Created", (row) => when(row.created_at), sort("Created", "newest", "oldest")],
    any((row) => row.deadline_at) && ["Deadline", (row) => when(row.deadline_at), sort("Deadline", "deadline")],
  ].filter(Boolean);
}

function turned(query, next) {
  const other = new URLSearchParams(query);
  if (next) other.set("next", next);
  else other.delete("next");
  return other;
}

const EXAMPLE = 'state:held provider:llm owner:carla age:>10m error:422 input.order_id:7 "some text"';

function queryForm(wanted, system, systems) {
  const submit = (event) => {
    event.preventDefault();
    const { q, system: where } = event.currentTarget.elements;
    const [words, name] = [q.value.trim(), where?.value];
    location.hash = `jobs?${new URLSearchParams({ ...(words && { q: words }), ...(name && { system: name }) })}`;
  };
  const options = [["", "all systems"], ...systems.map((one) => [one.system, one.system])];
  return el(
    "form",
    { class: "row", onsubmit: submit, role: "search", "aria-label": "Query jobs" },
    el(
      "div",
      { class: "most" },
      field({ name: "q", id: "query", label: "Query", value: wanted, placeholder: EXAMPLE, spellcheck: "false", autocomplete: "off", list: "words", onfocus: suggest, oninput: suggest }),
      el("datalist", { id: "words" }, offered.map((value) => el("option", { value }))),
    ),
    systems.length > 1 ? field({ name: "system", label: "System", kind: "select", options, value: system ?? "" }) : null,
    el("button", {}, "Find"),
  );
}

// What may be typed next: a field, or after its colon the values that there are. The server is asked once.
const FIELDS = ["state:", "kind:", "stage:", "provider:", "owner:", "queue:", "error:", "key:", "id:", "age:>10m", "since:1h", "until:1h", "input.", "sort:"];
let known = null;
let offered = []; // drawn again with the view, so that a refresh takes no suggestion away
async function readKnown() {
  const none = () => ({ items: [] });
  const [pauses, breakers, groups, charts] = await Promise.all(
    ["pauses", "breakers", "dead-letters/groups", "charts?minutes=1440"].map((path) => api(`/api/ops/${path}`).catch(none)),
  );
  const names = (rows, name) => [...new Set(rows.map((row) => row[name]).filter(Boolean))].toSorted();
  return {
    state: STATES,
    sort: ["newest", "oldest", "deadline", "failures"],
    kind: names(pauses.items.filter((row) => row.sort === "kind"), "name"),
    queue: names(pauses.items.filter((row) => row.sort === "queue"), "name"),
    provider: names(breakers.items, "name"),
    error: names([...groups.items, ...charts.items.flatMap((item) => item.errors.map((row) => ({ error_class: row.name })))], "error_class"),
    stage: names(charts.items.flatMap((item) => item.stages), "stage"),
    owner: names(charts.items.flatMap((item) => item.owners), "name"),
  };
}
async function suggest({ currentTarget: input }) {
  const values = await (known ??= readKnown());
  const [, before, word] = input.value.match(/^(.*?)(\S*)$/s);
  const [name, value] = word.split(":");
  const words = value === undefined ? FIELDS : (values[name] ?? []).map((each) => `${name}:${/\s/.test(each) ? `"${each}"` : each}`);
  offered = words.filter((each) => each.startsWith(word) && each !== word).slice(0, 20).map((each) => before + each);
  input.list?.replaceChildren(...offered.map((value) => el("option", { value })));
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
    { class: "acts many", role: "group", "aria-label": "Views" },
    el("ul", { class: "views" }, kept().map(line)),
    el("button", { class: "quiet", onclick: doing(save, (name) => `Saved as ${name}.`, again) }, "Save this view"),
    el("button", { class: "quiet", onclick: doing(copy, "The link is copied.", again) }, "Copy link"),
  );
}
