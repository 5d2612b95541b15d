/**
 * Backups in Node.js: archives of the data folder of a node, compared with their checksums. docs/backup.md has the format.
 *
 *     const { files, bytes } = await saveBackup(connect("http://127.0.0.1:8080"), "plant.tar");
 */

import { createHash } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import type { Node } from "./client.js";
import { TielineError } from "./errors.js";

/** A complete backup: when it was made, how many files it has, and how many bytes they have together. */
export interface Backup {
  time: Date;
  files: number;
  bytes: number;
}

interface Stored {
  name: string;
  bytes: number;
  sha256: string;
}

const BLOCK = 512;
const PIECE = 1 << 20;
const MANIFEST = "backup.json";
const LONG_NAME = "L";
const FILE = "0";
const NAME_BYTES_MAX = 65_536;
const MANIFEST_BYTES_MAX = 1 << 29;

/** Writes a backup to a file, which appears when the archive is complete and was compared with its checksums. */
export async function saveBackup(node: Node, file: string, options: { signal?: AbortSignal } = {}): Promise<Backup> {
  const part = `${file}.part`;
  try {
    const out = await open(part, "w");
    try {
      for await (const piece of node.backup(options)) {
        await out.writeFile(piece);
      }
      await out.sync();
    } finally {
      await out.close();
    }
    const made = await checkBackup(part);
    await rename(part, file);
    return made;
  } finally {
    await rm(part, { force: true });
  }
}

/** Compares an archive with its checksums, as `tieline restore --check`. `TielineError` says what is wrong with it. */
export async function checkBackup(file: string): Promise<Backup> {
  const archive = await open(file);
  try {
    return await checked(archive);
  } finally {
    await archive.close();
  }
}

async function checked(archive: FileHandle): Promise<Backup> {
  const found: Stored[] = [];
  let longName: string | undefined;
  for (let at = 0; ; ) {
    const { name: shortName, bytes, kind } = entryOf(await read(archive, at, BLOCK));
    const begin = at + BLOCK;
    at = begin + Math.ceil(bytes / BLOCK) * BLOCK;
    if (kind === LONG_NAME && bytes <= NAME_BYTES_MAX) {
      longName = textOf(await read(archive, begin, bytes));
      continue;
    }
    const name = longName ?? shortName;
    longName = undefined;
    if (kind !== FILE) {
      throw unusable(`the entry ${JSON.stringify(name)} is no file`);
    }
    if (name === MANIFEST && bytes <= MANIFEST_BYTES_MAX) {
      return compared(found, (await read(archive, begin, bytes)).toString());
    }
    found.push({ name, bytes, sha256: await checksum(archive, begin, bytes) });
  }
}

async function checksum(archive: FileHandle, begin: number, bytes: number): Promise<string> {
  const hash = createHash("sha256");
  for (let done = 0; done < bytes; done += PIECE) {
    hash.update(await read(archive, begin + done, Math.min(PIECE, bytes - done)));
  }
  return hash.digest("hex");
}

async function read(archive: FileHandle, at: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  for (let done = 0; done < length; ) {
    const { bytesRead } = await archive.read(bytes, done, length - done, at + done);
    if (bytesRead === 0) {
      throw unusable("it ends too early");
    }
    done += bytesRead;
  }
  return bytes;
}

/** A header of a tar archive. */
function entryOf(block: Buffer): { name: string; bytes: number; kind: string } {
  const octal = (at: number, length: number) => parseInt(textOf(block.subarray(at, at + length)).trim(), 8);
  const sum = block.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0);
  const bytes = octal(124, 12);
  if (octal(148, 8) !== sum || !Number.isSafeInteger(bytes)) {
    throw unusable(block.every((byte) => byte === 0) ? `it has no ${MANIFEST}` : "it is no archive of tieline backup");
  }
  return { name: textOf(block.subarray(0, 100)), bytes, kind: String.fromCharCode(block[156] ?? 0) };
}

function textOf(bytes: Buffer): string {
  const end = bytes.indexOf(0);
  return bytes.subarray(0, end < 0 ? bytes.length : end).toString();
}

function compared(found: Stored[], manifest: string): Backup {
  let told: { time: string; files: Stored[] };
  try {
    told = JSON.parse(manifest) as typeof told;
  } catch {
    throw unusable(`its ${MANIFEST} cannot be read`);
  }
  const time = new Date(told.time);
  if (!Array.isArray(told.files) || Number.isNaN(time.getTime())) {
    throw unusable(`its ${MANIFEST} cannot be read`);
  }
  const differs = found.find((has, at) => !isSame(has, told.files[at]));
  if (differs !== undefined || found.length !== told.files.length) {
    throw unusable(`${differs?.name ?? `the list of ${MANIFEST}`} is not what was stored`);
  }
  return { time, files: found.length, bytes: found.reduce((sum, { bytes }) => sum + bytes, 0) };
}

function isSame(has: Stored, stored: Stored | undefined): boolean {
  return has.name === stored?.name && has.bytes === stored.bytes && has.sha256 === stored.sha256;
}

function unusable(why: string): TielineError {
  return new TielineError(`the backup cannot be used: ${why}`);
}
