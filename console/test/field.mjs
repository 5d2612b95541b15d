// A publisher for tests: points over MQTT 5, at a pace.

import { once } from 'node:events';
import { connect } from 'node:net';

const STEP_MS = 10;

const text = (words) => {
  const bytes = Buffer.from(words);
  return Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 0xff]), bytes]);
};

/** A control packet (MQTT 5.0 section 2.1). */
function packet(first, body) {
  const length = [];
  for (let left = body.length; length.length === 0 || left > 0; left >>= 7) length.push((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
  return Buffer.concat([Buffer.from([first, ...length]), body]);
}

const CLEAN_START = 2;
const RETAINED_PUBLISH = 0x31;
const point = (topic, v) => packet(RETAINED_PUBLISH, Buffer.concat([text(topic), Buffer.from([0]), Buffer.from(JSON.stringify({ v, q: 'good' }))]));

export class Field {
  /** Connects to `host:port`. */
  static async open(address) {
    const field = new Field();
    const [host, port] = address.split(':');
    field.socket = connect(Number(port), host);
    field.socket.write(packet(0x10, Buffer.concat([text('MQTT'), Buffer.from([5, CLEAN_START, 0, 0, 0]), text('field')])));
    await once(field.socket, 'data');
    return field;
  }

  /** Publishes the value of each topic within a time; resolves to when the last was written, in ms since 1970. */
  async publish(topics, v, ms = 0) {
    const each = Math.ceil(topics.length / Math.max(1, ms / STEP_MS));
    const began = performance.now();
    for (let i = 0; i < topics.length; i += each) {
      await new Promise((done) => this.socket.write(Buffer.concat(topics.slice(i, i + each).map((topic) => point(topic, v))), done));
      const wait = began + ((i + each) / topics.length) * ms - performance.now();
      if (wait > 0) await new Promise((done) => setTimeout(done, wait));
    }
    return Date.now();
  }

  close() {
    this.socket.end();
  }
}
