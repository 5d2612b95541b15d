/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Locks of MQTT sessions over MQTT.js (5.x), MQTT 5: docs/locks.md.
 *
 *     const locks = new Locks(mqtt.connect("mqtt://localhost", { protocolVersion: 5 }));
 *     await locks.hold("plant/writer", { wait: "30s" }, async (lock) => {
 *       await lock.publish("plant/mode", "auto", { retain: true });
 *     });
 *
 * `await using lock = await locks.take("plant/writer")` is the same for a block.
 */

import { Denied, Refused, Unknown, Unreachable } from "./errors.js";

type Scope = "session" | "connection";

interface Properties {
  responseTopic?: string;
  correlationData?: Uint8Array;
  userProperties?: Record<string, string>;
}

interface Packet {
  properties?: { correlationData?: Uint8Array };
}

/** What is used of a client of MQTT.js. */
export interface Client {
  readonly connected: boolean;
  on(name: string, listener: (...words: never[]) => void): unknown;
  subscribe(filter: string, options: { qos: 1 }): unknown;
  publish(topic: string, payload: never, options: never, done?: never): unknown;
}

export interface TakeOptions {
  /** How long to wait while another session has the lock, as in `30s`; `0s`: not at all. By default as long as the scope lasts. */
  wait?: string;
  /** What ends the lock beside its release: the end of the session, or also the loss of the connection. */
  scope?: Scope;
  /** Called when the node has given the lock to somebody else. */
  onLost?: (lock: Lock) => void;
}

interface Answer {
  status: "acquired" | "released" | "refused" | "lost";
  number?: number;
  reason?: string;
  detail?: string;
}

interface Waiting<T> {
  resolve: (value: T) => void;
  reject: (error: unknown) => void;
}

/** The user property of a message that depends on a lock. */
const PROPERTY = "tieline-if-lock";
/** PUBACK: not authorized. */
const NOT_AUTHORIZED = 0x87;

/** A lock that this session has: until it is released or lost. */
export class Lock {
  /** The number of the acquisition: a fencing token. */
  number = 0;
  isHeld = false;
  /** Why it was lost; undefined before. */
  lost: string | undefined;

  constructor(
    private readonly locks: Locks,
    readonly name: string,
    readonly scope: Scope,
    private readonly onLost: ((lock: Lock) => void) | undefined,
  ) {}

  /** The user property of messages that the node accepts only while the lock is held by this acquisition. */
  get userProperty(): Record<string, string> {
    return { [PROPERTY]: `${this.name}#${this.number}` };
  }

  /** Publishes if the lock is held; ends when the node has the message. `Refused` if the lock is not held any more. */
  async publish(topic: string, value: string | Uint8Array, options: { retain?: boolean } = {}): Promise<void> {
    await this.locks.send(topic, value, { userProperties: this.userProperty }, options.retain ?? false);
  }

  /** Releases it. While the connection is away: as soon as it is back. */
  release(): Promise<void> {
    return this.locks.release(this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  /** For `Locks`: the node has given it to somebody else. */
  lose(why: string): void {
    if (this.lost === undefined) {
      [this.isHeld, this.lost] = [false, why];
      this.onLost?.(this);
    }
  }
}

/**
 * The locks of a client of MQTT.js. `reply` is the topic of answers, which the client must be allowed to read.
 *
 * Locks are kept: after a reconnection the node is asked for each of them again, and one that has another number, or is of somebody
 * else, is lost. `timeoutSeconds` is the time for a connection, by default 30.
 */
export class Locks {
  private readonly taking = new Map<string, Waiting<Lock> & { lock: Lock }>();
  private readonly held = new Map<string, Lock>();
  private readonly releasing = new Map<string, Waiting<void>>();
  /** Messages without a PUBACK. */
  private readonly sent = new Set<Waiting<void>>();
  /** Names to release when the connection is back. */
  private readonly owed = new Set<string>();
  private readonly reply: string;
  private readonly timeoutMs: number;
  /** Those that wait for a connection. */
  private readonly arriving = new Set<() => void>();

  constructor(private readonly client: Client, options: { reply?: string; timeoutSeconds?: number } = {}) {
    this.reply = options.reply ?? `reply/${crypto.randomUUID()}`;
    this.timeoutMs = (options.timeoutSeconds ?? 30) * 1000;
    client.on("connect", () => this.connected());
    client.on("close", () => this.disconnected());
    client.on("message", ((topic: string, payload: Uint8Array, packet: Packet) => {
      if (topic === this.reply) this.answered(payload, packet);
    }) as never);
    if (client.connected) {
      client.subscribe(this.reply, { qos: 1 });
    }
  }

  /**
   * Takes a lock, as soon as no other session has it. `Refused`: another session has it (`held`, `timeout`), or as in docs/locks.md.
   */
  async take(name: string, options: TakeOptions = {}): Promise<Lock> {
    const { wait, scope = "session", onLost } = options;
    if (!this.client.connected) {
      await this.arrival();
    }
    if (this.taking.has(name) || this.held.has(name)) {
      throw new Refused(`this client has or takes the lock ${name} already`, 0, "held");
    }
    this.owed.delete(name);
    return new Promise<Lock>((resolve, reject) => {
      this.taking.set(name, { lock: new Lock(this, name, scope, onLost), resolve, reject });
      this.ask("acquire", { lock: name, scope, wait }, (error) => this.endTake(name, error));
    });
  }

  /** Has a lock while `work` is done, and releases it then; what `work` gives. */
  async hold<T>(name: string, options: TakeOptions, work: (lock: Lock) => Promise<T>): Promise<T> {
    const lock = await this.take(name, options);
    try {
      return await work(lock);
    } finally {
      await lock.release();
    }
  }

  /** For `Lock`: publishes; ends with the PUBACK. */
  send(topic: string, payload: string | Uint8Array, properties: Properties, retain: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting = { resolve, reject };
      this.sent.add(waiting);
      const done = (error?: (Error & { code?: unknown }) | null) => {
        this.sent.delete(waiting);
        if (!error) {
          resolve();
        } else if (typeof error.code !== "number") {
          reject(new Unknown(error.message));
        } else {
          reject(error.code === NOT_AUTHORIZED ? new Denied(error.message) : new Refused(error.message));
        }
      };
      this.client.publish(topic, payload as never, { qos: 1, retain, properties } as never, done as never);
    });
  }

