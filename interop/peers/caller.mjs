// Calls of the TypeScript client, each a line of standard input: [name, positional arguments, options]. The answer is a line, too:
// {result}, or {error, detail, status, reason}. `caller.mjs URL OPTIONS`; `caller.mjs calls` prints the names of all calls.

import { createInterface } from "node:readline";
import { checkBackup, saveBackup } from "../../sdk/typescript/dist/src/backup.js";
import { connect, Node, TielineError } from "../../sdk/typescript/dist/src/client.js";

const [url, options] = process.argv.slice(2);

function calls() {
  const found = [];
  for (let kind = Node.prototype; kind !== Object.prototype; kind = Object.getPrototypeOf(kind)) {
    found.push(...Object.getOwnPropertyNames(kind));
  }
  return found.filter((name) => name !== "constructor");
}

async function call(node, [name, positional, given]) {
  const words = Object.keys(given).length === 0 ? positional : [...positional, given];
  if (name === "checkBackup") return checkBackup(...words);
  if (name === "backup") return saveBackup(node, ...words);
  const found = await node[name](...words);
  return typeof found?.next === "function" ? collected(found) : found;
}

async function collected(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

if (url === "calls") {
  console.log(JSON.stringify(calls()));
} else {
  const node = connect(url, JSON.parse(options));
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      console.log(JSON.stringify({ result: (await call(node, JSON.parse(line))) ?? null }));
    } catch (error) {
      const { name, message, detail, status, reason } = error;
      console.log(JSON.stringify({ error: error instanceof TielineError ? name : String(message), detail, status, reason }));
    }
  }
}
