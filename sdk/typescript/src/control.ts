/** Reserves devices, and commands many points in one call: docs/control.md. */

/** A value of a point; null relinquishes one that has priorities. */
export type Value = boolean | number | string | null;
export type Priority = "HIGH" | "LOW" | "LOW_PREEMPT";

export interface ClientOptions {
  /** The name under which this program reserves and commands. */
  requester?: string;
  user?: string;
  password?: string;
  token?: string;
  /** The time in seconds that the node may take for a call as a whole. */
  timeoutSeconds?: number;
}

/** When: for so many seconds from the start (by default now), or until an end. */
export interface Span {
  seconds?: number;
  start?: Date | string;
  end?: Date | string;
  priority?: Priority;
  /** Seconds after which the reservation ends when this process does not live: it is renewed until then. Null: no lease. */
  leaseSeconds?: number | null;
  /** Called when the node does not have the reservation any more, with why, as `TASK_ID_DOES_NOT_EXIST`. */
  onEnded?: (info: string) => void;
}

/** What is taken from all programs. */
export interface Override {
  pattern: string;
  who: string;
  /** When it ends by itself. */
  until: string | null;
}

/** What is not to be operated, and why. */
export interface Tag {
  id: number;
  topic: string;
  kind: "hold" | "do_not_operate" | "note";
  why: string;
  owner: string;
  placed: string;
}

export interface CallOptions {
  /** Whether each point is answered only once a reading shows it, or none did in time. */
  confirm?: boolean;
  /** Whether nothing is sent: the answer says what would be. */
  dryRun?: boolean;
  /** The longest time of each command. */
  timeoutMs?: number;
  mode?: "select" | "direct";
}

export interface PointResult {
  topic: string;
  status: "accepted" | "confirmed" | "unconfirmed" | "refused" | "unknown" | "would_send";
  expected?: Value;
  reading?: { v: Value; q: string; t: string };
  raw?: Value;
  mode?: string;
  reverts?: boolean;
  reason?: string;
  detail?: string;
  elapsed_ms?: number;
}

export interface CallResult {
  status: "success" | "partial" | "refused" | "unknown" | "unconfirmed" | "dry_run";
  points: PointResult[];
  accepted: number;
  confirmed: number;
  unconfirmed: number;
  refused: number;
  unknown: number;
  elapsed_ms: number;
}

export interface Reservation {
  task: string;
  requester: string;
  priority: Priority;
  slots: { device: string; start: string; end: string; current: boolean }[];
  grace_end: string | null;
  lease_s: number | null;
  lease_end: string | null;
}

/** The node gave no answer of this API: who asks may not, or the node is stopping. */
export class NodeError extends Error {
  constructor(readonly status: number, readonly detail: string) {
    super(`${status}: ${detail}`);
  }
}

/** Nothing of a call was done: `reason` is a stable word, `detail` a sentence. */
export class Refused extends Error {
  constructor(readonly reason: string, readonly detail: string) {
    super(`${reason}: ${detail}`);
  }
}

/** A reservation was not granted: `info` as VOLTTRON's actuator agent says it, and who is in the way. */
export class Failed extends Error {
  constructor(readonly info: string, readonly data: unknown) {
    super(info);
  }
}

type Json = Record<string, unknown>;

const LEASE_S = 60;
/** How often a lease is renewed in its time. */
const RENEWALS = 4;

/** One node, over HTTP. */
export class Client {
  private readonly url: string;
  /** What renews leases, by task. */
  private readonly leases = new Map<string, ReturnType<typeof setInterval>>();
  private readonly headers: Record<string, string> = { "Content-Type": "application/json" };

  constructor(url: string, private readonly options: ClientOptions = {}) {
    this.url = (url.includes("://") ? url : `http://${url}`).replace(/\/+$/, "");
    const { user, password, token } = options;
    if (token !== undefined) {
      this.headers["Authorization"] = `Bearer ${token}`;
    } else if (user !== undefined) {
      const bytes = new TextEncoder().encode(`${user}:${password ?? ""}`);
      this.headers["Authorization"] = `Basic ${btoa(String.fromCharCode(...bytes))}`;
    }
  }

  /** Reserves devices; the tasks that were pre-empted, [requester, task] each. Throws `Failed`. */
  async reserve(task: string, devices: string[], span: Span): Promise<[string, string][]> {
    const slots = devices.map((device) => ({
      device,
      ...(span.start === undefined ? {} : { start: time(span.start) }),
      ...(span.end === undefined ? {} : { end: time(span.end) }),
      ...(span.seconds === undefined ? {} : { for: `${Math.round(span.seconds * 1000)}ms` }),
    }));
    const seconds = span.leaseSeconds === undefined ? LEASE_S : span.leaseSeconds;
    const lease = seconds === null ? "none" : `${Math.round(seconds * 1000)}ms`;
    const data = await this.granted("/v1/reservations", { task, priority: span.priority ?? "LOW", slots, lease });
    if (seconds !== null) {
      this.keep(task, (seconds * 1000) / RENEWALS, span.onEnded);
    }
    return Array.isArray(data) ? (data as [string, string][]) : [];
  }

  /** Ends a reservation; what was commanded under it is reverted. Throws `Failed`. */
  async cancel(task: string, force = false): Promise<void> {
    this.leave(task);
    await this.granted("/v1/reservations/cancel", { task, force });
  }

  /** Renews the leases of this requester, which has this reservation. Throws `Failed`. */
  async renew(task: string): Promise<void> {
    await this.granted("/v1/reservations/renew", { task });
  }

