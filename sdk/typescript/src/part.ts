/** What the calls of a node have in common. */

import type { Connection } from "./connection.js";

export type Json = Record<string, unknown>;
export type Moment = Date | string;

type Asked = Record<string, string | boolean | undefined>;

const PAGE = 1000;

/** Calls of a node. */
export class Part {
  constructor(protected readonly connection: Connection) {}

  /** The list of that name of all pages. */
  protected async *pages<T>(path: string, member: string, asked: Asked = {}): AsyncGenerator<T> {
    for (let after: string | undefined | null = undefined; after !== null; ) {
      const page: Json = await this.connection.get(path, { ...asked, after, limit: PAGE });
      yield* page[member] as T[];
      after = (page["next"] ?? null) as string | null;
    }
  }

  /** The list of that name of all pages, the newest first. */
  protected async *back<T>(path: string, member: string, asked: Asked = {}): AsyncGenerator<T> {
    for (let before: number | undefined | null = undefined; before !== null; ) {
      const page: Json = await this.connection.get(path, { ...asked, before });
      yield* page[member] as T[];
      before = page["next"] as number | null;
    }
  }
}

/** A time for the node: RFC 3339, or a text as it is, such as `24h` ago. */
export function moment(time: Moment): string;
export function moment(time: Moment | undefined): string | undefined;
export function moment(time: Moment | undefined): string | undefined {
  return time instanceof Date ? time.toISOString() : time;
}
