// What somebody types and has not sent yet. It lives as long as the tab: a refresh, a deploy, a reload and a new sign-in
// leave it; what was sent, and another person who signs in, end it. What nobody had signed in for belongs to who signs in
// first. A search is no draft: it stands in the address.
import { who } from "./session.js";

const KEY = "holdfast.drafts";
const LENGTH_MAX = 200_000;
const TYPED = "textarea, select, input:is([type=text], [type=number], [type=url], [type=email], [type=checkbox])";

function read() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
    return (kept.sub ?? who()?.sub) === who()?.sub ? (kept.drafts ?? {}) : {};
  } catch {
    return {};
  }
}

function write(drafts) {
  const words = JSON.stringify({ sub: who()?.sub ?? null, drafts });
  if (words.length <= LENGTH_MAX) sessionStorage.setItem(KEY, words);
}

const place = () => location.pathname + location.hash.split("?")[0];
const valueOf = (input) => (input.type === "checkbox" ? input.checked : input.value);
const isTyped = (input) =>
  input.matches(TYPED) && input.name && input.closest("form")?.getAttribute("role") === null;

function startOf(input) {
  if (input.type === "checkbox") return input.defaultChecked;
  if (input.nodeName !== "SELECT") return input.defaultValue;
  return [...input.options].find((option) => option.defaultSelected)?.value ?? input.options[0]?.value ?? "";
}

// A form is known by the page it stands on, and a dialog by its title and the row it was asked for, too.
let subject = "";
export function actOn(button) {
  subject = button?.closest?.("[data-key]")?.dataset.key ?? "";
}
function formName(form) {
  const dialog = form.closest("dialog");
  return dialog ? `${dialog.dataset.place}|${dialog.getAttribute("aria-label")}|${dialog.dataset.subject}` : place();
}
const nameOf = (input) => `${formName(input.form)}|${input.id || input.name}`;

export function nameDialog(dialog) {
  dialog.dataset.place = place();
  dialog.dataset.subject = subject;
}

document.addEventListener("input", ({ target }) => {
  if (!isTyped(target)) return;
  const drafts = read();
  drafts[nameOf(target)] = { value: valueOf(target), start: startOf(target), at: Date.now() };
  write(drafts);
});

// Put back what was typed into the fields below `root` that stand as they were drawn. True if there was something.
export function restore(root) {
  const drafts = read();
  let isBack = false;
  for (const input of root.querySelectorAll(TYPED)) {
    if (!input.form || !isTyped(input) || valueOf(input) !== startOf(input)) continue;
    const draft = drafts[nameOf(input)];
    if (!draft || draft.value === valueOf(input)) continue;
    if (input.type === "checkbox") input.checked = draft.value;
    else input.value = draft.value;
    for (let box = input.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    isBack = true;
  }
  return isBack;
}

// The names of a form's fields, to end their drafts once they were sent: the form itself may be gone by then.
export const fieldsOf = (form) => [...form.elements].filter(isTyped).map(nameOf);

export function drop(names) {
  const drafts = read();
  for (const name of names) delete drafts[name];
  write(drafts);
}