  /** All reservations. */
  async reservations(): Promise<Reservation[]> {
    return (await this.ask("/v1/reservations"))["reservations"] as Reservation[];
  }

  /** Sets points. Throws `Refused` where nothing was taken. */
  async set(points: Record<string, Value>, options: CallOptions = {}): Promise<CallResult> {
    const mode = options.mode === undefined ? {} : { mode: options.mode };
    const listed = Object.entries(points).map(([topic, value]) => ({ topic, value, ...mode }));
    return this.call("/v1/set", { points: listed }, options);
  }

  /** Reverts points, and all points of devices that can be. Throws `Refused` where nothing was taken. */
  async revert(points: string[], devices: string[] = [], options: CallOptions = {}): Promise<CallResult> {
    return this.call("/v1/revert", { points, devices }, options);
  }

  /** Last values, and why some topics have none. */
  async get(topics: string[]): Promise<{ values: Map<string, unknown>; errors: Record<string, string> }> {
    const answer = await this.ask("/v1/get", { topics });
    const found = answer["topics"] as { topic: string; value: unknown }[];
    const values = new Map(found.map(({ topic, value }) => [topic, value]));
    return { values, errors: answer["errors"] as Record<string, string> };
  }

  /** Takes what a pattern selects from all programs; what that is. Throws `Refused`. */
  async overrideOn(pattern: string, options: { seconds?: number; revert?: boolean; staggered?: boolean } = {}): Promise<string[]> {
    const { seconds, revert, staggered } = options;
    const body = { pattern, duration_s: seconds ?? null, failsafe_revert: revert ?? false, staggered_revert: staggered ?? false };
    return ((await this.done("/v1/overrides", body))["selects"] as string[] | undefined) ?? [];
  }

  /** Ends an override, or all. Throws `Refused`. */
  async overrideOff(pattern?: string): Promise<void> {
    await this.done("/v1/overrides/off", { pattern: pattern ?? null });
  }

  /** Overrides that are on. */
  async overrides(): Promise<Override[]> {
    return (await this.ask("/v1/overrides"))["overrides"] as Override[];
  }

  /** Places a tag. It, and how many commands were out, which it does not stop. Throws `Refused`. */
  async placeTag(topic: string, kind: Tag["kind"], why: string): Promise<{ tag: Tag; commands_out: number }> {
    return (await this.done("/v1/tags", { topic, kind, why, ...this.name() })) as unknown as { tag: Tag; commands_out: number };
  }

  /** Lifts a tag. Throws `Refused`, and `NodeError` where it is of somebody else. */
  async liftTag(id: number): Promise<void> {
    await this.done("/v1/tags/lift", { id, ...this.name() });
  }

  /** Tags, all or those that hold for a device or a point. */
  async tags(topic?: string): Promise<Tag[]> {
    const query = topic === undefined ? "" : `?topic=${encodeURIComponent(topic)}`;
    return (await this.ask("/v1/tags" + query))["tags"] as unknown as Tag[];
  }

  private keep(task: string, pause: number, onEnded?: (info: string) => void): void {
    this.leave(task);
    const timer = setInterval(() => {
      this.renew(task).catch((error: unknown) => {
        // Of anything else the node may be back before the lease is over.
        if (error instanceof Failed && this.leases.get(task) === timer) {
          this.leave(task);
          onEnded?.(error.message);
        }
      });
    }, pause);
    // A process with nothing else to do ends, and its reservations with it.
    (timer as { unref?: () => void }).unref?.();
    this.leases.set(task, timer);
  }

  private leave(task: string): void {
    clearInterval(this.leases.get(task));
    this.leases.delete(task);
  }

  private async call(path: string, body: Json, options: CallOptions): Promise<CallResult> {
    const { confirm, dryRun, timeoutMs } = options;
    const limit = timeoutMs === undefined ? {} : { timeout_ms: timeoutMs };
    const asked = { ...body, confirm: confirm ?? false, dry_run: dryRun ?? false, ...limit, ...this.name() };
    const answer = await this.ask(path, asked);
    if (answer["reason"] !== undefined) {
      throw new Refused(String(answer["reason"]), String(answer["detail"] ?? ""));
    }
    return { points: [], ...answer } as unknown as CallResult;
  }

  private async granted(path: string, body: Json): Promise<unknown> {
    const answer = await this.ask(path, { ...body, ...this.name() });
    if (answer["result"] !== "SUCCESS") {
      throw new Failed(String(answer["info"]), answer["data"]);
    }
    return answer["data"];
  }

  private async done(path: string, body: Json): Promise<Json> {
    const answer = await this.ask(path, body);
    if (answer["status"] !== "success") {
      throw new Refused(String(answer["reason"]), String(answer["detail"] ?? ""));
    }
    return answer;
  }

  private name(): Json {
    return this.options.requester === undefined ? {} : { requester: this.options.requester };
  }

  private async ask(path: string, body?: Json): Promise<Json> {
    const signal = AbortSignal.timeout((this.options.timeoutSeconds ?? 300) * 1000);
    const method = body === undefined ? "GET" : "POST";
    const asked = { method, headers: this.headers, signal };
    const response = await fetch(this.url + path, body === undefined ? asked : { ...asked, body: JSON.stringify(body) });
    const text = await response.text();
    const kind = response.headers.get("content-type") ?? "";
    if (kind.startsWith("application/json")) {
      return JSON.parse(text) as Json;
    }
    const detail = kind.startsWith("application/problem+json") ? String((JSON.parse(text) as Json)["detail"]) : text;
    throw new NodeError(response.status, detail);
  }
}

function time(moment: Date | string): string {
  return typeof moment === "string" ? moment : moment.toISOString();
}
