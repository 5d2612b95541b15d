/** Calls of a node: its state and its operation. */

import { quoted } from "./connection.js";
import { Field } from "./field.js";
import { type Json, type Moment, moment } from "./part.js";

/** How many devices a reload changed. */
export interface ReloadedDevices {
  added: number;
  changed: number;
  kept_connection: number;
  removed: number;
  unchanged: number;
}

/** What a reload could not start. */
export interface NotStarted {
  detail: string;
  name: string;
}

/** What a reload changed. */
export interface ReloadDone {
  derived: number;
  derived_series: number;
  devices: ReloadedDevices;
  not_started: NotStarted[];
  restart_needed: string[];
  status: "ok";
  views: number;
}

/** How many views there are after a reload. */
export interface ViewsReloaded {
  derived: number;
  status: "ok";
  views: number;
}

/** A diagram of the list. */
export interface DiagramShown {
  name: string;
  title: string;
  topics: number;
  version: string;
}

/** A board of the list. */
export interface BoardListed {
  name: string;
  panels: number;
  title: string;
  version: string;
}

/** A panel of a board. */
export interface BoardPanel {
  diagram?: string;
  filter?: string;
  height: number;
  high?: number;
  kind: string;
  link?: string;
  low?: number;
  max?: number;
  min?: number;
  text?: string;
  title: string;
  topics?: string[];
  width: number;
}

/** A variable of a board. */
export interface BoardVariable {
  label: string;
  name: string;
  values: string[];
}

/** A board with its panels. */
export interface BoardShown {
  name: string;
  panels: BoardPanel[];
  range: string;
  title: string;
  variables: BoardVariable[];
  version: string;
}

/** Why a receiver did not take a message. */
export interface LastFailure {
  detail: string;
  time: string;
}

/** A receiver of notifications. */
export interface Receiver {
  delivered: string | null;
  failing_since: string | null;
  kind: "webhook" | "alertmanager" | "smtp" | "mqtt";
  last_failure: LastFailure | null;
  name: string;
  nobody: string | null;
  waiting: number;
}

/** The receivers of notifications, and how they are doing. */
export interface NotifyShown {
  dropped: number;
  receivers: Receiver[];
  routes: number;
  waiting: number;
}

/** Whether a test has arrived. */
export interface NotifyTested {
  delivered: boolean;
  detail: string;
  to: string;
}

/** Who is on call, and when. */
export interface Shift {
  from: string;
  title: string;
  to: string;
  who: string[];
}

/** A time without anybody on call, or with several shifts. */
export interface Uncovered {
  from: string;
  to: string;
  who: string[];
}

/** The calendar of one receiver. */
export interface OnCallReceiver {
  file: string;
  holes: Uncovered[];
  next: Shift | null;
  now: Shift[];
  overlaps: Uncovered[];
  receiver: string;
}

/** Who is on call. */
export interface OnCallShown {
  at: string;
  receivers: OnCallReceiver[];
}

/** Messages between a site and its centre. */
export interface SiteMessages {
  asked: number;
  lost: number;
  not_kept: number;
  received: number;
  repeated: number;
  sent: number;
  waiting: number;
  waiting_bytes: number;
  wanted: number;
}

/** What is behind a site that is a centre itself. */
export interface Behind {
  away: number;
  away_topics: string[];
  lag_s: number;
  sites: number;
}

/** A site of a centre. */
export interface SiteShown {
  behind?: Behind | null;
  clock_offset_s?: number;
  doubled: boolean;
  events: SiteMessages;
  heard?: string;
  lag_s: number;
  lost: number;
  name: string;
  records: number;
  round_trip_s?: number;
  samples: number;
  since: string;
  state: "up" | "away";
  waiting: number;
}

/** A site that may join. */
export interface FabricSite {
  created: string;
  key: string | null;
  last_seen: string | null;
  name: string;
  next_key: string | null;
  state: "invited" | "active" | "revoked";
  token_expires: string | null;
}

/** A token by which a site joins once. */
export interface SiteToken {
  expires: string;
  name: string;
  status: "ok";
  token: string;
}

