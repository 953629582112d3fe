import { api, clock, el, follow, token, uuid } from "/static/holdfast.js";

const told = (form) => form.parentElement.querySelector(".follow");
function story(form) {
  const list = el("ol", { class: "story" });
  told(form).replaceChildren(list);
  return { say: (text, kind) => list.append(el("li", { class: kind }, el("time", {}, clock(Date.now())), text)), show: (node) => told(form).append(node) };
}
function onSubmit(id, run) {
  const form = document.querySelector(`#${id}`);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    const out = story(form);
    try { await run(form, out); } catch (error) { out.say(error.message, "error"); } finally { button.disabled = false; }
  });
}

onSubmit("grading", async (form, out) => {
  const made = await api("/api/submissions", { method: "POST", headers: { "Idempotency-Key": uuid() },
    body: { skill: "writing", payload: { text: form.essay.value, taskType: form.task.value, questionId: "try-it" } } });
  out.say(`accepted as ${made.id}, due by ${clock(made.deadlineAt)}`);
  const names = ["grading.progress", "grading.review_required", "grading.completed", "grading.failed"];
  await follow(`/api/submissions/${made.id}/events`, names, async (name, data, close) => {
    if (name === "grading.progress") { out.say(data.message || (data.status || "working").toLowerCase()); return; }
    if (name === "grading.review_required") {
      out.say("graded, but not surely enough: an instructor decides", "warn");
      out.show(el("p", {}, el("a", { href: "/console#queue" }, "Be the instructor"), "; the grade appears here when it is final."));
      return;
    }
    close();
    const done = await api(`/api/submissions/${made.id}`);
    if (name === "grading.failed") { out.say(`failed: ${done.failureReason}`, "error"); return; }
    out.say("graded", "good");
    const result = done.result;
    out.show(el("div", { class: "result" }, el("strong", {}, `${result.overallScore ?? "?"} / 10, band ${result.band ?? "?"}`),
      el("div", { class: "soft" }, `confidence ${result.confidenceScore ?? "?"} %`),
      el("ul", {}, criteria(result).map((one) => el("li", {}, one)))));
  });
});
function criteria(result) {
  const found = result.criteria || result.criteriaScores || {};
  return Object.entries(found).map(([name, value]) => {
    const score = typeof value === "object" ? value.score : value;
    const words = typeof value === "object" ? value.feedback : (result.feedback || {})[name];
    return `${name}: ${score}${words ? `. ${Array.isArray(words) ? words.join(" ") : words}` : ""}`;
  });
}

onSubmit("conversion", async (form, out) => {
  const data = new FormData();
  data.append("file", form.pdf.files[0]);
  const job = await api("/api/jobs", { method: "POST", form: data });
  out.say(`accepted as ${job.id}`);
  const look = async (close) => {
    const now = await api(`/api/jobs/${job.id}`);
    if (!["complete", "failed", "cancelled", "expired"].includes(now.status)) { out.say(now.status); return; }
    close();
    if (now.status !== "complete") { out.say(`${now.error?.code}: ${now.error?.message}`, "error"); return; }
    out.say("converted", "good");
    const xml = await api(`/api/jobs/${job.id}/result`);
    out.show(el("pre", { class: "result" }, String(xml).slice(0, 1500)));
  };
  const names = ["queued", "processing", "retry", "complete", "failed", "cancelled", "expired", "message", "status"];
  await follow(`/api/jobs/${job.id}/events`, names, (name, body, close) => look(close));
});

onSubmit("review", async (form, out) => {
  const id = `try-${Date.now()}`;
  await api(`/api/changelists/${id}/reviews`, { method: "POST", body: { idempotency_key: uuid(), review_version: 1,
    recipients: form.to.value.split(",").map((one) => one.trim()).filter(Boolean),
    source: { type: "git", repo: form.repo.value, range: form.range.value } } });
  out.say(`accepted as ${id}`);
  let last = "";
  for (let turn = 0; turn < 240; turn += 1) {
    const now = await api(`/api/changelists/${id}/reviews/1`);
    const seen = `${now.status}${now.stage ? `, stage ${now.stage}` : ""}`;
    if (seen !== last) { out.say(seen, now.status === "succeeded" ? "good" : now.status === "failed" ? "error" : ""); last = seen; }
    if (now.status === "succeeded" || now.status === "failed") {
      const result = now.result || {};
      out.show(el("div", { class: "result" }, el("strong", {}, result.summary || ""),
        el("ul", {}, (result.findings || []).slice(0, 20).map((one) => el("li", {}, `${one.path}:${one.line} ${one.severity}: ${one.message}`))),
        el("div", { class: "soft" }, (now.deliveries || []).map((one) => `${one.recipient}: ${one.status}`).join("; "))));
      return;
    }
    await new Promise((go) => setTimeout(go, 500));
  }
});

async function health() {
  const box = document.querySelector("#health");
  try {
    const answer = await fetch("/readyz");
    const body = await answer.json();
    const rows = Object.entries(body.systems || {}).map(([name, one]) => {
      const ok = one === "ready";
      return el("li", {}, el("span", { class: `pill ${ok ? "good" : "error"}` }, ok ? "well" : String(one)), ` ${name}`);
    });
    box.replaceChildren(el("h2", {}, "What runs here"), rows.length ? el("ul", {}, rows) : el("p", {}, answer.ok ? "Everything is well." : "Something is not well."));
  } catch { box.replaceChildren(el("h2", {}, "What runs here"), el("p", { class: "error" }, "The server does not answer.")); }
}
document.querySelector("#who").replaceChildren(token() ? "signed in" : el("a", { href: "/login" }, "Sign in to try it"));
health();
setInterval(health, 5000);
