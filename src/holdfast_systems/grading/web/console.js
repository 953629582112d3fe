// What grading brings to the console: its tabs and views, and the grades that ask for a person.
import { api, el, who } from "../holdfast.js";
import { ago, count, link, pill, table } from "../parts.js";
import { at } from "../root.js";
import { service } from "./service.js";
import { letterQueue, submission, submissions } from "./submissions.js";

export const tabs = [
  ["submissions", "Submissions", "s", "M3.5 1.8h9v12.4h-9zM6 5h4M6 8h4M6 11h2"],
  ["dlq", "Letters", "l", "M2 6.5h12v7H2zM2 6.5 8 2l6 4.5-6 3.5z"],
  ["queue", "Instructors", "q", "M8 2.5 15 6 8 9.5 1 6zM4 7.8v3.4c2 1.7 6 1.7 8 0V7.8"],
];
export const views = { submissions, submission, dlq: letterQueue, queue, service };
export const belongs = { submission: "submissions", service: "submissions" };

export async function asks() {
  if (!who()?.roles.includes("instructor")) return [];
  const { items } = await api("/api/instructor/queue?limit=200");
  return items.length ? [link("#queue", `${count(items.length, "grade")} waiting for an instructor`)] : [];
}

// The instructor queue, to look at: the work is done at the instructor's desk.
async function queue() {
  const title = el("h2", { tabindex: "-1" }, "Instructor queue");
  if (!who()?.roles.includes("instructor"))
    return el("div", {}, title, el("p", { class: "callout warn" }, "This needs the role instructor, which your token does not have."));
  const { items } = await api("/api/instructor/queue?limit=200");
  const columns = [
    ["Work", (row) => el("a", { href: at(`/instructor#${row.id}`) }, `${row.skill} by ${row.userId}`)],
    ["Priority", (row) => pill(row.reviewPriority)],
    ["The machine", (row) => `${row.aiResult?.overallScore ?? ""}, confidence ${row.aiResult?.confidenceScore ?? ""} %`],
    ["Came", (row) => ago(row.createdAt)],
    ["Claimed by", (row) => row.claimedBy ?? ""],
  ];
  return el("div", {}, title, el("p", {}, el("a", { class: "button", href: at("/instructor") }, "Open the instructor's desk")), table(columns, items, (row) => row.id, "Nothing waits for an instructor."));
}