/** The time of a node, and whether it is in doubt. */
export interface Clock {
  expected: string | null;
  in_doubt: boolean;
  off_s: number | null;
  time: string;
}

/** A member of a core with standbys. */
export interface ClusterMember {
  applied: number;
  behind_s?: number;
  heard_s: number;
  lag?: number;
  name: string;
  reference?: string;
  role: "connecting" | "behind" | "catching_up" | "standby" | "starting" | "leader" | "unknown";
  term: number;
}

/** The role of a node in its core. */
export interface Cluster {
  appends: number;
  applied: number;
  behind_s?: number;
  cluster: string;
  depositions: number;
  elections: number;
  lag: number;
  last: number;
  leader?: string;
  members: ClusterMember[];
  node: string;
  reference?: string;
  role: "connecting" | "behind" | "catching_up" | "standby" | "starting" | "leader";
  term: number;
  trouble: string;
  waiting_bytes: number;
}

/** A derived series. */
export interface DerivedShown {
  ahead: number;
  bad: number;
  early: number;
  error?: string;
  every_s?: number;
  last?: unknown;
  late: number;
  progress: number;
  results: number;
  state: "waiting" | "deleting" | "backfilling" | "live";
  topic: string;
  upto?: string;
  value: string;
}

/** A topic with many updates. */
export interface Busy {
  bytes: number;
  bytes_per_s: number;
  over: number;
  topic: string;
  updates: number;
  updates_per_s: number;
}

const BACKUP_SILENCE_MS = 120_000;

/** State and operation of a node. */
export class Operation extends Field {
  /** Name, version, listeners and state of the node. */
  status(): Promise<Json> {
    return this.connection.get("/v1/status");
  }

  /** Whether the node is healthy, and what is wrong. */
  async health(): Promise<Json & { status: string }> {
    const answer = await this.connection.send("GET", "/healthz", { accept: (status) => status === 503 });
    return answer.json() as Promise<Json & { status: string }>;
  }

  /** User and roles of the caller, and what the caller may read. */
  me(): Promise<Json> {
    return this.connection.get("/v1/me");
  }

  /** MQTT clients, those with the greatest lag first. */
  async sessions(options: { order?: string; limit?: number } = {}): Promise<Json[]> {
    return (await this.connection.get<{ sessions: Json[] }>("/v1/sessions", { ...options })).sessions;
  }

  /** Topics with the most updates in the last window. */
  async busiest(options: { limit?: number } = {}): Promise<Busy[]> {
    return (await this.connection.get<{ topics: Busy[] }>("/v1/busiest", { ...options })).topics;
  }

  /** Reloads devices, point lists and views from the configuration: all of it, or nothing (`Refused`, which says what is wrong). */
  reload(): Promise<ReloadDone> {
    return this.connection.change("/v1/reload");
  }

  /** Reloads the views alone. */
  reloadViews(): Promise<ViewsReloaded> {
    return this.connection.change("/v1/views/reload");
  }

  /** A backup of the data folder, piece by piece; `saveBackup` of `tieline/backup` writes it to a file and checks it. */
  backup(options: { signal?: AbortSignal } = {}): AsyncGenerator<Uint8Array> {
    return this.connection.pieces("/v1/backup", {}, BACKUP_SILENCE_MS, options.signal);
  }

  /** Single-line diagrams. */
  async diagrams(): Promise<DiagramShown[]> {
    return (await this.connection.get<{ diagrams: DiagramShown[] }>("/v1/diagrams")).diagrams;
  }

  /** A single-line diagram as SVG. */
  async diagram(name: string): Promise<string> {
    return (await this.connection.send("GET", `/v1/diagrams/${quoted(name)}`)).text();
  }

  /** Boards. */
  async boards(): Promise<BoardListed[]> {
    return (await this.connection.get<{ boards: BoardListed[] }>("/v1/boards")).boards;
  }

  /** A board with its panels. */
  board(name: string): Promise<BoardShown> {
    return this.connection.get(`/v1/boards/${quoted(name)}`);
  }

