/**
 * Deltas over MQTT.js (5.x), MQTT 5.
 *
 *     const client = connect("ws://localhost:8083", { protocolVersion: 5, properties: { topicAliasMaximum: 65535 }, resubscribe: false });
 *     const deltas = new Deltas(client, (event) => console.log(event));
 *     deltas.subscribe("feeder/#");
 *
 * `deltas.publish(topic, value, { qos, retain })` sends what changed of a topic, where `connectProperties()` asked for that and the
 * server takes it.
 *
 * `Deltas` subscribes again after each reconnection: set `resubscribe: false`, so that the client does not do so too.
 */

import { type Event, MARK, PROPERTY, Receiver, RESYNC_TOPIC } from "./receiver.js";
import { Sender } from "./sender.js";

interface Properties {
  userProperties?: Record<string, string | string[]>;
  topicAlias?: number;
}

interface Packet {
  cmd: string;
  messageId?: number;
  properties?: Properties;
  subscriptions?: { topic: string }[];
  granted?: unknown[];
}

/** What is used of a client of MQTT.js. */
export interface Client {
  readonly connected: boolean;
  on(name: string, listener: (...words: never[]) => void): unknown;
  subscribe(filter: string, options: { qos: 0; properties: Properties }): unknown;
  unsubscribe(filter: string, done: (error?: Error | null) => void): unknown;
  publish(topic: string, payload: never, options: never, done?: never): unknown;
}

/** How a value is published. */
export interface Manner {
  readonly qos: 0 | 1 | 2;
  readonly retain: boolean;
}

/** Properties for `connect`: the server may give topics numbers, and is asked to take what changed from `Deltas.publish`. */
export function connectProperties(): { topicAliasMaximum: number; userProperties: Record<string, string> } {
  return { topicAliasMaximum: 65_535, userProperties: { [PROPERTY]: new Sender().offer } };
}

interface Marked {
  readonly qos: number;
  readonly connection: number;
}

/** Joins a `Receiver` to a client of MQTT.js. */
export class Deltas {
  private readonly wanted = new Set<string>();
  /** Filters whose SUBSCRIBE was sent and not answered, by its packet identifier. */
  private readonly asked = new Map<number, string>();
  /** Values on their way to the server. */
  readonly sender = new Sender<Manner>();
  /** Marked messages that are not answered. */
  private readonly marked = new Set<Marked>();
  private connection = 0;

  constructor(
    private readonly client: Client,
    private readonly onEvent: (event: Event) => void,
    readonly receiver = new Receiver(),
  ) {
    client.on("connect", ((packet: Packet | undefined) => {
      receiver.handleDisconnect();
      const answer = packet?.properties?.userProperties?.[PROPERTY];
      this.connection += 1;
      this.sender.handleConnack(Array.isArray(answer) ? answer[0] : answer);
      this.asked.clear();
      for (const filter of this.wanted) this.ask(filter);
    }) as never);
    // MQTT.js tells the caller of `subscribe` only after it has handed over the messages that came behind the SUBACK.
    client.on("packetsend", ((packet: Packet) => {
      const filter = packet.cmd === "subscribe" && packet.subscriptions?.[0]?.topic;
      if (filter && packet.properties?.userProperties?.[PROPERTY]) this.asked.set(packet.messageId ?? 0, filter);
    }) as never);
    client.on("packetreceive", ((packet: Packet) => {
      if (packet.cmd === "suback") this.answered(packet);
    }) as never);
    client.on("close", () => {
      receiver.handleDisconnect();
      this.sender.handleDisconnect();
    });
    client.on("message", ((topic: string, payload: Uint8Array, packet: Packet) => {
      this.take(topic, payload, packet);
    }) as never);
  }

  /** Subscribes with deltas, as soon as and whenever there is a connection. */
  subscribe(filter: string): void {
    this.wanted.add(filter);
    if (this.client.connected) this.ask(filter);
  }

  /** Takes a subscription back. */
  unsubscribe(filter: string): void {
    this.wanted.delete(filter);
    if (!this.client.connected) return;
    this.client.unsubscribe(filter, (error) => {
      if (!error) this.receiver.handleUnsuback(filter);
    });
  }

  /**
   * Publishes a topic's value; over the wire goes what changed, where the server takes that. QoS 2 goes whole. What the
   * server cannot apply is published once more, whole, unless a newer value of the topic has gone out: that is an error then.
   */
  publish(topic: string, value: Uint8Array, how: Manner, done: (error?: Error | null) => void = () => undefined): void {
    const { qos } = how;
    // Those of one QoS and one connection do not overtake one another.
    const [first] = this.marked;
    const inTurn = !first || (first.qos === qos && first.connection === this.connection);
    const saying = this.sender.say(topic, value, how, inTurn && qos < 2 && this.client.connected);
    const marked = { qos, connection: this.connection };
    if (saying.marked) this.marked.add(marked);
    const properties = saying.marked ? { properties: { userProperties: { [PROPERTY]: MARK } } } : {};
    const answered = (error?: (Error & { code?: unknown }) | null) => {
      this.marked.delete(marked);
      if (!error || !saying.marked) return done(error);
      const last = this.sender.handleRefused(topic, saying.number);
      if (!last || !saying.isDelta || error.code !== 0x99) return done(error);
      this.publish(topic, last.value, last.how, done);
    };
    this.client.publish(topic, saying.payload as never, { ...how, ...properties } as never, answered as never);
  }

  private ask(filter: string): void {
    this.client.subscribe(filter, { qos: 0, properties: { userProperties: { [PROPERTY]: this.receiver.offer } } });
  }

  private answered({ messageId = 0, granted, properties }: Packet): void {
    const filter = this.asked.get(messageId);
    if (filter === undefined) return;
    this.asked.delete(messageId);
    const [code] = granted ?? [];
    if (typeof code === "number" && code >= 0x80) return;
    const answer = properties?.userProperties?.[PROPERTY];
    this.receiver.handleSuback(filter, Array.isArray(answer) ? answer[0] : answer);
  }

  private take(topic: string, payload: Uint8Array, packet: Packet): void {
    if (topic === RESYNC_TOPIC) {
      const name = new TextDecoder().decode(payload);
      const last = this.sender.handleRefused(name);
      if (last) this.publish(name, last.value, last.how);
      return;
    }
    const { topicAlias, userProperties } = packet.properties ?? {};
    const marked = [userProperties?.[PROPERTY]].flat().includes(MARK);
    for (const event of this.receiver.handlePublish(topic, payload, topicAlias, marked)) this.onEvent(event);
    for (let ask = this.receiver.pollResync(); ask !== undefined; ask = this.receiver.pollResync()) {
      this.client.publish(RESYNC_TOPIC, ask as never, { qos: 0 } as never);
    }
  }
}
