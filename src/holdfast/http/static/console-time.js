// Time: what each system did, from a quarter of an hour to thirty days, of all jobs or of some.
import { api, el } from "./holdfast.js";
import { clock, timeChart } from "./charts.js";
import { count, field, link, many, money, span, table } from "./parts.js";

const RANGES = [
  [15, "15 min"],
  [60, "1 h"],
  [360, "6 h"],
  [1440, "24 h"],
  [10080, "7 days"],
  [43200, "30 days"],
];
const FILTERS = ["kind", "stage", "queue", "provider", "owner"];
const OWNERS_DRAWN = 3;
const FEW = 20;
const whole = (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)}k` : String(Math.round(value)));
const ms = (value) => span(value / 1000);
const percent = (value) => `${Math.round(value * 100)} %`;

export async function time({ query }) {
  const { items } = await api(`/api/ops/charts?${query}`);
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Time"),
    el("nav", { class: "tabs", "aria-label": "Range" }, RANGES.map((range) => rangeLink(range, query))),
    filterForm(query),
    items.filter((item) => item.runs_jobs).toSorted((one, other) => busy(other) - busy(one)).map((item) => section(item, query)),
  );
}

// The busy ones first.
const busy = (item) => item.points.reduce((sum, point) => sum + point.stages + point.failed + point.waiting, 0);

function rangeLink([minutes, words], query) {
  const other = new URLSearchParams(query);
  other.set("minutes", minutes);
  other.delete("until");
  const isHere = !query.get("until") && Number(query.get("minutes") ?? 60) === minutes;
  return el("a", { href: `#time?${other}`, "aria-current": isHere ? "true" : null }, words);
}

function filterForm(query) {
  const submit = (event) => {
    event.preventDefault();
    const other = new URLSearchParams(query);
    for (const name of FILTERS) {
      const value = event.currentTarget.elements[name].value.trim();
      if (value) other.set(name, value);
      else other.delete(name);
    }
    location.hash = `time?${other}`;
  };
  return el(
    "form",
    { class: "row", onsubmit: submit, role: "search", "aria-label": "Filter time" },
    FILTERS.map((name) => field({ name, label: name[0].toUpperCase() + name.slice(1), value: query.get(name) ?? "" })),
    el("button", {}, "Show"),
  );
}

// The jobs behind a point: those that were accepted in its time, as the query language says it.
const minute = (time) => `${new Date(time).toISOString().slice(0, 16)}Z`;
export const jobsBehind = (query) => (point, item) => {
  const words = FILTERS.filter((name) => query?.get(name)).map((name) => `${name}:"${query.get(name)}"`);
  const begins = new Date(point.at).getTime();
  words.push(`since:${minute(begins)}`, `until:${minute(begins + item.step_s * 1000)}`);
  return `jobs?${new URLSearchParams({ q: words.join(" "), system: item.system })}`;
};

// What goes on, in words: stages where there are any, else jobs; a system that does nothing is at rest.
export function pace(item, isBrief = false) {
  const minutes = item.step_s / 60;
  const recent = item.points.slice(-Math.max(2, Math.round(5 / minutes)));
  const each = (name) => recent.reduce((sum, point) => sum + point[name], 0) / (recent.length * minutes);
  const [stages, jobs] = [each("stages"), each("jobs")];
  const last = item.points.findLast((point) => point.running !== null) ?? {};
  if (!stages && !jobs) return last.running ? `${last.running} running` : last.waiting ? `${many(last.waiting)} waiting` : "at rest";
  const words = `${stages < 10 ? stages.toFixed(1) : whole(stages)}${isBrief ? "" : " stages"}/min`;
  if (isBrief) return words;
  return jobs ? `${words}, ${jobs < 10 ? jobs.toFixed(1) : whole(jobs)} jobs/min` : words;
}

export const part = (name, which) => (point) => (point[name] === null ? null : point[name][which]);

function section(item, query) {
  const options = { large: true, jobs: jobsBehind(query) };
  return el(
    "section",
    { class: "card", key: item.system, "aria-label": item.title },
    el("h2", {}, item.title),
    el("p", { class: "soft" }, `Counted until ${item.counted_until ? new Date(item.counted_until).toLocaleTimeString([], { hourCycle: "h23" }) : "never: no keeper has run"}. Drag across a chart to zoom in; click a point for its jobs.`),
    // What is counted by owner is not counted by kind, and the other way round: one is shown or the other.
    query.get("owner") ? ownersOf(item, query, options) : [...everything(item, query, options), ...ownersOf(item, query, options)],
  );
}

const curves = (name) => ["p50", "p95", "p99"].map((which, number) => ({ name: which, kind: number === 1 ? "line" : "second", value: part(name, which) }));

function everything(item, query, options) {
  return [
    el("div", { class: "timecharts" }, drawn(item, options)),
    ...counted(item, query),
  ];
}

