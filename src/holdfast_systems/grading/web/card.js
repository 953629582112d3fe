// Trying grading on the front page: an essay or a recording, followed to its grade.
import { api, at, clock, el, follow, uuid, who } from "../holdfast.js";
import { onSubmit } from "../try.js";

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
