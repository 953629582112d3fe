// Trying review on the front page: a git range, followed to its findings and the mails that were sent.
import { api, el, uuid } from "../holdfast.js";
import { accepted, tryOut } from "../try.js";

const LOOK_MS = 500;

tryOut("review", {
  async start(fields) {
    const id = `try-${Date.now()}`;
    const recipients = fields.to.value
      .split(",")
      .map((one) => one.trim())
      .filter(Boolean);
    const source = { type: "git", repo: fields.repo.value, range: fields.range.value };
    await api(`/api/changelists/${id}/reviews`, {
      method: "POST",
      body: { idempotency_key: uuid(), review_version: 1, recipients, source },
    });
    return { id };
  },
  async follow({ id }, out) {
    let told = false;
    for (;;) {
      const now = await api(`/api/changelists/${id}/reviews/1`);
      if (!told) out.say(accepted(id, `job/${now.job_id}`));
      told = true;
      if (now.status === "succeeded" || now.status === "failed") {
        await showReview(out, now);
        return;
      }
      out.say(
        `${now.status.replaceAll("_", " ")}${now.stage ? `, stage ${now.stage}` : ""}`,
        now.status === "retryable_failed" ? "warn" : null,
      );
      await new Promise((go) => setTimeout(go, LOOK_MS));
    }
  },
});

async function showReview(out, now) {
  if (now.status === "failed") out.say(`failed: ${now.failure?.message ?? now.failure?.error_class ?? ""}`, "error");
  else out.say("reviewed", "good");
  const findings = now.result?.findings ?? [];
  const base = `/api/changelists/${encodeURIComponent(now.changelist_id)}/reviews/${now.review_version}`;
  const mails = await Promise.all(now.deliveries.map((one) => mailOf(base, one)));
  out.show(
    el(
      "div",
      { class: "result" },
      el("strong", {}, now.result?.summary ?? "No review was written."),
      el(
        "ul",
        {},
        findings.slice(0, 20).map((one) => el("li", {}, `${one.path}:${one.line} ${one.severity}: ${one.message}`)),
      ),
      el("div", { class: "soft" }, now.deliveries.map((one) => `${one.recipient}: ${statusOf(one, now)}`).join("; ")),
      mails,
    ),
  );
}

// Of a review that failed nothing more is sent.
const statusOf = (delivery, now) => (delivery.status === "pending" && now.status === "failed" ? "not sent" : delivery.status);

// The mail itself, where this machine keeps it.
async function mailOf(base, delivery) {
  if (delivery.status !== "sent") return null;
  const query = new URLSearchParams({ recipient: delivery.recipient });
  const mail = await api(`${base}/mail?${query}`).catch(() => null);
  if (!mail) return null;
  return el(
    "details",
    { class: "mail" },
    el("summary", {}, `The mail to ${mail.to}`),
    el("p", { class: "soft small" }, `From ${mail.from_}, ${mail.date}`),
    el("h4", {}, mail.subject),
    el("pre", { tabindex: "0" }, mail.text),
  );
}