function drawn(item, options) {
  return [
    timeChart("Stages", item, [
      { name: "done", kind: "bar", value: (point) => point.stages },
      { name: "failed", kind: "bad", value: (point) => point.failed },
    ], { ...options, show: whole, now: pace(item) }),
    timeChart("Jobs", item, [
      { name: "done", kind: "bar", value: (point) => point.jobs },
      { name: "died", kind: "bad", value: (point) => point.died },
    ], { ...options, show: whole }),
    timeChart("Waiting jobs", item, [
      { name: "waiting", kind: "line", value: (point) => point.waiting },
      { name: "held", kind: "second", value: (point) => point.held },
    ], { ...options, show: whole }),
    timeChart("Oldest waits", item, [{ name: "oldest", kind: "line", value: (point) => point.oldest_age_s }], { ...options, show: span }),
    timeChart("From submission to first attempt", item, curves("waited_ms"), { ...options, show: ms }),
    timeChart("Running time of a stage", item, curves("ran_ms"), { ...options, show: ms }),
    failureChart(item, options),
    timeChart("Cost", item, [{ name: "cost", kind: "bar", value: (point) => point.cost_micros }], { ...options, show: money }),
    ...item.providers.map((one) => providerChart(one, item, options)),
  ];
}

function counted(item, query) {
  return [
    el("h3", {}, "Stages"),
    table(
      [
        ["Kind", (row) => link(`#time?${filtered(query, { kind: row.kind })}`, row.kind)],
        ["Stage", (row) => link(`#time?${filtered(query, { kind: row.kind, stage: row.stage })}`, row.stage)],
        ["Done", "done"],
        ["Failed", "failed"],
        ["Half within", (row) => (row.ran_ms ? ms(row.ran_ms.p50) : "")],
        ["95 of 100 within", (row) => (row.ran_ms ? ms(row.ran_ms.p95) : "")],
      ],
      item.stages,
      (row) => `${row.kind}/${row.stage}`,
      "No stage has ended in this time.",
    ),
    el("h3", {}, "Failures by class"),
    table([["Class", (row) => link(`#jobs?${new URLSearchParams({ q: `error:"${row.name}"` })}`, row.name)], ["Times", "number"]], item.errors, (row) => row.name, "Nothing failed."),
  ];
}

// Whose jobs came, and what became of them. All that have a name are listed, and the others are one line; the largest are
// drawn, one that was asked for with its times and costs.
function ownersOf(item, query, options) {
  const named = item.owners.filter((one) => one.name !== null);
  if (!item.owners.length && !query.get("owner")) return [];
  const jobs = (one) =>
    timeChart(`Jobs of ${one.name}`, item, [
      { name: "done", kind: "bar", value: (point) => point.done },
      { name: "died", kind: "bad", value: (point) => point.died },
      { name: "submitted", kind: "second", value: (point) => point.submitted },
    ], { ...options, show: whole, now: `${count(one.submitted, "job")} submitted`, points: one.points });
  const more = (one) => [
    timeChart("From submission to success", item, curves("took_ms"), { ...options, show: ms, points: one.points }),
    timeChart("Cost", item, [{ name: "cost", kind: "bar", value: (point) => point.cost_micros }], { ...options, show: money, now: money(one.cost_micros), points: one.points }),
  ];
  const took = (which) => (row) => (row.took_ms ? ms(row.took_ms[which]) : "");
  return [
    el("h3", {}, "Owners"),
    table(
      [
        ["Owner", (row) => (row.name === null ? "all others" : link(`#time?${filtered(query, { owner: row.name })}`, row.name))],
        ["Jobs submitted", "submitted"],
        ["Done", "done"],
        ["Attempts failed", "failed"],
        ["Jobs died", "died"],
        ["Half within", took("p50")],
        ["95 of 100 within", took("p95")],
        ["Calls", "calls"],
        ["Cost", (row) => money(row.cost_micros)],
        ["", (row) => (row.name === null ? "" : link(`#jobs?${new URLSearchParams({ q: `owner:"${row.name}"`, system: item.system })}`, "Jobs"))],
      ],
      item.owners,
      (row) => row.name ?? "",
      "No job of this owner came or ended in this time.",
    ),
    el("div", { class: "timecharts" }, query.get("owner") ? named.flatMap((one) => [jobs(one), ...more(one)]) : named.slice(0, OWNERS_DRAWN).map(jobs)),
  ];
}

function filtered(query, more) {
  const other = new URLSearchParams(query);
  for (const [name, value] of Object.entries(more)) other.set(name, value);
  return other;
}

// The figure is of the whole stretch, a count while attempts are few: of one attempt that failed, "100 %" would be an alarm.
export function failureChart(item, options) {
  const sum = (name) => item.points.reduce((all, point) => all + point[name], 0);
  const [failed, all] = [sum("failed"), sum("failed") + sum("stages")];
  const value = (point) => (point.failed + point.stages ? point.error_rate : null);
  return timeChart("Failed attempts", item, [{ name: "failed", kind: "line", value }], {
    ...options,
    show: percent,
    now: !all ? "none" : all < FEW ? `${failed} of ${all}` : percent(failed / all),
    foot: all ? `${failed} of ${all}` : "nothing",
  });
}

// Half of the calls, and 95 of a hundred, take no longer; where nobody called there is no line.
export function providerChart(one, item, options) {
  const last = one.points.findLast((point) => point.calls);
  // The figure is the last that there is; where that is some time ago, the foot says when.
  const isNow = last && one.points.indexOf(last) >= one.points.length - 2;
  const now = last ? ms(last.took_ms.p95) : "not called";
  return timeChart(`${one.name}, P95`, item, [
    { name: "P95", kind: "line", value: part("took_ms", "p95") },
    { name: "P50", kind: "second", value: part("took_ms", "p50") },
  ], { ...options, show: ms, now: last && !isNow && options.large ? `${now} at ${clock(last.at)}` : now, foot: last && !isNow ? `last at ${clock(last.at)}` : null, points: one.points });
}