  /** The file of a board, in TOML. */
  async boardFile(name: string): Promise<string> {
    return (await this.connection.send("GET", `/v1/boards/${quoted(name)}`, { params: { format: "toml" } })).text();
  }

  /** The board that a file in TOML would make; `Refused` says what is wrong with it. Nothing is stored. */
  async checkBoard(name: string, text: string): Promise<BoardShown> {
    const answer = await this.connection.send("PUT", `/v1/boards/${quoted(name)}`, { params: { check: true }, content: text });
    return ((await answer.json()) as { board: BoardShown }).board;
  }

  /** Changes a board to a file in TOML, if it has this version (`*`: any); with `ifAbsent` makes one. */
  async putBoard(name: string, text: string, options: { ifVersion?: string; ifAbsent?: boolean } = {}): Promise<BoardShown> {
    const headers = options.ifAbsent === true ? { "If-None-Match": "*" } : match(options.ifVersion);
    const answer = await this.connection.send("PUT", `/v1/boards/${quoted(name)}`, { content: text, headers });
    return ((await answer.json()) as { board: BoardShown }).board;
  }

  /** Removes a board, if it has this version. */
  async deleteBoard(name: string, options: { ifVersion?: string } = {}): Promise<void> {
    await this.connection.send("DELETE", `/v1/boards/${quoted(name)}`, { headers: match(options.ifVersion) });
  }

  /** Receivers of notifications, and how they are doing. */
  notifications(): Promise<NotifyShown> {
    return this.connection.get("/v1/notify");
  }

  /** Sends a test to a receiver; whether it has arrived. */
  testNotification(receiver: string): Promise<NotifyTested> {
    return this.connection.change("/v1/notify/test", { to: receiver });
  }

  /** Who is on call at a time, by default now; who is next, and holes of the week after it. */
  onCall(at?: Moment): Promise<OnCallShown> {
    return this.connection.get("/v1/notify/on-call", { at: moment(at) });
  }

  /** Sites of a centre, by name; with the order `worst` those first that are away or have the greatest lag. */
  async sites(options: { order?: "plain" | "worst"; limit?: number } = {}): Promise<SiteShown[]> {
    return (await this.connection.get<{ sites: SiteShown[] }>("/v1/sites", { ...options })).sites;
  }

  /** Sites that may join, have joined, or are revoked. */
  async fabricSites(): Promise<FabricSite[]> {
    return (await this.connection.get<{ sites: FabricSite[] }>("/v1/fabric/sites")).sites;
  }

  /** Adds a site, or takes up a revoked one; ends when it is stored. */
  async addSite(name: string, options: { key?: string } = {}): Promise<FabricSite> {
    return (await this.connection.change<{ site: FabricSite }>("/v1/fabric/sites", { name, ...options })).site;
  }

  /** Makes a token by which a site joins once. It replaces the token before. */
  inviteSite(name: string, options: { validSeconds?: number } = {}): Promise<SiteToken> {
    return this.connection.change("/v1/fabric/sites/token", { name, valid_s: options.validSeconds });
  }

  /** Revokes a site: its keys and its token are void, and its connections end. */
  async revokeSite(name: string): Promise<FabricSite> {
    return (await this.connection.change<{ site: FabricSite }>("/v1/fabric/sites/revoke", { name })).site;
  }

  /** The role of the node in its core, the leader, the members. `Refused` with the status 404 if the node has no core. */
  cluster(): Promise<Cluster> {
    return this.connection.get("/v1/cluster");
  }

  /** Derived series with their state and last results. */
  async derived(): Promise<DerivedShown[]> {
    return (await this.connection.get<{ series: DerivedShown[] }>("/v1/derived")).series;
  }

  /** The time of the node, and whether it is in doubt. */
  clock(): Promise<Clock> {
    return this.connection.get("/v1/clock");
  }

  /** Confirms the clock of the node after it was found in doubt; `time` is that of the caller. */
  async confirmClock(time: Moment): Promise<void> {
    await this.connection.change("/v1/clock", { time: moment(time) });
  }
}

function match(version = "*"): Record<string, string> {
  return { "If-Match": version === "*" ? version : `"${version}"` };
}
