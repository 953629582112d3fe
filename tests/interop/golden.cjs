"use strict";
// Judges every golden message with ajv: prints {"valid/name": "" or the complaints, ...}.

const { complaints, golden } = require("./contract.cjs");

const judged = {};
for (const kind of ["valid", "invalid"]) {
  for (const queue of ["grading.request", "grading.callback", "grading.dlq"]) {
    for (const { name, body } of golden(kind, queue)) judged[`${kind}/${name}`] = complaints(queue, body);
  }
}
process.stdout.write(JSON.stringify(judged));
