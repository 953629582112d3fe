// Trying grading on the front page: an essay or a recording, followed to its grade.
import { api, at, clock, el, follow, uuid, who } from "../holdfast.js";
import { accepted, tryOut } from "../try.js";
import { gradeView } from "./grade.js";

const EVENTS = ["grading.progress", "grading.review_required", "grading.completed", "grading.failed"];

async function submit(skill, payload) {
  const made = await api("/api/submissions", {
    method: "POST",
    headers: { "Idempotency-Key": uuid() },
    body: { skill, payload },
  });
  return { id: made.id, dueAt: made.deadlineAt };
}

tryOut("writing", {
  start: (fields) =>
    submit("writing", { text: fields.essay.value, taskType: fields.task.value, questionId: "try-it" }),
  follow: followGrade,
});

tryOut("speaking", {
  async start(fields, out) {
    out.say("uploading");
    const { audioUrl, durationSeconds } = await api("/api/recordings", { method: "POST", form: fields.audio.files[0] });
    out.say(`${durationSeconds} s of audio received`);
    return submit("speaking", { audioUrl, durationSeconds, questionId: "try-it" });
  },
  follow: followGrade,
});

async function followGrade({ id, dueAt }, out) {
  out.say(accepted(id, `submission/${id}`, `, due by ${clock(dueAt)}`));
  await new Promise((ended, failed) => {
    follow(`/api/submissions/${id}/events`, EVENTS, async (name, data, close) => {
      try {
        if (name === "grading.progress") out.say(data.message || (data.status || "working").toLowerCase());
        if (name === "grading.review_required") await askInstructor(id, out);
        if (name === "grading.review_required") ended();
        if (name !== "grading.completed" && name !== "grading.failed") return;
        close();
        const done = await api(`/api/submissions/${id}`);
        if (name === "grading.failed") out.say(`failed: ${done.failureAdvice ?? done.failureReason}`, "error");
        else {
          out.say("graded", "good");
          out.show(gradeView(done.result ?? {}));
        }
        ended();
      } catch (error) {
        close();
        failed(error);
      }
    });
  });
}

// Offline grading is never quite sure: a person decides. Whoever may be that person sees the machine's grade.
async function askInstructor(id, out) {
  out.say("graded, but not surely enough: an instructor decides", "warn");
  if (!who()?.roles.includes("instructor")) {
    out.show(el("p", { class: "hint soft" }, "The grade appears here when it is final."));
    return;
  }
  const work = await api(`/api/instructor/submissions/${id}`);
  if (work.status !== "REVIEW_REQUIRED") return;
  const view = gradeView(work.aiResult ?? {}, { title: "What the machine says" });
  const accept = async (event) => {
    const button = event.currentTarget;
    button.disabled = true;
    try {
      await api(`/api/submissions/${id}/review/claim`, { method: "POST" });
      const { overallScore } = work.aiResult;
      await api(`/api/submissions/${id}/review`, { method: "POST", body: { overallScore, band: work.aiResult.band } });
    } catch (error) {
      out.say(error.message, "error");
      button.disabled = false;
    }
  };
  view.append(
    el(
      "div",
      { class: "acts" },
      el("button", { type: "button", onclick: accept }, "I am the instructor: it stands"),
      el("a", { href: at(`/instructor#${id}`) }, "Grade it at the instructor's desk"),
    ),
  );
  out.show(view);
}
