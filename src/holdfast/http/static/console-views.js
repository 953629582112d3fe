// The console's lists. Everything a user or a provider wrote goes through el(), which never parses HTML.
import { api, chart, el } from "/static/holdfast.js";

export function table(columns, rows, pick) {
  if (!rows.length) return el("p", { class: "soft" }, "Nothing.");
  const line = (row) => el("tr", pick ? { class: "pick", tabindex: "0", onclick: () => pick(row), onkeydown: (e) => { if (e.key === "Enter") pick(row); } } : {},
    columns.map(([, cell]) => el("td", {}, typeof cell === "function" ? cell(row) : text(row[cell]))));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, columns.map(([title]) => el("th", { scope: "col" }, title)))),
    el("tbody", {}, rows.map(line))));
}
export const text = (value) => value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
export const when = (value) => value ? new Date(value).toLocaleString() : "";
export const pill = (word) => el("span", { class: `pill ${{ succeeded: "good", closed: "good", sent: "good", published: "good", resolved: "good", dead: "error", open: "error", escalated: "error", failed: "error", review: "warn", half_open: "warn", unknown: "warn", waiting: "warn", cancelled: "warn" }[word] ?? ""}` }, word ?? "");
export const errorOf = (value) => { try { const one = typeof value === "string" ? JSON.parse(value) : value; return one ? `${one.error_class}: ${one.message}` : ""; } catch { return text(value); } };

const past = {};
export async function overview() {
  const { items } = await api("/api/ops/overview");
  return el("div", {}, el("h2", {}, "Overview"), el("div", { class: "grid" }, items.map(card)));
}
function card(one) {
  const depth = (state) => one.lanes.filter((lane) => lane.state === state).reduce((sum, lane) => sum + lane.jobs, 0);
  const done = one.finished_last_hour.filter((row) => row.state === "succeeded").reduce((sum, row) => sum + Number(row.jobs), 0);
  const dead = one.finished_last_hour.filter((row) => row.state === "dead").reduce((sum, row) => sum + Number(row.jobs), 0);
  const kept = (past[one.system] ??= { queued: [], done: [] });
  kept.queued.push(depth("queued") + depth("parked")); kept.done.push(done);
  for (const list of Object.values(kept)) if (list.length > 60) list.shift();
  const number = (value, name, kind) => el("div", { class: "number" }, el("strong", { class: kind }, String(value)), el("span", { class: "soft" }, name));
  return el("section", { class: "card" }, el("h2", {}, one.title),
    el("div", { class: "numbers" }, number(depth("queued"), "queued"), number(depth("parked"), "held", depth("parked") ? "warn" : ""), number(depth("processing"), "running"),
      number(`${Math.round(one.oldest_age_s)} s`, "oldest"), number(done, "done in the last hour", "good"), number(dead, "died in the last hour", dead ? "error" : ""),
      number(one.dead_letters_open, "dead letters to work on", one.dead_letters_open ? "error" : ""), number(one.outbox_pending, "messages to publish"), number(one.workers, "workers")),
    el("div", {}, el("span", { class: "soft" }, "waiting"), chart(kept.queued, "waiting jobs")),
    el("div", {}, el("span", { class: "soft" }, "done in the last hour"), chart(kept.done, "jobs done")),
    one.breakers_not_closed.length ? el("p", { class: "warn" }, `Not called at present: ${one.breakers_not_closed.join(", ")}`) : null);
}

const filters = { state: "", system: "" };
export async function jobs(rest, again) {
  const query = new URLSearchParams({ limit: "50" });
  if (filters.state) query.set("state", filters.state);
  if (rest[0]) query.set("q", rest[0]);
  const { items } = await api(`/api/ops/jobs?${query}`);
  const choose = el("select", { id: "state", onchange: (event) => { filters.state = event.target.value; again(); } },
    ["", "queued", "processing", "waiting", "succeeded", "dead", "cancelled"].map((one) => el("option", { value: one, selected: one === filters.state }, one || "every state")));
  return el("div", {}, el("h2", {}, rest[0] ? `Jobs matching ${rest[0]}` : "Jobs"), el("div", { class: "row" }, el("div", {}, el("label", { for: "state" }, "State"), choose)),
    table([["System", "system"], ["Kind", "kind"], ["Stage", "stage"], ["State", (row) => el("span", {}, pill(row.state), row.parked ? " held" : "")], ["Failures", "failures"],
      ["Updated", (row) => when(row.updated_at)], ["Error", (row) => errorOf(row.error)], ["Id", (row) => el("code", {}, row.id)]],
    items, (row) => { location.hash = `job/${row.id}`; }));
}

