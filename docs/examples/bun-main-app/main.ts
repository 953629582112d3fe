// A main app of one's own, in Bun: HTTP in front, a database, and the grading service behind a broker.
//
//   POST /submissions       Idempotency-Key: a UUID v4; the submission and its outbox row are one transaction
//   GET  /submissions/:id   its status and, once it is final, its result
//
// It knows the grading service by docs/contract and nothing else. Run it with: bun main.ts
//   RABBITMQ_URL  amqp://user:password@broker/     DATABASE  submissions.db     PORT  3000     SLA_S  1200
//   HOLDFAST_MESSAGE_KEYS  the keys of the grading service, if it has any: what goes out is signed, what comes in is checked

import { Database } from "bun:sqlite";
import { createHmac, timingSafeEqual } from "node:crypto";
import amqp from "amqplib";

const EXCHANGE = "vstep.exchange";
const QUEUES = ["grading.request", "grading.callback", "grading.dlq"];
const SLA_MS = Number(process.env.SLA_S ?? 1200) * 1000;
const OPEN = "status IN ('PENDING', 'PROCESSING')";
const UUID4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;

const db = new Database(process.env.DATABASE ?? "submissions.db", { create: true, strict: true });
db.exec(`
  PRAGMA journal_mode = WAL;
  CREATE TABLE IF NOT EXISTS submissions (
    id TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, body TEXT NOT NULL, request_id TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL, deadline_at TEXT NOT NULL, result TEXT, reason TEXT, is_late INTEGER NOT NULL DEFAULT 0);
  CREATE TABLE IF NOT EXISTS outbox (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, published_at TEXT);
  CREATE TABLE IF NOT EXISTS processed_callbacks (event_id TEXT PRIMARY KEY);
`);

type Row = {
  id: string; body: string; request_id: string; status: string; deadline_at: string;
  result: string | null; reason: string | null; is_late: number;
};

function show(row: Row) {
  const { id, status, reason } = row;
  const result = row.result === null ? null : JSON.parse(row.result);
  const isLate = row.is_late === 1;
  return { id, requestId: row.request_id, status, deadlineAt: row.deadline_at, result, failureReason: reason, isLate };
}

const byKey = db.query<Row, [string]>("SELECT * FROM submissions WHERE key = ?");
const byId = db.query<Row, [string]>("SELECT * FROM submissions WHERE id = ?");

// One transaction: a crash leaves both rows or neither.
type Wanted = { skill: string; payload: unknown; userId: string };
const accept = db.transaction((key: string, body: string, wanted: Wanted) => {
  const id = crypto.randomUUID();
  const requestId = crypto.randomUUID();
  const deadlineAt = new Date(Date.now() + SLA_MS).toISOString();
  const columns = "(id, key, body, request_id, status, deadline_at) VALUES (?, ?, ?, ?, 'PENDING', ?)";
  db.run(`INSERT INTO submissions ${columns}`, [id, key, body, requestId, deadlineAt]);
  const message = { requestId, submissionId: id, attempt: 1, deadlineAt, ...wanted };
  db.run("INSERT INTO outbox (body) VALUES (?)", [JSON.stringify(message)]);
  return byId.get(id)!;
});

const server = Bun.serve({
  port: Number(process.env.PORT ?? 3000),
  hostname: "127.0.0.1",
  routes: {
    "/submissions": {
      POST: async (request) => {
        const key = request.headers.get("Idempotency-Key") ?? "";
        if (!UUID4.test(key)) return problem(400, "the Idempotency-Key header must be a UUID v4");
        const body = await request.text();
        const known = byKey.get(key);
        if (known && known.body !== body) return problem(409, "this key was used for another submission");
        if (known) return Response.json(show(known), { status: 201 });
        const wanted = parsed(body);
        if (wanted === null) return problem(422, "send {skill, payload, userId} as JSON");
        const row = accept.immediate(key, body, wanted);
        wake();
        return Response.json(show(row), { status: 201 });
      },
    },
    "/submissions/:id": (request) => {
      const row = byId.get(request.params.id);
      return row ? Response.json(show(row)) : problem(404, "there is no such submission");
    },
  },
});

function parsed(body: string) {
  try {
    const { skill, payload, userId } = JSON.parse(body);
    return ["writing", "speaking"].includes(skill) && payload && userId ? { skill, payload, userId } : null;
  } catch {
    return null;
  }
}

function problem(status: number, detail: string) {
  return Response.json({ status, detail }, { status, headers: { "Content-Type": "application/problem+json" } });
}

