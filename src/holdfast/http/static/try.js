// Something to try on the front page: a form of a system's own that follows its work to the result.
import { at, clock, el } from "./holdfast.js";

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

// Run what a form asks for, with its fields and the story to tell; what it raises ends the story.
export function onSubmit(id, run) {
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
