// Reads one JSON line a code, and writes one JSON line a verdict: what `promptparse` (npm, MIT) makes of it.
// A line {"make": "anyId" | "billPayment", "args": {...}} is answered with a code that promptparse writes.
import { createInterface } from "node:readline";
import { generate, parse, validate } from "promptparse";

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  let said;
  try {
    said = asked.make
      ? { code: generate[asked.make](asked.args) }
      : {
          read: parse(asked.code, true) !== null,
          reference: parse(asked.code, true)?.getTagValue("30", "02"),
          transfer: validate.anyId(asked.code),
          bill: validate.billPayment(asked.code),
        };
  } catch (error) {
    said = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(said) + "\n");
}
