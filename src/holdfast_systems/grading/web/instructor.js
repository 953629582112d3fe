// The instructor's desk: the queue at the left, the work in the middle, the rubric with the grade at the right. The
// address after the # is the piece of work. What others claim is seen as it happens; what was typed stays.
import { api, el, follow, morph, signIn, token, uuid, who } from "../holdfast.js";
import { ago, doing, field, pill, say } from "../parts.js";
import { restore } from "../drafts.js";
import { at } from "../root.js";
import { gradeView } from "./grade.js";

const REFRESH_MS = 10000;
const BANDS = [[8.5, "C1"], [6, "B2"], [4, "B1"], [2.5, "A2"], [0, "A1"]];
const bandOf = (score) => BANDS.find(([least]) => score >= least)[1];
const PRIORITIES = ["Critical", "High", "Medium", "Low"];
const me = who();
const box = document.querySelector("#desk");
const filters = { skill: "", priority: "", free: false };
let items = [];
let counts = [];
let own = null; // one's own decisions, while they are looked at
let current = null;
const sounds = new Map();
const keys = new Map();

const chosenId = () => (/^#[0-9a-f-]{36}$/.test(location.hash) ? location.hash.slice(1) : null);
const isMine = (row) => row.claimedBy === me.sub;
const isOpen = (row) => row.status === "REVIEW_REQUIRED";

async function load() {
  const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value));
  ({ items, counts } = await api(`/api/instructor/queue?${query}`));
  if (own) own = (await api("/api/instructor/history")).items;
  const id = chosenId() ?? (own ?? items)[0]?.id ?? null;
  if (id && !chosenId()) history.replaceState(null, "", `#${id}`); // drafts are known by the address
  current = id ? await api(`/api/instructor/submissions/${id}`).catch(() => null) : null;
  if (current?.hasAudio) await loadSound(current.id);
}

// The player needs the token, which no address may carry: the sound is fetched, and played from memory.
async function loadSound(id) {
  if (sounds.has(id)) return;
  const answer = await fetch(at(`/api/instructor/submissions/${id}/audio`), { headers: { Authorization: `Bearer ${token()}` } });
  sounds.set(id, answer.ok ? URL.createObjectURL(await answer.blob()) : null);
}

// One drawing at a time, and one more where something has changed meanwhile: an older answer never covers a newer one.
let drawing = null;
let isStale = false;
function show() {
  isStale = true;
  drawing ??= drawUntilFresh().finally(() => {
    drawing = null;
  });
  return drawing;
}
async function drawUntilFresh() {
  while (isStale) {
    isStale = false;
    await draw();
  }
}

async function draw() {
  if (!me?.roles.includes("instructor")) {
    const words = me ? "This needs the role instructor, which your token does not have." : "Sign in with a token of the role instructor.";
    box.replaceChildren(el("p", { class: "callout warn" }, words, " ", el("a", { href: signIn("instructor") }, "Sign in")));
    return;
  }
  try {
    await load();
  } catch (error) {
    say(`Not up to date: ${error.message}`, "warn"); // what is shown stays, and so does what was typed
    return;
  }
  if (isStale && current && current.id !== chosenId()) return; // somebody went on meanwhile: a key must not meet what they left
  morph(box, el("div", { id: "desk" }, queue(), el("div", { class: "panes-of", key: current?.id ?? "none" }, current ? panes(current) : nothing())));
  restore(box);
  agree();
}

const nothing = () => el("p", { class: "callout good" }, own ? "You have not decided anything yet." : "Nothing waits for an instructor.");

function queue() {
  const total = counts.reduce((sum, one) => sum + one.waiting, 0);
  const number = (fits) => counts.filter(fits).reduce((sum, one) => sum + one.waiting, 0);
  const choose = (name) => (event) => {
    filters[name] = event.target.type === "checkbox" ? event.target.checked : event.target.value;
    show();
  };
  const skills = [["", `all skills (${total})`], ...["writing", "speaking"].map((skill) => [skill, `${skill} (${number((one) => one.skill === skill)})`])];
  const ranks = [["", "any priority"], ...PRIORITIES.map((rank) => [rank, `${rank} (${number((one) => one.priority === rank)})`])];
  const pick = (name, label, options) =>
    el("div", {}, el("label", { for: `f-${name}` }, label), el("select", { id: `f-${name}`, onchange: choose(name) }, options.map(([value, words]) => el("option", { value }, words))));
  const shown = own ?? items;
  return el(
    "section",
    { key: "queue", "aria-label": own ? "Your decisions" : "Queue" },
    el("div", { class: "bar" },
      el("button", { class: own ? "quiet" : null, onclick: () => look(null) }, "Queue"),
      el("button", { class: own ? null : "quiet", onclick: () => look([]) }, "Your decisions")),
    own ? null : el("div", { class: "filters" }, pick("skill", "Skill", skills), pick("priority", "Priority", ranks),
      el("label", { class: "inline" }, el("input", { type: "checkbox", id: "f-free", onchange: choose("free") }), el("span", {}, "hide what others have"))),
    el("ol", { class: "queue" }, shown.map(entry)),
  );
}

