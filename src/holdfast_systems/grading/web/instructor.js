// The instructor queue as a page of its own, for an instructor who is no operator.
import { el, morph, signIn, who } from "../holdfast.js";
import { instructor } from "./queue.js";

const REFRESH_MS = 3000;
const view = document.querySelector("#view");

async function show() {
  if (document.hidden) return;
  let made;
  try {
    made = who()
      ? await instructor({}, show)
      : el("p", {}, el("a", { href: signIn("instructor") }, "Sign in"), " with a token of the role instructor.");
  } catch (error) {
    made = el("p", { class: "callout error", role: "alert" }, error.message);
  }
  morph(view, el("main", { id: "view" }, made));
}

document.querySelector("#who").textContent = who()?.sub ?? "not signed in";
setInterval(show, REFRESH_MS);
show();