// The final answer changes the submission once: the guard is in the WHERE. Returns nothing; the ack follows the commit.
const apply = db.transaction((event: any) => {
  const fresh = db.run("INSERT OR IGNORE INTO processed_callbacks (event_id) VALUES (?)", [event.eventId]);
  if (fresh.changes === 0) return;
  const now = new Date().toISOString();
  const { requestId, data } = event;
  if (event.kind === "progress") {
    db.run("UPDATE submissions SET status = 'PROCESSING' WHERE request_id = ? AND status = 'PENDING'", [requestId]);
  } else if (event.kind === "completed") {
    const status = data.result.reviewRequired ? "REVIEW_REQUIRED" : "COMPLETED";
    // In time it is authoritative, also over an error that came before it; late it is kept and changes nothing.
    const result = JSON.stringify(data.result);
    db.run(
      `UPDATE submissions SET status = ?, result = ?, reason = NULL WHERE request_id = ? AND deadline_at >= ?
          AND (${OPEN} OR (status = 'FAILED' AND reason <> 'TIMEOUT'))`,
      [status, result, requestId, now],
    );
    db.run("UPDATE submissions SET result = ?, is_late = 1 WHERE request_id = ? AND deadline_at < ? AND result IS NULL", [
      result, requestId, now,
    ]);
  } else if (event.kind === "error" && !data.error.retryable) {
    db.run(`UPDATE submissions SET status = 'FAILED', reason = ? WHERE request_id = ? AND ${OPEN}`, [
      data.error.code, requestId,
    ]);
  }
});

setInterval(() => {
  const now = new Date().toISOString();
  db.run(`UPDATE submissions SET status = 'FAILED', reason = 'TIMEOUT' WHERE ${OPEN} AND deadline_at < ?`, [now]);
}, 1000);

// docs/contract: the first key signs, every key is accepted, so that keys can be changed.
const KEYS = (process.env.HOLDFAST_MESSAGE_KEYS ?? "").split(",").map((key) => key.trim()).filter(Boolean);
const sign = (key: string, body: Buffer) => "sha256=" + createHmac("sha256", key).update(body).digest("hex");

function genuine(message: amqp.ConsumeMessage) {
  const given = Buffer.from(String(message.properties.headers?.["holdfast-signature"] ?? ""));
  const right = KEYS.map((key) => Buffer.from(sign(key, message.content)));
  return KEYS.length === 0 || right.some((each) => each.length === given.length && timingSafeEqual(each, given));
}

let wake = () => {};
const PROPERTIES = { contentType: "application/json; charset=utf-8", persistent: true, mandatory: true };
const pending = db.query<{ seq: number; body: string }, []>(
  "SELECT seq, body FROM outbox WHERE published_at IS NULL ORDER BY seq LIMIT 50",
);

/** Publish what the outbox holds, in order; a row is marked only after the broker's confirm. */
async function relay(channel: amqp.ConfirmChannel) {
  for (;;) {
    const rows = pending.all();
    for (const row of rows) {
      const { seq } = row;
      const body = Buffer.from(row.body);
      const options = KEYS[0] ? { ...PROPERTIES, headers: { "holdfast-signature": sign(KEYS[0], body) } } : PROPERTIES;
      await new Promise<void>((done, fail) =>
        channel.publish(EXCHANGE, "grading.request", body, options, (error) => (error ? fail(error) : done())),
      );
      db.run("UPDATE outbox SET published_at = ? WHERE seq = ?", [new Date().toISOString(), seq]);
    }
    if (rows.length > 0) continue;
    await new Promise<void>((done) => {
      wake = done;
      setTimeout(done, 5000); // the safety net
    });
  }
}

/** Work with the broker until it goes away. */
async function work() {
  const connection = await amqp.connect(process.env.RABBITMQ_URL!);
  const gone = new Promise<never>((_, fail) => {
    connection.on("error", fail);
    connection.on("close", () => fail(new Error("the connection was closed")));
  });
  const channel = await connection.createConfirmChannel();
  await channel.assertExchange(EXCHANGE, "direct", { durable: true });
  for (const queue of QUEUES) {
    await channel.assertQueue(queue, { durable: true });
    await channel.bindQueue(queue, EXCHANGE, queue);
  }
  await channel.prefetch(20);
  await channel.consume("grading.callback", (message) => {
    if (message === null) return;
    try {
      if (genuine(message)) apply.immediate(JSON.parse(message.content.toString()));
      else console.error("a callback without a valid signature was left out");
    } catch (error) {
      console.error("a callback could not be read", error); // it would be as unreadable the next time
    }
    channel.ack(message);
  });
  await Promise.race([relay(channel), gone]);
}

console.log(`listening on ${server.port}`);
for (;;) {
  try {
    await work();
  } catch (error) {
    console.error(`the broker is away: ${error}`);
    await Bun.sleep(1000); // submissions are accepted meanwhile; the outbox keeps them
  }
}
