// One job: why it is where it is, in words, and its whole story.
import { api, el } from "/static/holdfast.js";
import { errorOf, pill, table, text, when } from "/static/console-views.js";

export async function job(id, again) {
  const one = await api(`/api/ops/jobs/${encodeURIComponent(id)}`);
  const live = ["queued", "processing", "waiting"].includes(one.state);
  const cancel = async () => { if (confirm("Cancel this job?")) { await api(`/api/ops/jobs/${id}/cancel`, { method: "POST" }); again(); } };
  return el("div", {}, el("h2", {}, one.kind, " ", pill(one.state)), el("p", {}, one.why),
    el("p", { class: "soft" }, el("code", {}, one.id), `, system ${one.system}, stage ${one.stage}, attempt ${one.attempt}, ${one.failures} failures in this stage, ${one.crashes} lost workers`),
    live ? el("button", { class: "quiet", onclick: cancel }, "Cancel") : null,
    one.dead_letter ? el("p", {}, el("a", { href: `#letter/${one.dead_letter.id}` }, "Work on its dead letter")) : null,
    one.error ? el("p", { class: "error" }, errorOf(one.error)) : null,
    part("Timeline", one.events, [["When", (row) => when(row.at)], ["Attempt", "attempt"], ["What", "type"], ["Details", (row) => text(row.data)]]),
    part("Stages done", one.results, [["Stage", "stage"], ["Attempt", "attempt"], ["When", (row) => when(row.at)], ["Late", (row) => row.is_late ? "yes" : ""], ["Result", (row) => text(row.value).slice(0, 400)]]),
    part(`Provider calls, ${(one.cost_micros / 1e6).toFixed(4)} spent`, one.calls, [["Provider", "provider"], ["Stage", "stage"], ["Outcome", "outcome"], ["Status", "status"], ["Error", "error_class"],
      ["ms", "duration_ms"], ["Cost", (row) => (row.cost_micros / 1e6).toFixed(4)]]),
    part("Effects", one.effects, [["Key", "key"], ["Provider", "provider"], ["Status", (row) => pill(row.status)], ["Sends", "sends"], ["Provider's id", "provider_id"]]),
    part("Messages", one.outbox, [["To", "destination"], ["Type", "message_type"], ["Status", (row) => pill(row.status)], ["Published", (row) => when(row.processed_at)]]),
    part("By hand", one.audit, [["When", (row) => when(row.at)], ["Who", "actor"], ["What", "action"]]));
}
const part = (title, rows, columns) => rows?.length ? el("section", {}, el("h3", {}, title), table(columns, rows)) : null;
