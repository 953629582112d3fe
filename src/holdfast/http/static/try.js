// Something to try on the front page: a form of a system's own that follows its work to the result. What was tried last
// and typed is kept for this tab, with the moment of every line: a reload goes on with it.
import { restore } from "./drafts.js";
import { at, clock, el, who } from "./holdfast.js";

const key = (id) => `holdfast.try.${id}`;

// The story of one try: lines with the time, then the result. A new try begins a new story.
function story(form, id, moments = {}) {
  const box = form.parentElement.querySelector(".follow");
  const list = el("ol", { class: "story" });
  box.replaceChildren(list);
  let last = "";
  return {
    say(words, kind) {
      const text = typeof words === "string" ? words : words.textContent;
      if (text === last) return;
      last = text;
      moments[text] ??= Date.now();
      list.append(el("li", { class: kind }, el("time", {}, clock(moments[text])), words));
      this.keep();
    },
    what: null,
    keep() {
      if (this.what) sessionStorage.setItem(key(id), JSON.stringify({ what: this.what, moments }));
    },
    show(node) {
      box.querySelector(`.${node.classList[0]}`)?.remove();
      box.append(node);
    },
  };
}

// The number of what was accepted; an operator can look at it in the console.
export function accepted(id, place, more = "") {
  const words = who()?.roles.some((role) => role === "operator" || role === "viewer") ? el("a", { href: at(`/console#${place}`) }, id) : id;
  return el("span", {}, "accepted as ", words, more);
}

const wayIn = () => el("p", { class: "hint" }, el("a", { href: at("/login") }, "Sign in"), " with the link that was printed.");

// `start` sends what the form asks for and gives what is followed, as JSON; `follow` tells its story, now or after a
// reload. What they raise ends the story.
export function tryOut(id, { start, follow }) {
  const form = document.querySelector(`#${id}`);
  const button = form.querySelector("button");
  async function tell(out, run) {
    button.disabled = true;
    form.parentElement.setAttribute("aria-busy", "true");
    try {
      await run();
    } catch (error) {
      out.say(error.message, "error");
      if (error.status === 401) out.show(wayIn());
    } finally {
      button.disabled = false;
      form.parentElement.removeAttribute("aria-busy");
    }
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const out = story(form, id);
    if (!who()) {
      out.say("Sign in first; what you typed stays.", "warn");
      out.show(wayIn());
      return;
    }
    tell(out, async () => {
      out.what = await start(form.elements, out);
      out.keep();
      await follow(out.what, out);
    });
  });
  restore(form);
  const known = sessionStorage.getItem(key(id));
  if (!known || !who()) return;
  const { what, moments } = JSON.parse(known);
  if (!what) return;
  const out = Object.assign(story(form, id, moments), { what });
  tell(out, () => follow(what, out));
}
