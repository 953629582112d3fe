// Hands on what runs: workers, queues and kinds, schedules; and what providers cost.
import { api, el } from "./holdfast.js";
import { ago, ask, count, doing, errorOf, idCell, link, money, pill, short, table, when } from "./parts.js";

export async function machines(place, again) {
  const [{ items: workers }, { items: pauses }, cost, { items: schedules }] = await Promise.all([
    api("/api/ops/workers"),
    api("/api/ops/pauses"),
    api("/api/ops/costs?days=7"),
    api("/api/ops/schedules"),
  ]);
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, "Workers and cost"),
    el("h3", {}, "Workers"),
    table(workerColumns(again), workers, (row) => row.name, "No worker has ever reported: start one with holdfast worker."),
    el("h3", {}, "Queues and kinds"),
    table(pauseColumns(again), pauses, (row) => `${row.system}/${row.sort}/${row.name}`, "No app is loaded."),
    el("h3", {}, "Schedules"),
    table(scheduleColumns(again), schedules, (row) => row.name, "Nothing is scheduled."),
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
  );
}

const post = (path, body) => api(`/api/ops/${path}`, { method: "POST", body });
const act = (path, row, title, run, done, again) =>
  el("button", { class: "quiet", "aria-label": `${title} ${row.name}`, onclick: doing(run, done, again, `/api/ops/${path}`) }, title);

function workerColumns(again) {
  const drain = async (row) => {
    const sure = await ask(`Drain ${row.host}?`, {
      words: `Worker ${row.name} ends the ${count(row.in_flight, "job")} that it has, and takes nothing more until it is told to.`,
      verb: "Drain it",
      danger: true,
    });
    return sure && post(`workers/${encodeURIComponent(row.name)}/drain`);
  };
  const take = (row) => post(`workers/${encodeURIComponent(row.name)}/undrain`);
  const hand = (row) => {
    if (!row.alive || !row.release) return "";
    return row.drain_at
      ? act("workers/{name}/undrain", row, "Take jobs again", () => take(row), "It takes jobs again.", again)
      : act("workers/{name}/drain", row, "Drain", () => drain(row), "It takes nothing more.", again);
  };
  return [
    ["Worker", (row) => el("details", {}, el("summary", {}, row.name.split(":").slice(0, 2).join(":")), el("code", {}, row.name))],
    ["State", (row) => pill(row.state)],
    ["System", "system"],
    ["Queues", "queues"],
    ["Release", "release"],
    ["Runs", runs],
    ["Last heard", (row) => ago(row.seen_at)],
    ["Since", (row) => when(row.started_at)],
    ["Act", hand],
  ];
}

function runs(row) {
  if (!row.jobs.length) return row.in_flight ? count(row.in_flight, "job") : "nothing";
  const line = (job) => el("li", {}, link(`#job/${job.id}`, `${job.kind} ${job.stage}`), ` ${ago(job.last_attempt_at)}`);
  return el("details", {}, el("summary", {}, count(Math.max(row.in_flight, row.jobs.length), "job")), el("ul", {}, row.jobs.map(line)));
}

function pauseColumns(again) {
  const path = (row, verb) =>
    `pauses/${row.sort}/${encodeURIComponent(row.name)}/${verb}?${new URLSearchParams({ system: row.system })}`;
  const pause = async (row) => {
    const given = await ask(`Pause the ${row.sort} ${row.name}?`, {
      words: "No worker begins a job of it until it is resumed. What runs is finished; what waits spends nothing, and its deadlines run.",
      fields: [{ name: "reason", label: "Why? Whoever wonders reads it.", required: true }],
      verb: "Pause it",
      danger: true,
    });
    return given && post(path(row, "pause"), { reason: given.reason });
  };
  const hand = (row) =>
    row.is_paused
      ? act("pauses/{sort}/{name}/resume", row, "Resume", () => post(path(row, "resume"), {}), "It goes on.", again)
      : act("pauses/{sort}/{name}/pause", row, "Pause", () => pause(row), "It is paused.", again);
  const why = (row) => (row.is_paused ? `${row.actor}, ${ago(row.since)}: ${row.reason}` : "");
  return [
    ["Name", (row) => link(`#jobs?${new URLSearchParams({ q: `${row.sort}:"${row.name}"` })}`, row.name)],
    ["Sort", "sort"],
    ["System", "system"],
    ["State", (row) => pill(row.is_paused ? "paused" : "running")],
    ["Waiting for it", (row) => (row.is_paused ? count(row.jobs, "job") : "")],
    ["Who and why", why],
    ["Act", hand],
  ];
}

function scheduleColumns(again) {
  const path = (row, verb) => `schedules/${encodeURIComponent(row.name)}/${verb}?${new URLSearchParams({ system: row.system })}`;
  const run = async (row) => {
    const sure = await ask(`Run ${row.name} now?`, { words: `One job of ${row.kind} is enqueued; the ticks stay.`, verb: "Run it" });
    return sure && post(path(row, "run"));
  };
  const hands = (row) =>
    el(
      "div",
      { class: "acts" },
      act("schedules/{name}/run", row, "Run now", () => run(row), (done) => `Job ${done.job_id.slice(0, 8)} is enqueued.`, again),
      row.paused
        ? act("schedules/{name}/resume", row, "Resume", () => post(path(row, "resume")), "It goes on with its next tick.", again)
        : act("schedules/{name}/pause", row, "Pause", () => post(path(row, "pause")), "It enqueues nothing more.", again),
    );
  return [
    ["Name", (row) => link(`#schedule/${encodeURIComponent(row.name)}?${new URLSearchParams({ system: row.system })}`, row.name)],
    ["System", "system"],
    ["Cron", (row) => el("code", {}, row.cron)],
    ["Kind", "kind"],
    ["Next", (row) => (row.paused ? pill("paused") : when(row.next_at))],
    ["Last", (row) => when(row.last_at)],
    ["Act", hands],
  ];
}

// The jobs that a schedule has enqueued.
export async function schedule({ parts: [name], query }) {
  const { items } = await api(`/api/ops/schedules/${encodeURIComponent(name)}/runs?${query}`);
  return el(
    "div",
    {},
    el("h2", { tabindex: "-1" }, `Runs of ${name}`),
    table(
      [
        ["Job", idCell(items, "job")],
        ["State", (row) => pill(row.state)],
        ["Enqueued", (row) => when(row.created_at)],
        ["Ended", (row) => when(row.finished_at)],
        ["By", (row) => (row.job_key.endsWith(":by hand") ? "hand" : "clock")],
        ["Error", (row) => short(errorOf(row.error))],
      ],
      items,
      (row) => row.id,
      "It has enqueued nothing that is still kept.",
    ),
  );
}
