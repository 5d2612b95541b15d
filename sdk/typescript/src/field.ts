/** Calls of a node: devices and points, commands, and what stands in their way. */

import { Alarms } from "./alarms.js";
import { quoted } from "./connection.js";
import { ofStatus, Refused, Unknown } from "./errors.js";
import type { Json } from "./part.js";
import type { Done } from "./values.js";

export interface CommandOptions {
  mode?: "select" | "direct";
  timeoutSeconds?: number;
  requester?: string;
}

export interface Audited extends Json {
  id: number;
  time: string;
  who: string;
  topic: string;
  phase: string;
}

export interface Device extends Json {
  topic: string;
  name: string;
  protocol: string;
  state: string;
}

export interface ConfiguredPoint extends Json {
  topic: string;
  device: string;
  type: string;
  unit: string;
  writable: boolean;
  may_command: boolean;
}

/** What is not to be operated, and why. */
export interface Tag {
  id: number;
  kind: "hold" | "do_not_operate" | "note";
  may_lift?: boolean;
  owner: string;
  placed: string;
  topic: string;
  why: string;
}

/** What is taken from all programs. */
export interface OverrideShown {
  may_end?: boolean;
  pattern: string;
  until: string | null;
  who: string;
}

/** A device and its time in a reservation. */
export interface ReservedSlot {
  current: boolean;
  device: string;
  end: string;
  start: string;
}

/** Devices that one requester has. */
export interface Reservation {
  grace_end: string | null;
  lease_end: string | null;
  lease_s: number | null;
  may_end?: boolean;
  priority: "HIGH" | "LOW" | "LOW_PREEMPT";
  requester: string;
  slots: ReservedSlot[];
  task: string;
}

/** A lock of an MQTT session. */
export interface Lock {
  client?: string;
  name: string;
  number?: number;
  scope?: "session" | "connection";
  since?: string;
  upstream?: string;
  via?: string;
  waiting: number;
}

/** Devices and points of a node. */
export class Field extends Alarms {
  /** Devices with their health, as configured; with the order `worst` those first that cannot be reached. */
  async devices(options: { order?: "plain" | "worst"; limit?: number } = {}): Promise<Device[]> {
    return (await this.connection.get<{ devices: Device[] }>("/v1/devices", { ...options })).devices;
  }

  /** One device with its points. */
  device(topic: string): Promise<Device> {
    return this.connection.get(`/v1/devices/${quoted(topic)}`);
  }

  /** Configured points: type, unit, limits, whether the caller may command them. */
  points(filter = "#"): AsyncGenerator<ConfiguredPoint> {
    return this.pages("/v1/points", "points", { filter });
  }

  /** Operates a point. `Refused`: nothing was done. `Unknown`: it was sent, and may have been carried out; it is never repeated. */
  async command(topic: string, value: unknown, options: CommandOptions = {}): Promise<Done> {
    const { mode, requester, timeoutSeconds } = options;
    const limit = timeoutSeconds === undefined ? {} : { timeout_ms: Math.round(timeoutSeconds * 1000) };
    const body = { topic, value, ...(mode ? { mode } : {}), ...(requester ? { requester } : {}), ...limit };
    const patience = timeoutSeconds === undefined ? undefined : timeoutSeconds + 30;
    const answer = await this.connection.send("POST", "/v1/command", { body, accept: () => true, timeoutSeconds: patience });
    const told = (await answer.json().catch(() => ({}))) as Json;
    const [detail, reason] = [String(told["detail"] ?? ""), String(told["reason"] ?? "")];
    switch (told["status"]) {
      case "success":
        return { topic, value: told["value"], expected: told["expected"], elapsedMs: told["elapsed_ms"] as number };
      case "refused":
        throw new Refused(detail, answer.status, reason);
      case "unknown":
        throw new Unknown(detail, answer.status);
      default:
        throw answer.ok ? new Unknown(`the node answered ${JSON.stringify(told)}`) : ofStatus(answer.status, detail);
    }
  }

  /** Records of the audit log, the newest first. */
  audit(topic?: string): AsyncGenerator<Audited> {
    return this.back("/v1/audit", "entries", { topic });
  }

  /** Tags, all or those that hold for a device or a point. */
  async tags(topic?: string): Promise<Tag[]> {
    return (await this.connection.get<{ tags: Tag[] }>("/v1/tags", { topic })).tags;
  }

  /** Places a tag on a device, a point, or all below a topic; it stays until somebody lifts it. */
  async placeTag(topic: string, kind: Tag["kind"], why: string, options: { requester?: string } = {}): Promise<Tag> {
    return (await this.done("/v1/tags", { topic, kind, why, ...options }))["tag"] as Tag;
  }

  /** Lifts a tag. */
  async liftTag(id: number, options: { requester?: string } = {}): Promise<void> {
    await this.done("/v1/tags/lift", { id, ...options });
  }

  /** Overrides that are on, all or those of a device or a point; `tieline/control` turns them on and off. */
  async overrides(topic?: string): Promise<OverrideShown[]> {
    return (await this.connection.get<{ overrides: OverrideShown[] }>("/v1/overrides", { topic })).overrides;
  }

  /** Reservations, all or those of a device; `tieline/control` makes them. */
  async reservations(topic?: string): Promise<Reservation[]> {
    return (await this.connection.get<{ reservations: Reservation[] }>("/v1/reservations", { topic })).reservations;
  }

  /** Locks that MQTT sessions have or wait for; `tieline/locks` takes them. */
  locks(): AsyncGenerator<Lock> {
    return this.pages("/v1/locks", "locks");
  }

  /** Takes a lock away from the session that has it; the next one that waits gets it. */
  async releaseLock(name: string): Promise<void> {
    await this.connection.change("/v1/locks/release", { lock: name });
  }

  /** The answer to a change of tags, whose refusals have a reason. */
  private async done(path: string, body: Json): Promise<Json> {
    const answer = await this.connection.send("POST", path, { body, accept: (status) => status >= 400 && status < 500 });
    const told = (await answer.json().catch(() => ({}))) as Json;
    const detail = String(told["detail"] ?? "");
    if (told["status"] === "refused") {
      throw new Refused(detail, answer.status, String(told["reason"] ?? ""));
    }
    if (!answer.ok) {
      throw ofStatus(answer.status, detail);
    }
    return told;
  }
}
