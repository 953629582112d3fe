// What grading brings to the console: its tabs and views, and the grades that ask for a person.
import { api, who } from "../holdfast.js";
import { count, link } from "../parts.js";
import { instructor } from "./queue.js";
import { service } from "./service.js";
import { letterQueue, submission, submissions } from "./submissions.js";

export const tabs = [
  ["submissions", "Submissions", "s"],
  ["dlq", "Letters", "l"],
  ["queue", "Instructors", "q"],
];
export const views = { submissions, submission, dlq: letterQueue, queue: instructor, service };
export const belongs = { submission: "submissions", service: "submissions" };

export async function asks() {
  if (!who()?.roles.includes("instructor")) return [];
  const { items } = await api("/api/instructor/queue?limit=200");
  return items.length ? [link("#queue", `${count(items.length, "grade")} waiting for an instructor`)] : [];
}