function look(history) {
  own = history;
  location.hash = "";
  show();
}

function entry(row) {
  const claim = isOpen(row)
    ? row.claimedBy && el("small", { class: isMine(row) ? "mine" : "theirs" }, isMine(row) ? "yours" : `claimed by ${row.claimedBy}`)
    : el("small", {}, `${row.finalResult?.overallScore}, ${row.mode}`);
  return el("li", { key: row.id },
    el("a", { href: `#${row.id}`, class: row.reviewPriority ?? "", "aria-current": String(row.id === current?.id) },
      el("strong", {}, row.skill), ` ${row.aiResult?.overallScore ?? ""} `, pill(row.reviewPriority ?? "done"),
      el("small", {}, `${row.userId}, came ${ago(row.createdAt)}`), claim));
}

function panes(row) {
  return [
    el("div", { class: "bar" },
      el("button", { class: "icon", onclick: () => step(-1) }, "Previous ", el("kbd", {}, "k")),
      el("button", { class: "icon", onclick: () => step(1) }, "Next ", el("kbd", {}, "j")),
      el("span", { class: "soft small" }, `${row.skill}, ${row.payload?.taskType ?? `part ${row.payload?.part ?? "unsaid"}`}, by ${row.userId}`),
      claimButtons(row)),
    el("div", { class: "panes" }, work(row), isOpen(row) ? (isMine(row) ? form(row) : machine(row)) : decided(row)),
  ];
}

function claimButtons(row) {
  if (!isOpen(row)) return null;
  if (!row.claimedBy) return el("button", { id: "claim", onclick: act(row, "claim", "It is yours.") }, "Claim ", el("kbd", {}, "c"));
  if (isMine(row)) return el("button", { id: "release", class: "quiet", onclick: act(row, "release", "It is back in the queue.") }, "Release ", el("kbd", {}, "r"));
  return el("span", { class: "pill warn" }, `claimed by ${row.claimedBy}`);
}

const act = (row, verb, words) => doing(() => api(`/api/submissions/${row.id}/review/${verb}`, { method: "POST" }), words, show);

function work(row) {
  const text = row.aiResult?.transcript ?? row.payload?.text ?? "";
  const paragraphs = text.split(/\n\s*\n/).filter((part) => part.trim());
  const sound = sounds.get(row.id);
  const count = text.split(/\s+/).filter(Boolean).length;
  return el("section", { class: "card", "aria-label": `Submission ${row.id}` },
    row.payload?.questionText
      ? el("div", { class: "question" }, el("strong", {}, "The question: "), row.payload.questionText)
      : el("p", { class: "soft small" }, `Question ${row.payload?.questionId ?? "unsaid"}; its text was not sent.`),
    row.hasAudio && (sound ? el("audio", { controls: true, src: sound, preload: "metadata", "aria-label": "The recording" }) : el("p", { class: "callout warn" }, "The recording cannot be played: it is gone, or its address does not answer.")),
    el("h2", { class: row.hasAudio ? null : "unseen" }, row.hasAudio ? "Transcript" : "The text"),
    el("div", { class: "work" }, paragraphs.length ? paragraphs.map((part, number) => el("p", { "data-number": String(number + 1) }, part.trim())) : el("p", { class: "soft" }, "Nothing was heard.")),
    el("p", { class: "soft small" }, `${count} word${count === 1 ? "" : "s"} in ${paragraphs.length} paragraph${paragraphs.length === 1 ? "" : "s"}`));
}

const machine = (row) => el("section", { class: "card", "aria-label": "The machine's grade" }, gradeView({ ...row.aiResult, transcript: null }, { title: "What the machine says" }));

const decided = (row) =>
  el("section", { class: "card", "aria-label": "The final grade" },
    gradeView(row.finalResult ?? {}, { title: `Final, ${row.mode === "hybrid" ? "from both" : "by a person"}` }),
    el("p", { class: "soft small" }, `${row.reviewedBy} said ${row.humanResult?.overallScore}, the machine ${row.aiResult?.overallScore}.`));

// The grade: four criteria by the rubric, the score that is their mean unless it was changed, and its band.
function form(row) {
  const ai = row.aiResult?.criteria ?? {};
  const one = ({ name, title, bands }) =>
    el("div", { class: "criterion", "data-criterion": name },
      el("header", {}, el("label", { for: `c-${name}` }, title),
        el("input", { id: `c-${name}`, name: `criterion.${name}`, type: "number", min: "0", max: "10", step: "0.5", required: true }),
        el("span", { class: "soft small" }, `machine: ${ai[name]?.score ?? "none"}`)),
      ai[name]?.feedback ? el("p", { class: "soft" }, ai[name].feedback) : null,
      el("ol", {}, bands.map(({ band, least, below, text }) => el("li", { "data-least": least, "data-below": below }, el("strong", {}, `${band} `), text))));
  return el("form", { class: "card", key: `form-${row.id}`, "aria-label": "Your grade", onsubmit: doing((event) => send(row, event.target), told(row), next), oninput: agree },
    el("h2", {}, "Your grade"),
    row.rubric.map(one),
    field({ name: "score", label: "Score, 0 to 10", kind: "number", min: "0", max: "10", step: "0.1", required: true, id: "score" }),
    el("p", { id: "band", class: "small", "aria-live": "polite" }, ""),
    field({ name: "feedback", label: "Feedback to the learner", kind: "long", id: "feedback" }),
    el("button", {}, "Submit the grade ", el("kbd", {}, "Ctrl ⏎")));
}

