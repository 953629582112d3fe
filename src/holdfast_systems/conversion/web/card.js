// Trying conversion on the front page: a PDF, followed to its XML.
import { api, clock, el, follow } from "../holdfast.js";
import { onSubmit } from "../try.js";

onSubmit("conversion", async (fields, out) => {
  const form = new FormData();
  form.append("file", fields.pdf.files[0]);
  const job = await api("/api/jobs", { method: "POST", form });
  out.say(`accepted as ${job.id}`);
  const names = ["queued", "processing", "progress", "retry", "complete", "failed", "cancelled", "expired"];
  follow(`/api/jobs/${job.id}/events`, names, async (name, data, close) => {
    if (!["complete", "failed", "cancelled", "expired"].includes(name)) {
      out.say(data.retryAfter ? `failed for now; again at ${clock(data.retryAfter)}` : (data.status ?? name));
      return;
    }
    close();
    const now = await api(`/api/jobs/${job.id}`);
    if (now.status !== "complete") {
      out.say(now.error ? `${now.error.code}: ${now.error.message}` : now.status, "error");
      return;
    }
    out.say("converted", "good");
    out.show(el("pre", { class: "result" }, String(await api(`/api/jobs/${job.id}/result`)).slice(0, 1500)));
  });
});
