// Dead letters: grouped by what they have in common, and one case as the five steps of its workflow.
import { api, el } from "/static/holdfast.js";
import { pill, table, text, when } from "/static/console-views.js";

const CAUSES = ["transient", "data", "auth_config", "code"];
export async function letters(rest, again) {
  const [{ items: groups }, { items }] = await Promise.all([api("/api/ops/dead-letters/groups"), api("/api/ops/dead-letters?limit=100")]);
  const first = (row) => ({ escalated: 0, open: 1, triaged: 2, remediated: 3, replayed: 4, resolved: 5 })[row.state];
  items.sort((a, b) => first(a) - first(b));
  return el("div", {}, el("h2", {}, "Dead letters"), el("h3", {}, "By what they have in common"),
    table([["System", "system"], ["Kind", "kind"], ["Stage", "stage"], ["Error", "error_class"], ["State", (row) => pill(row.state)], ["Letters", "letters"], ["Last", (row) => when(row.last_at)],
      ["", (row) => row.state === "resolved" || row.state === "replayed" ? null : el("button", { class: "quiet", onclick: (event) => { event.stopPropagation(); together(row, again); } }, "Act on all")]], groups),
    el("h3", {}, "Each"), table([["State", (row) => pill(row.state)], ["System", "system"], ["Kind", "kind"], ["Stage", "stage"], ["Error", "error_class"], ["Why", "failure_reason"], ["Tries", "attempts_made"],
      ["Last error", "last_error"], ["When", (row) => when(row.last_failure_at)]], items, (row) => { location.hash = `letter/${row.id}`; }));
}

async function together(group, again) {
  const filter = { fingerprint: group.fingerprint, state: group.state };
  const send = (verb, body) => api(`/api/ops/dead-letters/bulk/${verb}?system=${encodeURIComponent(group.system)}`, { method: "POST", body });
  if (group.state === "open" || group.state === "escalated") {
    const cause = prompt(`Cause of all ${group.letters}: ${CAUSES.join(", ")}?`, "transient");
    if (cause) await send("triage", { filter, cause });
  } else if (group.state === "triaged") {
    const evidence = prompt(`What was mended for all ${group.letters}, and how is that known?`);
    if (evidence) await send("remediate", { filter, evidence });
  } else if (group.state === "remediated") {
    const dry = await send("replay", { filter, dry_run: true });
    const rate = prompt(`${dry.done.length} would be replayed, ${dry.refused.length} refused. How many a minute?`, "60");
    if (rate) await send("replay", { filter, per_minute: Number(rate) });
  }
  again();
}

const STEPS = [["open", "1 Triage"], ["triaged", "2 Remediate"], ["remediated", "3 Validate and replay"], ["replayed", "4 Verify"], ["resolved", "5 Resolved"]];
export async function letter(id, again) {
  const one = await api(`/api/ops/dead-letters/${encodeURIComponent(id)}`);
  const at = STEPS.findIndex(([state]) => state === (one.state === "escalated" ? "open" : one.state));
  const facts = [["Error", `${one.error_class} (${one.category})`], ["Why it died", one.failure_reason], ["Tries", one.attempts_made], ["Last error", one.last_error], ["First failure", when(one.first_failure_at)],
    ["Last failure", when(one.last_failure_at)], ["Died", `${one.deaths} time(s), replayed ${one.replays}`], ["Cause", one.cause], ["Evidence", one.evidence], ["Notes", one.notes], ["Original", one.original]];
  return el("div", {}, el("h2", {}, `${one.kind}, stage ${one.stage} `, pill(one.state)),
    el("ol", { class: "steps" }, STEPS.map(([, title], i) => el("li", { class: i < at ? "done" : i === at ? "now" : null, "aria-current": i === at ? "step" : null }, title))),
    el("p", {}, `Next: ${one.next_step}.`), form(one, again),
    el("p", {}, el("a", { href: `#job/${one.job_id}` }, "The job's whole story")),
    table([["", (row) => el("strong", {}, row[0])], ["", (row) => text(row[1])]], facts.filter(([, value]) => value !== null && value !== undefined && value !== "")),
    el("h3", {}, "Context"), el("pre", {}, pretty(one.sanitized_context)), one.last_stack ? el("h3", {}, "Stack") : null, one.last_stack ? el("pre", {}, one.last_stack) : null,
    el("h3", {}, "History"), table([["When", (row) => when(row.at)], ["Who", "actor"], ["What", "action"], ["Details", (row) => text(row.data)]], one.audit ?? []));
}
const pretty = (value) => { try { return JSON.stringify(typeof value === "string" ? JSON.parse(value) : value, null, 2); } catch { return text(value); } };

function form(one, again) {
  const said = el("p", { class: "error", role: "alert" });
  const act = (verb, body) => async (event) => {
    event.preventDefault();
    try { await api(`/api/ops/dead-letters/${one.id}/${verb}`, { method: "POST", body: body(event.target) }); document.activeElement?.blur(); await again(); } catch (error) { said.textContent = error.message; }
  };
  const area = (name, label) => [el("label", { for: name }, label), el("textarea", { id: name, name, required: true })];
  const close = el("form", { onsubmit: act("resolve", (f) => ({ notes: f.notes.value })) }, area("notes", "How it ended"), el("button", { class: one.state === "replayed" ? null : "quiet" }, "Resolve"));
  if (one.state === "resolved") return null;
  const work = one.state === "open" || one.state === "escalated"
    ? el("form", { onsubmit: act("triage", (f) => ({ cause: f.cause.value, notes: f.found.value || null })) }, el("label", { for: "cause" }, "What kind of cause was it?"),
      el("select", { id: "cause", name: "cause" }, CAUSES.map((cause) => el("option", { value: cause }, cause))), el("label", { for: "found" }, "What you found"), el("input", { id: "found", name: "found", type: "text" }), el("button", {}, "Triage"))
    : one.state === "triaged" ? el("form", { onsubmit: act("remediate", (f) => ({ evidence: f.evidence.value })) }, area("evidence", "What was mended, and how is that known?"), el("button", {}, "Record the remediation"))
    : one.state === "remediated" ? el("form", { onsubmit: act("replay", (f) => ({ full: f.full.checked })) }, el("p", {}, `Evidence on record: ${one.evidence}. Effects already performed are not repeated: the ledger knows them.`),
      el("label", {}, el("input", { type: "checkbox", name: "full" }), " restart from the first stage, paying for all of them again"), el("button", {}, `Replay from ${one.stage}`)) : null;
  return el("div", { class: "card" }, work, close, said);
}
