// The front page: what runs here, and one form for each system that follows its work to the result.
import { api, at, clock, el, follow, morph, token, uuid, who } from "./holdfast.js";

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const HEALTH_MS = 5000;
const LOOK_MS = 500;

// The story of one try: lines with the time, then the result. A new try begins a new story.
function story(form) {
  const box = form.parentElement.querySelector(".follow");
  const list = el("ol", { class: "story" });
  box.replaceChildren(list);
  let last = "";
  return {
    say(words, kind) {
      if (words !== last) list.append(el("li", { class: kind }, el("time", {}, clock(Date.now())), words));
      last = words;
    },
    show: (node) => box.append(node),
  };
}

function onSubmit(id, run) {
  const form = document.querySelector(`#${id}`);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    const out = story(form);
    try {
      await run(form.elements, out);
    } catch (error) {
      out.say(error.message, "error");
      if (error.status === 401)
        out.show(el("p", {}, el("a", { href: at("/login") }, "Sign in"), " with the link that was printed."));
    } finally {
      button.disabled = false;
    }
  });
}

// Grading

onSubmit("writing", (fields, out) =>
  grade(out, "writing", { text: fields.essay.value, taskType: fields.task.value, questionId: "try-it" }),
);

onSubmit("speaking", async (fields, out) => {
  out.say("uploading");
  const { audioUrl, durationSeconds } = await api("/api/recordings", { method: "POST", form: fields.audio.files[0] });
  out.say(`${durationSeconds} s of audio received`);
  await grade(out, "speaking", { audioUrl, durationSeconds, questionId: "try-it" });
});

async function grade(out, skill, payload) {
  const made = await api("/api/submissions", {
    method: "POST",
    headers: { "Idempotency-Key": uuid() },
    body: { skill, payload },
  });
  out.say(`accepted as ${made.id}, due by ${clock(made.deadlineAt)}`);
  const names = ["grading.progress", "grading.review_required", "grading.completed", "grading.failed"];
  follow(`/api/submissions/${made.id}/events`, names, async (name, data, close) => {
    if (name === "grading.progress") out.say(data.message || (data.status || "working").toLowerCase());
    if (name === "grading.review_required") {
      out.say("graded, but not surely enough: an instructor decides", "warn");
      out.show(decide(made.id, out));
    }
    if (name !== "grading.completed" && name !== "grading.failed") return;
    close();
    const done = await api(`/api/submissions/${made.id}`);
    if (name === "grading.failed") out.say(`failed: ${done.failureReason}`, "error");
    else showGrade(out, done.result ?? {});
  });
}

// Offline grading is never quite sure. Whoever may also be the instructor decides here, and sees the end of the story.
function decide(id, out) {
  if (!who()?.roles.includes("instructor"))
    return el("p", { class: "soft" }, "The grade appears here when it is final.");
  const submit = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const overallScore = Number(form.elements.score.value);
    form.querySelector("button").disabled = true;
    try {
      await api(`/api/submissions/${id}/review/claim`, { method: "POST" });
      await api(`/api/submissions/${id}/review`, { method: "POST", body: { overallScore } });
      form.remove();
    } catch (error) {
      out.say(error.message, "error");
      form.querySelector("button").disabled = false;
    }
  };
  const field = `score-${id}`;
  return el(
    "form",
    { class: "result", onsubmit: submit },
    el("p", {}, "You may be the instructor too, here or in ", el("a", { href: at("/instructor") }, "the queue"), "."),
    el(
      "div",
      { class: "row" },
      el(
        "div",
        {},
        el("label", { for: field }, "Your score, 0 to 10"),
        el("input", {
          id: field,
          name: "score",
          type: "number",
          min: "0",
          max: "10",
          step: "0.1",
          value: "6",
          required: true,
        }),
      ),
      el("button", {}, "Decide"),
    ),
  );
}

function showGrade(out, result) {
  out.say("graded", "good");
  out.show(
    el(
      "div",
      { class: "result" },
      el("div", { class: "score" }, `${result.overallScore ?? "?"} / 10, band ${result.band ?? "?"}`),
      el("div", { class: "soft" }, `confidence ${result.confidenceScore ?? "?"} %`),
      result.transcript ? el("p", {}, `Heard: ${result.transcript}`) : null,
      el(
        "ul",
        {},
        Object.entries(result.criteria ?? {}).map(([name, one]) =>
          el("li", {}, `${name}: ${one?.score ?? ""}. ${one?.feedback ?? ""}`),
        ),
      ),
    ),
  );
}

// Conversion

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

// Review

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

// What runs here. Anybody sees whether it is ready; an operator sees how busy it is and what asks for a person.

async function health() {
  const well = document.querySelector("#well");
  try {
    const answer = await fetch(at("/readyz"));
    const body = await answer.json();
    const busy = who()?.roles.includes("operator") ? await glances() : new Map();
    const names = Object.keys(body.systems ?? {});
    const lines = names.map((name) => line(name, body.systems[name], busy.get(name)));
    morph(document.querySelector("#systems"), el("ul", { id: "systems" }, lines));
    well.textContent = answer.ok ? "Everything is ready." : "Not everything is ready.";
    well.className = answer.ok ? "good" : "error";
    for (const card of document.querySelectorAll("[data-needs]"))
      card.hidden = names.length > 0 && !names.includes(card.dataset.needs);
  } catch {
    well.textContent = "The server does not answer.";
    well.className = "error";
  }
}

async function glances() {
  try {
    return new Map((await api("/api/ops/overview")).items.map((one) => [one.system, one]));
  } catch {
    return new Map();
  }
}

function line(name, state, glance) {
  const kind = state !== "ready" ? "error" : { red: "error", yellow: "warn" }[glance?.light] ?? "good";
  const words = state !== "ready" ? state : glance?.asks[0]?.topic.replaceAll("_", " ") ?? "ready";
  const live = glance?.lanes?.reduce((sum, lane) => sum + lane.jobs, 0) ?? 0;
  return el(
    "li",
    {},
    el("span", { class: `pill ${kind}` }, words),
    ` ${glance?.title ?? name}`,
    glance?.runs_jobs
      ? el("span", { class: "soft small" }, ` ${count(live, "unfinished job")}, ${count(glance.workers, "worker")}`)
      : null,
    glance?.dead_letters_open
      ? [" ", el("a", { href: at("/console#dead") }, count(glance.dead_letters_open, "dead letter"))]
      : null,
  );
}

function greet() {
  const me = who();
  const box = document.querySelector("#who");
  if (token() && me) box.replaceChildren(`signed in as ${me.sub}`);
  else box.replaceChildren(el("a", { href: at("/login") }, "Sign in to try it"));
}

greet();
health();
setInterval(health, HEALTH_MS);
