// The conversion page. Every row shows what the server says; one event stream keeps all of them current.
import { at } from "../root.js";
import { keep, token, who } from "../session.js";

const UPLOADS_AT_ONCE = 2;
const STREAM_WAIT_MS_MAX = 15000;
const WORDS = {
  uploading: "Uploading", refused: "Not accepted", queued: "Queued", processing: "Converting",
  complete: "Complete", failed: "Failed", expired: "Expired", cancelled: "Cancelled",
};

const byId = (id) => document.getElementById(id);
const rows = new Map();
const waiting = [];
let uploading = 0;
let uploadBytesMax = Infinity;
let olderThan = null;
let locals = 0;

function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    keep(given);
    history.replaceState(null, "", location.pathname);
  }
  byId("who").textContent = who()?.sub ?? "";
  return token();
}

function headers(more) {
  return { Authorization: `Bearer ${token()}`, ...more };
}

async function ask(path, options = {}) {
  const answer = await fetch(at(path), { ...options, headers: headers(options.headers) });
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  if (answer.status === 401) tell("Your sign-in has ended. Open the sign-in link again.");
  throw new Error(problem.detail || `The server answered ${answer.status}.`);
}

function tell(text) {
  byId("problem").textContent = text || "";
  byId("problem").hidden = !text;
}

function say(text) {
  byId("news").textContent = text;
}

function showBanner(text) {
  byId("banner").textContent = text || "";
  byId("banner").hidden = !text;
}

// Rows. A row is made once and then changed in place, so that focus and reading position stay where they are.

function rowOf(key) {
  let row = rows.get(key);
  if (!row) {
    const element = byId("row").content.firstElementChild.cloneNode(true);
    const part = (name) => element.querySelector(name);
    row = {
      key, element, status: null, created: "", updated: "",
      name: part(".name"), state: part(".status"), line: part(".line"), progress: part("progress"),
      download: part(".download"), retry: part(".retry"), cancel: part(".cancel"),
    };
    rows.set(key, row);
  }
  return row;
}

function place(row) {
  const list = byId("jobs");
  if (row.element.parentNode !== list) {
    const next = [...list.children].find((other) => rowFor(other).created < row.created);
    list.insertBefore(row.element, next || null);
  }
  byId("empty").hidden = true;
}

function rowFor(element) {
  for (const row of rows.values()) if (row.element === element) return row;
  return { created: "" };
}

function paint(row, status, name, line, fraction) {
  row.element.dataset.status = status;
  row.name.textContent = name;
  row.state.textContent = WORDS[status] || status;
  row.line.textContent = line;
  row.progress.hidden = !["uploading", "queued", "processing"].includes(status);
  row.progress.setAttribute("aria-label", `Progress of ${name}`);
  if (fraction === null || fraction === undefined) row.progress.removeAttribute("value");
  else row.progress.value = fraction;
  if (row.status !== status) {
    if (row.status !== null) say(`${name}: ${WORDS[status] || status}. ${line}`);
    row.status = status;
  }
}

function showJob(job) {
  const row = rowOf(job.id);
  if (job.updatedAt < row.updated) return; // the answer to an upload may come after the news of what became of it
  row.updated = job.updatedAt;
  row.created = job.createdAt;
  place(row);
  paint(row, job.status, job.fileName, lineOf(job), job.status === "queued" ? 0 : null);
  const live = job.status === "queued" || job.status === "processing";
  setAct(row, row.download, job.status === "complete", "Download XML of", job, () => download(job));
  setAct(row, row.retry, job.status === "failed", "Retry", job, () => act(job, "retry"));
  row.retry.disabled = !job.canRetry;
  setAct(row, row.cancel, live, "Cancel", job, () => act(job, "cancel"));
}

function setAct(row, button, shown, verb, job, run) {
  if (!shown && button === document.activeElement) row.element.focus(); // a hidden button would lose the keyboard's place
  button.hidden = !shown;
  button.setAttribute("aria-label", `${verb} ${job.fileName}`);
  button.onclick = run;
}

function lineOf(job) {
  const size = `${(job.size / 1024).toFixed(0)} KB`;
  if (job.status === "failed") {
    const gone = job.sourceAvailable ? "" : " The PDF is no longer here; upload it again.";
    return `${job.error ? job.error.message : "The conversion failed."}${gone}`;
  }
  if (job.waitingFor && job.retryAfter) return `${job.waitingFor} Next attempt at ${clock(job.retryAfter)}.`;
  if (job.waitingFor) return job.waitingFor;
  if (job.status === "complete") return `${size} PDF, kept until ${new Date(job.expiresAt).toLocaleString([], { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" })}.`;
  if (job.status === "expired") return "The result was removed after its time.";
  return job.attemptCount > 1 ? `${size}, attempt ${job.attemptCount}` : size;
}

function clock(iso) {
  return new Date(iso).toLocaleTimeString([], { hourCycle: "h23" });
}

async function act(job, verb) {
  try {
    showJob(await (await ask(`/api/jobs/${job.id}/${verb}`, { method: "POST" })).json());
    tell("");
  } catch (error) {
    tell(`${job.fileName}: ${error.message}`);
  }
}

