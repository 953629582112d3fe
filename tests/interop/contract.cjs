"use strict";
// Everything these strangers know: the published files in docs/contract, read with other people's libraries.

const { createHmac, timingSafeEqual } = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");
const amqp = require("amqplib");
const Ajv = require("ajv/dist/2020");
const YAML = require("yaml");

const folder = process.env.CONTRACT;
const document = YAML.parse(fs.readFileSync(path.join(folder, "asyncapi.yaml"), "utf8"));
const ajv = new Ajv({ strict: true, strictTypes: false, allErrors: true });
const validators = new Map();
const KEYS = (process.env.HOLDFAST_MESSAGE_KEYS ?? "").split(",").filter(Boolean);
const sign = (key, body) => "sha256=" + createHmac("sha256", key).update(body).digest("hex");

/** Whether a message is signed as the contract says; without keys all are. */
function genuine(message) {
  const given = Buffer.from(String(message.properties.headers["holdfast-signature"] ?? ""));
  const right = KEYS.map((key) => Buffer.from(sign(key, message.content)));
  return KEYS.length === 0 || right.some((each) => each.length === given.length && timingSafeEqual(each, given));
}

/** The schema's complaints about a body, as text; empty if it is valid. */
function complaints(queue, body) {
  if (!validators.has(queue)) {
    validators.set(queue, ajv.compile(JSON.parse(fs.readFileSync(path.join(folder, `${queue}.schema.json`), "utf8"))));
  }
  const validate = validators.get(queue);
  return validate(body) ? "" : ajv.errorsText(validate.errors);
}

/** The golden messages of a queue: [{name, body}]. */
function golden(kind, queue) {
  const place = path.join(folder, "examples", kind);
  return fs
    .readdirSync(place)
    .filter((name) => name.startsWith(`${queue}.`))
    .sort()
    .map((name) => ({ name, body: JSON.parse(fs.readFileSync(path.join(place, name), "utf8")) }));
}

/** One golden message by its case. */
function example(queue, name) {
  return JSON.parse(fs.readFileSync(path.join(folder, "examples", "valid", `${queue}.${name}.json`), "utf8"));
}

/** A channel with everything declared as the document says, and nothing more. */
async function open(url) {
  const connection = await amqp.connect(url);
  const channel = await connection.createConfirmChannel();
  for (const each of Object.values(document.channels)) {
    const { exchange } = each.bindings.amqp;
    const queue = each["x-queue"];
    await channel.assertExchange(exchange.name, exchange.type, { durable: exchange.durable, autoDelete: exchange.autoDelete });
    await channel.assertQueue(queue.name, { durable: queue.durable, autoDelete: queue.autoDelete, arguments: queue.arguments });
    await channel.bindQueue(queue.name, exchange.name, each.address);
  }
  const exchange = Object.values(document.channels)[0].bindings.amqp.exchange.name;

  /** Publish and wait for the broker's confirm. A message that no queue takes is an error. */
  function send(queue, body) {
    const content = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
    const headers = KEYS.length ? { "holdfast-signature": sign(KEYS[0], content) } : {};
    const options = { contentType: document.defaultContentType, persistent: true, mandatory: true, headers };
    return new Promise((done, fail) =>
      channel.publish(exchange, queue, content, options, (error) => (error ? fail(error) : done())),
    );
  }

  channel.on("return", (message) => {
    throw new Error(`no queue took a message for ${message.fields.routingKey}`);
  });
  return { connection, channel, send };
}

module.exports = { complaints, document, example, genuine, golden, open };
