// A cache that forgets what changed: npm install && node cache_invalidation.js nats://127.0.0.1:4222
//
// It reads one table's rows (shop.item of docs/writing.md), DDLs (TRUNCATE tells of no rows), and the
// markers and watermarks to see a gap: each carries the commit_ts of the one before it. A commit_ts is
// beyond what a JavaScript number holds: take it from the headers, or from the text.
import { connect } from "@nats-io/transport-node";
import { DeliverPolicy, jetstream } from "@nats-io/jetstream";

const SILENCE_MS = 10_000; // a feed has a mark each second
const SUBJECTS = ["row.shop.item", "ddl.>", "txn", "watermark"].map((name) => "changes.main." + name);

const cache = new Map();
const connection = await connect({ servers: process.argv[2], maxReconnectAttempts: -1 });

async function follow() {
  const consumer = await jetstream(connection).consumers.get("CHANGES_MAIN", {
    filter_subjects: SUBJECTS,
    deliver_policy: DeliverPolicy.New,
  });
  const messages = await consumer.consume();
  const silence = setTimeout(() => messages.stop(), SILENCE_MS);
  cache.clear(); // what was cached before may have changed unseen
  console.log("ready");
  let position = null;
  let pieces = [];
  for await (const message of messages) {
    silence.refresh();
    const [index, count] = (message.headers.get("Tidelog-Fragment") || "0/1").split("/").map(Number);
    pieces = index === 0 ? [message.string()] : [...pieces, message.string()];
    if (index + 1 < count) continue; // a body above 256 KiB comes in pieces
    const body = pieces.join("");
    if (message.subject === "changes.main.row.shop.item") {
      for (const event of JSON.parse(body).events) {
        cache.delete(event.key.id);
        console.log("forget", event.key.id);
      }
      continue;
    }
    if (message.subject.startsWith("changes.main.ddl.")) {
      cache.clear();
      console.log("forget everything: a DDL", message.subject);
      continue;
    }
    const previous = BigInt(/"prev_commit_ts":(\d+)/.exec(body)[1]);
    if (position !== null && previous > position) {
      cache.clear();
      console.log("forget everything: a gap after", position);
    }
    const last = BigInt(message.headers.get("Tidelog-Last-Commit-Ts"));
    position = position === null || last > position ? last : position;
  }
}

// A stream that was lost is filled again under lower sequences, at which no consumer looks any more:
// to this one that is silence, and it begins anew.
while (true) {
  await follow().catch((error) => console.log("not now:", error.message));
  console.log("forget everything: silence");
  cache.clear();
  await new Promise((done) => setTimeout(done, 1000));
}