export async function breakers(rest, again) {
  const { items } = await api("/api/ops/breakers");
  const act = async (row, verb) => {
    const reason = verb === "open" ? prompt("Why is it opened?") : "closed by hand";
    if (reason === null) return;
    await api(`/api/ops/breakers/${encodeURIComponent(row.name)}/${verb}?system=${encodeURIComponent(row.system)}`, { method: "POST", body: { reason: reason || "by hand" } });
    again();
  };
  return el("div", {}, el("h2", {}, "Breakers"), table([["System", "system"], ["Provider", "name"], ["Gate", (row) => pill(row.gate)], ["Why", (row) => text(row.reason)],
    ["Jobs held", "parked"], ["Asked to wait until", (row) => when(row.not_before)], ["", (row) => row.gate === "closed"
      ? el("button", { class: "quiet", onclick: () => act(row, "open") }, "Open") : el("button", { class: "quiet", onclick: () => act(row, "close") }, "Close")]], items));
}

export async function outbox(rest, again) {
  const { items } = await api("/api/ops/outbox");
  const requeue = async (row) => { await api(`/api/ops/outbox/${row.id}/requeue`, { method: "POST" }); again(); };
  return el("div", {}, el("h2", {}, "Messages not yet published"), table([["System", "system"], ["To", "destination"], ["Type", "message_type"], ["Status", (row) => pill(row.status)],
    ["Since", (row) => when(row.created_at)], ["Tries", "retry_count"], ["Error", "error_message"],
    ["", (row) => row.status === "failed" ? el("button", { class: "quiet", onclick: () => requeue(row) }, "Try again") : null]], items));
}

export async function effects(rest, again) {
  const { items } = await api("/api/ops/effects");
  const answer = async (row, sent) => { await api("/api/ops/effects/answer", { method: "POST", body: { key: row.key, sent } }); again(); };
  return el("div", {}, el("h2", {}, "External effects"), el("p", { class: "soft" }, "Those in review wait for a person: nobody else can know whether they happened."),
    table([["System", "system"], ["Key", "key"], ["Provider", (row) => `${row.provider} (${row.provider_class})`], ["Status", (row) => pill(row.status)], ["Sends", "sends"],
      ["Provider's id", "provider_id"], ["Error", "error"], ["", (row) => row.status === "review" ? el("span", {}, el("button", { class: "quiet", onclick: () => answer(row, true) }, "It happened"),
        el("button", { class: "quiet", onclick: () => answer(row, false) }, "It did not")) : null]], items));
}

export async function instructor(rest, again) {
  const { items } = await api("/api/instructor/queue");
  const act = async (row, verb, data) => { await api(`/api/submissions/${row.id}/${verb}`, { method: "POST", body: data }); document.activeElement?.blur(); again(); };
  const score = (row) => el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); act(row, "review", { overallScore: Number(event.target.score.value) }); } },
    el("label", { class: "visually-hidden", for: `s-${row.id}` }, "Score from 0 to 10"),
    el("input", { id: `s-${row.id}`, name: "score", type: "number", min: "0", max: "10", step: "0.5", required: true, placeholder: "0 to 10" }),
    el("button", {}, "Grade"), el("button", { type: "button", class: "quiet", onclick: () => act(row, "review/release") }, "Release"));
  return el("div", {}, el("h2", {}, "Grades that ask for an instructor"), table([["Priority", "reviewPriority"], ["Skill", "skill"], ["Text", (row) => text(row.payload?.text ?? row.payload?.audioUrl).slice(0, 300)],
    ["AI's score", (row) => text(row.aiResult?.overallScore)], ["Confidence", (row) => text(row.aiResult?.confidenceScore)], ["Since", (row) => when(row.createdAt)],
    ["Yours", (row) => row.claimedBy ? score(row) : el("button", { class: "quiet", onclick: () => act(row, "review/claim") }, "Claim")]], items));
}
