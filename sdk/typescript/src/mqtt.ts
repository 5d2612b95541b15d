/**
 * Deltas over MQTT.js (5.x), MQTT 5.
 *
 *     const client = connect("ws://localhost:8083", { protocolVersion: 5, properties: { topicAliasMaximum: 65535 }, resubscribe: false });
 *     const deltas = new Deltas(client, (event) => console.log(event));
 *     deltas.subscribe("feeder/#");
 *
 * `Deltas` subscribes again after each reconnection: set `resubscribe: false`, so that the client does not do so too.
 */

import { type Event, MARK, PROPERTY, Receiver, RESYNC_TOPIC } from "./receiver.js";

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
  publish(topic: string, payload: string, options: { qos: 0 }): unknown;
}

/** Joins a `Receiver` to a client of MQTT.js. */
export class Deltas {
  private readonly wanted = new Set<string>();
  /** Filters whose SUBSCRIBE was sent and not answered, by its packet identifier. */
  private readonly asked = new Map<number, string>();

  constructor(
    private readonly client: Client,
    private readonly onEvent: (event: Event) => void,
    readonly receiver = new Receiver(),
  ) {
    client.on("connect", () => {
      receiver.handleDisconnect();
      this.asked.clear();
      for (const filter of this.wanted) this.ask(filter);
    });
    // MQTT.js tells the caller of `subscribe` only after it has handed over the messages that came behind the SUBACK.
    client.on("packetsend", ((packet: Packet) => {
      const filter = packet.cmd === "subscribe" && packet.subscriptions?.[0]?.topic;
      if (filter && packet.properties?.userProperties?.[PROPERTY]) this.asked.set(packet.messageId ?? 0, filter);
    }) as never);
    client.on("packetreceive", ((packet: Packet) => {
      if (packet.cmd === "suback") this.answered(packet);
    }) as never);
    client.on("close", () => receiver.handleDisconnect());
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
    const { topicAlias, userProperties } = packet.properties ?? {};
    const marked = [userProperties?.[PROPERTY]].flat().includes(MARK);
    for (const event of this.receiver.handlePublish(topic, payload, topicAlias, marked)) this.onEvent(event);
    for (let ask = this.receiver.pollResync(); ask !== undefined; ask = this.receiver.pollResync()) {
      this.client.publish(RESYNC_TOPIC, ask, { qos: 0 });
    }
  }
}
