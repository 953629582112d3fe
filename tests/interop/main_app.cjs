"use strict";
// Plays the main app against a grading service it knows only by the contract. Sends every golden request, valid and
// invalid, the first valid one twice more when it is graded; prints what came back, with the schema's judgement of each.

const { randomUUID } = require("node:crypto");
const { complaints, genuine, golden, open } = require("./contract.cjs");

const GOLDEN_ID = /^3f0e6b0a-6d1c-4c58-9a0e-2b7f1d5c9e11$/i;

/** A golden request under an id of its own and, if it has a good deadline, one that is still to come. */
function fresh({ name, body }, upper) {
  if (typeof body !== "object" || Array.isArray(body) || !GOLDEN_ID.test(body.requestId ?? "")) return { name, body };
  const id = upper ? randomUUID().toUpperCase() : randomUUID();
  const hour = new Date(Date.now() + 3_600_000).toISOString();
  const late = /^2026-03-01T\d\d:\d\d:00(\.000)?(Z|\+00:00)$/.test(body.deadlineAt);
  const zone = late && body.deadlineAt.endsWith("+00:00") ? hour.replace("Z", "+00:00") : hour;
  return { name, body: { ...body, requestId: id, ...(late ? { deadlineAt: zone } : {}) } };
}

async function main() {
  const { connection, channel, send } = await open(process.env.RABBITMQ_URL);
  const valid = golden("valid", "grading.request").filter(({ body }) => body.skill === "writing");
  const sent = valid.map((one) => fresh(one, one.name.includes("upper-case")));
  const wrong = golden("invalid", "grading.request").map((one) => fresh(one));
  const told = { sent, wrong, callbacks: [], letters: [], complaints: [], unsigned: 0 };
  const again = sent[0].body;
  let repeated = 0;
  let finish;
  const finished = new Promise((done) => (finish = done));

  const enough = () => {
    const done = told.callbacks.filter((one) => one.kind === "completed").length;
    if (repeated === 2 && done >= sent.length + 2 && told.letters.length >= wrong.length) finish();
  };
  await channel.consume("grading.callback", async (message) => {
    told.unsigned += genuine(message) ? 0 : 1;
    const body = JSON.parse(message.content);
    told.complaints.push(complaints("grading.callback", body));
    told.callbacks.push(body);
    channel.ack(message);
    while (body.kind === "completed" && body.requestId === again.requestId && repeated < 2) {
      repeated += 1;
      await send("grading.request", again);
    }
    enough();
  });
  await channel.consume("grading.dlq", (message) => {
    told.unsigned += genuine(message) ? 0 : 1;
    const body = JSON.parse(message.content);
    told.complaints.push(complaints("grading.dlq", body));
    told.letters.push(body);
    channel.ack(message);
    enough();
  });
  for (const { body } of [...sent, ...wrong]) await send("grading.request", body);
  const patience = setTimeout(finish, Number(process.env.PATIENCE_MS));
  await finished;
  clearTimeout(patience);
  process.stdout.write(JSON.stringify(told));
  await connection.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