  /** For `Lock`. */
  async release(lock: Lock): Promise<void> {
    if (this.held.get(lock.name) !== lock) {
      return;
    }
    this.held.delete(lock.name);
    lock.isHeld = false;
    if (!this.client.connected) {
      this.owed.add(lock.name);
      return;
    }
    await new Promise<void>((resolve, reject) => {
      this.releasing.set(lock.name, { resolve, reject });
      this.ask("release", { lock: lock.name, number: lock.number }, reject);
    });
  }

  /** Waits for a connection. */
  private arrival(): Promise<void> {
    return new Promise((resolve, reject) => {
      const arrived = () => {
        clearTimeout(timer);
        this.arriving.delete(arrived);
        resolve();
      };
      const timer = setTimeout(() => {
        this.arriving.delete(arrived);
        reject(new Unreachable("the client is not connected"));
      }, this.timeoutMs);
      this.arriving.add(arrived);
    });
  }

  private ask(verb: "acquire" | "release", body: { lock: string; [more: string]: unknown }, fail: (error: unknown) => void): void {
    const correlationData = new TextEncoder().encode(`${verb} ${body.lock}`);
    const sent = this.send(`$locks/${verb}`, JSON.stringify(body), { responseTopic: this.reply, correlationData }, false);
    sent.catch((error: unknown) => {
      if (!(error instanceof Unknown)) fail(error);
    });
  }

  private answered(payload: Uint8Array, packet: Packet): void {
    const text = new TextDecoder();
    const [verb, ...rest] = text.decode(packet.properties?.correlationData).split(" ");
    const [name, answer] = [rest.join(" "), JSON.parse(text.decode(payload)) as Answer];
    if (verb === "release") {
      this.releasing.get(name)?.resolve();
      this.releasing.delete(name);
    } else if (answer.status === "acquired") {
      this.acquired(name, answer.number ?? 0);
    } else if (answer.status === "lost" || answer.reason !== "replaced") {
      this.refused(name, answer.detail ?? "", answer.reason ?? "");
    }
  }

  private acquired(name: string, number: number): void {
    const [taking, held] = [this.taking.get(name), this.held.get(name)];
    if (taking) {
      const { lock, resolve } = taking;
      [lock.number, lock.isHeld] = [number, true];
      this.taking.delete(name);
      this.held.set(name, lock);
      resolve(lock);
    } else if (held?.number === number) {
      held.isHeld = true;
    } else {
      // Nobody here waits for it any more, or another session may have had it meanwhile.
      this.held.delete(name);
      this.ask("release", { lock: name, number }, () => undefined);
      held?.lose("another session may have had it");
    }
  }

  private refused(name: string, detail: string, reason: string): void {
    const held = this.held.get(name);
    this.held.delete(name);
    if (held) {
      held.lose(detail || reason);
    } else {
      this.endTake(name, new Refused(detail, 0, reason));
    }
  }

  private endTake(name: string, error: unknown): void {
    this.taking.get(name)?.reject(error);
    this.taking.delete(name);
  }

  private connected(): void {
    this.client.subscribe(this.reply, { qos: 1 });
    for (const name of this.owed) {
      this.ask("release", { lock: name }, () => undefined);
    }
    this.owed.clear();
    for (const { name, scope } of this.held.values()) {
      this.ask("acquire", { lock: name, scope, wait: "0s" }, (error) => this.refused(name, String(error), ""));
    }
    for (const arrived of [...this.arriving]) {
      arrived();
    }
  }

  private disconnected(): void {
    for (const [name, { reject }] of this.taking) {
      this.owed.add(name);
      reject(new Unreachable("the connection was lost"));
    }
    for (const [name, { resolve }] of this.releasing) {
      this.owed.add(name);
      resolve();
    }
    for (const { reject } of this.sent) {
      reject(new Unknown("the connection was lost, and the message may have arrived"));
    }
    for (const lock of this.held.values()) {
      lock.isHeld = false;
    }
    for (const waiting of [this.taking, this.releasing, this.sent]) {
      waiting.clear();
    }
  }
}