const valuesOf = (form) =>
  Object.fromEntries([...form.querySelectorAll("[data-criterion] input")].filter((input) => input.value !== "").map((input) => [input.name.slice("criterion.".length), Number(input.value)]));

// The score follows the criteria for as long as it is empty or what it was made last: what a hand has written stays, through
// every drawing and a reload. It is not touched under the hand that is at it.
function agree() {
  const form = box.querySelector("form.card");
  if (!form) return;
  const given = Object.values(valuesOf(form));
  const score = form.elements.score;
  const follows = score.value === "" || score.value === score.followed;
  if (given.length === 4 && follows && document.activeElement !== score)
    score.value = score.followed = String(Math.round((given.reduce((sum, one) => sum + one, 0) / 4) * 2) / 2);
  mark(form);
}

// Show the band of each score where it is.
function mark(form) {
  const score = form.elements.score.value;
  const ai = current.aiResult ?? {};
  const near = Math.abs(ai.overallScore - Number(score)) <= 0.5;
  const given = Object.values(valuesOf(form));
  const mean = given.reduce((sum, one) => sum + one, 0) / given.length;
  const isOff = score !== "" && given.length === 4 && Math.abs(mean - Number(score)) > 0.5;
  const fate = isOff ? `Your criteria have a mean of ${mean.toFixed(2)}: the score must be within half a point of it.` : near ? "Near it: the two are weighed, 0.4 and 0.6." : "Far from it: yours stands.";
  const band = form.querySelector("#band");
  band.textContent = score === "" ? "" : `Band ${bandOf(Number(score))}. The machine: ${ai.overallScore}, ${ai.band}. ${fate}`;
  band.className = isOff ? "small error" : "small";
  for (const one of form.querySelectorAll("[data-criterion]")) {
    const value = one.querySelector("input").value;
    for (const line of one.querySelectorAll("li")) {
      const fits = value !== "" && Number(value) >= Number(line.dataset.least) && (Number(value) < Number(line.dataset.below) || Number(line.dataset.below) === 10);
      line.setAttribute("aria-current", String(fits));
    }
  }
}

// A review that is sent twice by a slow line counts once: it has a key of its own.
async function send(row, form) {
  const body = { overallScore: Number(form.elements.score.value), criteria: valuesOf(form), feedback: form.elements.feedback.value || null };
  const asked = JSON.stringify(body);
  if (keys.get(row.id)?.asked !== asked) keys.set(row.id, { asked, key: uuid() });
  const done = await api(`/api/submissions/${row.id}/review`, { method: "POST", body, headers: { "Idempotency-Key": keys.get(row.id).key } });
  return done;
}
const told = () => (done) => `Graded: ${done.finalResult?.overallScore} ${done.mode === "hybrid" ? "from the machine's and yours" : "as you said"}.`;

function step(by) {
  const shown = own ?? items;
  const index = shown.findIndex((row) => row.id === current?.id);
  const to = shown[Math.min(shown.length - 1, Math.max(0, index + by))];
  if (to) location.hash = to.id;
}

// After a grade the next piece of work is there; where the grade was refused, this one stays.
async function next() {
  const before = current?.id;
  const after = items.filter((row) => row.id !== before && (!row.claimedBy || isMine(row)))[0];
  const still = before && (await api(`/api/instructor/submissions/${before}`).catch(() => null));
  if (still && !isOpen(still)) location.hash = after?.id ?? "";
  await show();
}

const KEYS = { j: () => step(1), k: () => step(-1), c: () => box.querySelector("#claim")?.click(), r: () => box.querySelector("#release")?.click(), s: () => box.querySelector("form.card input")?.focus() };
addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) box.querySelector("form.card")?.requestSubmit();
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
  if (KEYS[event.key]) {
    KEYS[event.key]();
    event.preventDefault();
  }
});
// On a narrow screen the work stands below the queue: whoever has chosen it wants to see it.
addEventListener("hashchange", async () => {
  await show();
  if (chosenId() && matchMedia("(max-width: 63.99rem)").matches) box.querySelector(".panes-of").scrollIntoView();
});
document.querySelector("#who").textContent = me?.sub ?? "not signed in";
if (me?.roles.includes("instructor")) {
  follow("/api/instructor/events", ["queue"], show);
  setInterval(() => document.hidden || show(), REFRESH_MS);
}
show();