async function download(job) {
  try {
    const answer = await ask(job.result.url);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = `${job.fileName.replace(/\.pdf$/i, "")}.xml`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  } catch (error) {
    tell(`${job.fileName}: ${error.message}`);
  }
}

// Uploads. A few at a time, each with a key of its own, so that sending one again never makes two jobs.

function offer(files) {
  for (const file of files) {
    const row = rowOf(`local-${++locals}`);
    row.created = `~${String(locals).padStart(9, "0")}`;
    paint(row, "uploading", file.name, "Waiting to be sent.", 0);
    place(row);
    if (file.size > uploadBytesMax) refuse(row, file, "The file is too large.");
    else waiting.push({ file, row, key: newKey() });
  }
  sendNext();
}

function sendNext() {
  while (uploading < UPLOADS_AT_ONCE && waiting.length) {
    uploading += 1;
    send(waiting.shift());
  }
}

function send({ file, row, key }) {
  const request = new XMLHttpRequest();
  const form = new FormData();
  form.append("file", file);
  request.open("POST", at("/api/jobs"));
  for (const [name, value] of Object.entries(headers({ "Idempotency-Key": key }))) request.setRequestHeader(name, value);
  request.upload.onprogress = (event) => {
    const part = event.lengthComputable ? event.loaded / event.total : 0;
    paint(row, "uploading", file.name, `${Math.round(part * 100)} % sent`, part);
  };
  request.onload = () => answered(request, file, row);
  request.onerror = () => refuse(row, file, "The upload was interrupted.", { file, row, key });
  request.onloadend = () => { uploading -= 1; sendNext(); };
  request.send(form);
}

function answered(request, file, row) {
  let body = {};
  try { body = JSON.parse(request.responseText); } catch { /* an answer that is not ours */ }
  if (request.status !== 202) {
    refuse(row, file, body.detail || `The server answered ${request.status}.`);
    return;
  }
  row.element.remove();
  rows.delete(row.key);
  showJob(body);
  say(`${file.name}: ${rows.get(body.id).state.textContent}.`);
}

function refuse(row, file, why, again) {
  paint(row, "refused", file.name, why);
  row.retry.hidden = !again;
  row.retry.setAttribute("aria-label", `Retry ${file.name}`);
  row.retry.onclick = () => { row.retry.hidden = true; waiting.push(again); sendNext(); };
}

function newKey() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

// The stream. A ticket opens it once; when it breaks, a new ticket opens the next, and it begins with everything.

async function watch(waitMs = 500) {
  const again = () => setTimeout(() => watch(Math.min(waitMs * 2, STREAM_WAIT_MS_MAX)), waitMs);
  let ticket;
  try {
    ({ ticket } = await (await ask("/api/tickets", { method: "POST" })).json());
  } catch {
    again();
    return;
  }
  const stream = new EventSource(at(`/api/jobs/events?ticket=${encodeURIComponent(ticket)}`));
  stream.addEventListener("open", () => { waitMs = 500; catchUp(); });
  stream.addEventListener("job", (event) => showJob(JSON.parse(event.data)));
  stream.addEventListener("banner", (event) => showBanner(JSON.parse(event.data).text));
  stream.addEventListener("error", () => { stream.close(); again(); });
}

// What changed between the list and the opening of the stream was told to nobody: look once more.
async function catchUp() {
  try {
    const answer = await (await ask("/api/jobs")).json();
    answer.jobs.forEach(showJob);
    showBanner(answer.banner);
  } catch { /* the stream is there: the next change is shown anyway */ }
}

async function list() {
  const cursor = olderThan ? `?cursor=${olderThan}` : "";
  const answer = await (await ask(`/api/jobs${cursor}`)).json();
  answer.jobs.forEach(showJob);
  showBanner(answer.banner);
  olderThan = answer.nextCursor;
  byId("more").hidden = !olderThan;
  uploadBytesMax = answer.uploadBytesMax;
  byId("limit").textContent = `PDF files of up to ${Math.floor(uploadBytesMax / 1048576)} MB.`;
}

function listen() {
  const zone = byId("drop");
  const input = byId("files");
  byId("choose").addEventListener("click", () => input.click());
  input.addEventListener("change", () => { offer(input.files); input.value = ""; });
  input.tabIndex = -1;
  for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      zone.classList.toggle("over", name === "dragenter" || name === "dragover");
    });
  }
  document.addEventListener("drop", (event) => offer(event.dataTransfer.files));
  byId("more").addEventListener("click", () => list().catch((error) => tell(error.message)));
}

function begin() {
  listen();
  if (!takeToken()) {
    tell("You are not signed in. Open the sign-in link that `holdfast up` printed, or ");
    const way = Object.assign(document.createElement("a"), { href: at("/login?next=convert"), textContent: "give a token" });
    byId("problem").append(way, ".");
    byId("choose").disabled = true;
    return;
  }
  list().then(() => watch()).catch((error) => { tell(error.message); setTimeout(watch, 2000); });
}

begin();
