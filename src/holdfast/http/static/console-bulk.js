// Acts on many jobs: chosen ones, or all that fit the query. First what it would do, then a page of jobs at a time, with a
// bar that can be paused and stopped.
import { nameDialog } from "./drafts.js";
import { api, el } from "./holdfast.js";
import { acting, ask, count, doing, say } from "./parts.js";

const VERBS = {
  cancel: ["Cancel", "cancelled"],
  replay: ["Replay", "replayed"],
  run_now: ["Run now", "made due"],
  priority: ["Set priority of", "given another priority"],
  delete: ["Delete", "deleted"],
};
// What can be done to a job in a state; the server looks at each job again.
const UNDONE = ["queued", "held", "processing", "running", "waiting"];
const DUE = ["queued", "held"];
const FITS = { cancel: UNDONE, replay: ["dead"], run_now: DUE, priority: DUE, delete: ["succeeded", "dead", "cancelled"] };
export const PRIORITIES = [
  ["0", "urgent"],
  ["1", "high"],
  ["2", "normal"],
  ["3", "low"],
];
const FIELDS = {
  replay: [{ name: "evidence", label: "What was fixed, and how is that known?", placeholder: "empty: replayed as it is" }],
  priority: [{ name: "priority", label: "Priority", kind: "select", options: PRIORITIES, value: "2" }],
};
const HARD = ["cancel", "delete"];
let chosen = new Set();

export const keepChosen = (ids) => {
  chosen = new Set(ids.filter((id) => chosen.has(id)));
};

export const tick = (again) => (row) =>
  el("input", {
    type: "checkbox",
    "aria-label": `Choose ${row.id}`,
    checked: chosen.has(row.id),
    onchange: acting("/api/ops/jobs/bulk", (event) => {
      if (event.target.checked) chosen.add(row.id);
      else chosen.delete(row.id);
      again();
    }),
  });

// `q` and `system` say which jobs; an empty query acts only on those that were chosen.
export function bulkBar({ q, system, counts, isAll }, again) {
  const states = Object.entries(counts).map(([state, number]) => `${number.toLocaleString("en")} ${state}`);
  if (!chosen.size && !q) return el("p", { class: "soft small" }, "Choose jobs, or write a query, to cancel, replay, delete or reorder many at once.");
  if (!chosen.size && isAll && !states.length) return null;
  const words = chosen.size ? `${count(chosen.size, "job")} chosen` : `${states.join(", ") || "none"}${isAll ? "" : " of the newest"}`;
  const isKnown = isAll && !chosen.size;
  const offered = Object.entries(VERBS).filter(([action]) => !isKnown || FITS[action].some((state) => counts[state]));
  const total = chosen.size || (isAll ? Object.values(counts).reduce((sum, number) => sum + number, 0) : null);
  const button = ([action, [title]]) =>
    el(
      "button",
      {
        class: HARD.includes(action) ? "danger" : "quiet",
        onclick: doing(() => begin(action, q, system, total), (sum) => describe(action, sum), again, "/api/ops/jobs/bulk"),
      },
      chosen.size ? `${title} chosen` : `${title} all that fit`,
    );
  return el("div", { class: "acts many", role: "group", "aria-label": "Acts on many" }, el("span", { class: "soft" }, words), offered.map(button));
}

const describe = (action, sum) =>
  `${count(sum.done, "job")} ${VERBS[action][1]}${sum.refused ? `, ${sum.refused} left alone: ${sum.why}` : ""}${sum.isStopped ? "; stopped" : ""}.`;

async function begin(action, q, system, total) {
  const ids = chosen.size ? [...chosen] : null;
  const where = system ? `?${new URLSearchParams({ system })}` : "";
  const post = (more) => api(`/api/ops/jobs/bulk${where}`, { method: "POST", body: { action, q, ids, ...more } });
  const dry = await post({ dry_run: true, limit: 200, priority: 2 });
  const isPart = dry.next && !ids;
  const more = isPart && !total ? " or more" : "";
  const [title, past] = VERBS[action];
  const verb = title.replace(/ of$/, "");
  const left = dry.refused.length;
  const given = await ask(`${title} ${count(isPart && total ? total : dry.done.length, "job")}${more}?`, {
    words: `${isPart && total ? `Of the first ${dry.done.length + left}, ` : ""}${dry.done.length}${more} would be ${past}${left ? `; ${left}${more} would be left alone: ${dry.refused[0].detail}` : "."}`,
    fields: FIELDS[action] ?? [],
    verb,
    danger: HARD.includes(action),
  });
  if (!given) return null;
  const sum = await run(verb, total, (next) => post({ next, limit: ids ? 200 : 50, evidence: given.evidence || null, priority: given.priority ? Number(given.priority) : null }));
  chosen = new Set();
  return sum;
}

// Page after page, with what was done so far of how many; a pause and a stop take hold between two pages.
async function run(title, total, step) {
  const sum = { done: 0, refused: 0, why: "", isStopped: false };
  let wake = null;
  const words = el("p", { role: "status" });
  const hold = el("button", { type: "button", class: "quiet", onclick: () => toggle() }, "Pause");
  const stop = el("button", { type: "button", class: "danger", onclick: () => end() }, "Stop");
  const bar = el("progress", { max: total && String(total), value: total && "0", "aria-label": title });
  const box = el("dialog", { "aria-label": `${title}: progress` }, el("h2", {}, title), words, bar, el("div", { class: "acts" }, hold, stop));
  let paused = null;
  function toggle() {
    if (paused) {
      wake();
      paused = null;
    } else paused = new Promise((go) => (wake = go));
    hold.textContent = paused ? "Go on" : "Pause";
  }
  function end() {
    sum.isStopped = true;
    wake?.();
  }
  nameDialog(box);
  document.body.append(box);
  box.addEventListener("cancel", (event) => event.preventDefault());
  box.showModal();
  try {
    let next = null;
    do {
      const page = await step(next);
      sum.done += page.done.length;
      sum.refused += page.refused.length;
      sum.why ||= page.refused[0]?.detail ?? "";
      next = page.next;
      if (total) bar.value = Math.min(total, sum.done + sum.refused);
      words.textContent = `${sum.done.toLocaleString("en")} done${total ? ` of ${total.toLocaleString("en")}` : ""}, ${sum.refused} left alone`;
      if (paused) await paused;
    } while (next && !sum.isStopped);
  } catch (error) {
    say(`It stopped after ${count(sum.done, "job")}: ${error.message}`, "error");
    sum.isStopped = true;
  } finally {
    box.close();
    box.remove();
  }
  return sum;
}
