"use strict";
// Plays the grading service against a main app it knows only by the contract. The text says what to do with it:
//
//     #sure, #review, #fail      the golden result or error, once the golden progress is told
//     #again                     a golden error that is retryable, and then the golden result
//     #twice                     every callback three times, and the result under another event id too
//
// Beside each answer goes every golden callback that is invalid, under the ids of the request: none may count.

const { randomUUID } = require("node:crypto");
const { complaints, example, genuine, golden, open } = require("./contract.cjs");

function under(request, body) {
  const event = typeof body.eventId === "string" && body.eventId.length === 36 ? { eventId: randomUUID() } : {};
  return { ...body, ...event, requestId: request.requestId, submissionId: request.submissionId };
}

function answers(request) {
  const say = (name) => under(request, example("grading.callback", name));
  const text = request.payload.text;
  const first = [say("progress-bare"), say("progress")];
  if (text.includes("#review")) return [...first, say("completed-review")];
  if (text.includes("#fail")) return [...first, say("error-final")];
  if (text.includes("#again")) return [say("error-retryable"), say("completed-with-foreign-rubric")];
  if (text.includes("#twice")) {
    const result = say("completed-sure");
    const all = [...first, result];
    return [...all, ...all, ...all, { ...result, eventId: randomUUID() }];
  }
  return [...first, say("completed-sure")];
}

async function main() {
  const { channel, send } = await open(process.env.RABBITMQ_URL);
  await channel.prefetch(1);
  await channel.consume("grading.request", async (message) => {
    const request = JSON.parse(message.content);
    const trouble = complaints("grading.request", request);
    const { contentType, deliveryMode } = message.properties;
    const signed = genuine(message);
    console.log(JSON.stringify({ requestId: request.requestId, trouble, contentType, deliveryMode, signed }));
    for (const { body } of golden("invalid", "grading.callback")) await send("grading.callback", under(request, body));
    for (const body of answers(request)) await send("grading.callback", body);
    channel.ack(message);
  });
  console.log("ready");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
