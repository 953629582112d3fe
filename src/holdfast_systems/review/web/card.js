// Trying review on the front page: a git range, followed to its findings and mails.
import { api, el, uuid } from "../holdfast.js";
import { onSubmit } from "../try.js";

const LOOK_MS = 500;

onSubmit("review", async (fields, out) => {
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
  out.say(`accepted as ${id}`);
  for (;;) {
    const now = await api(`/api/changelists/${id}/reviews/1`);
    if (now.status === "succeeded" || now.status === "failed") {
      showReview(out, now);
      return;
    }
    out.say(
      `${now.status.replaceAll("_", " ")}${now.stage ? `, stage ${now.stage}` : ""}`,
      now.status === "retryable_failed" ? "warn" : null,
    );
    await new Promise((go) => setTimeout(go, LOOK_MS));
  }
});

function showReview(out, now) {
  if (now.status === "failed") out.say(`failed: ${now.failure?.message ?? now.failure?.error_class ?? ""}`, "error");
  else out.say("reviewed", "good");
  const findings = now.result?.findings ?? [];
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
      el("div", { class: "soft" }, now.deliveries.map((one) => `${one.recipient}: ${one.status}`).join("; ")),
    ),
  );
}
