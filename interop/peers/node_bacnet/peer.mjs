/**
 * node-bacnet as a device or as a client: `node peer.mjs device [PORT]`, `node peer.mjs client`. The line protocol is that of
 * `lines.py`: commands on standard input, a line of JSON each on standard output.
 *
 * The device has the instance 3001 and analog-input,1, analog-output,1 (with priorities), binary-input,1, multi-state-value,1.
 * Commands: `set TYPE,INSTANCE VALUE`, `silent yes|no`, `garbage yes|no`, `slow MS`, `subscriptions`, `forget`, `quit`. Each write of a
 * client is said.
 *
 * Commands of the client: `who-is ADDRESS`, `read ADDRESS TYPE,INSTANCE PROPERTY`, `read-multiple ADDRESS TYPE,INSTANCE PROPERTY…`,
 * `write ADDRESS TYPE,INSTANCE VALUE [PRIORITY]`, `subscribe ADDRESS TYPE,INSTANCE confirmed|unconfirmed`, `quit`. Each change that is
 * notified is said. Types and properties are numbers.
 */

import { createSocket } from "node:dgram";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const Bacnet = createRequire(import.meta.url)("node-bacnet");
const { ApplicationTag, ErrorClass, ErrorCode, Segmentation } = Bacnet.enum;
const INSTANCE = 3001;
const [role, port = "0"] = process.argv.slice(2);

const say = (words) => process.stdout.write(`${JSON.stringify(words)}\n`);

/** A port that is free now: the library takes none by itself. */
const freePort = () =>
  new Promise((found) => {
    const probe = createSocket("udp4");
    probe.bind(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => found(port));
    });
  });

const own = Number(port) || (await freePort());
const bacnet = new Bacnet({ port: own, interface: "127.0.0.1", broadcastAddress: "127.0.0.1", apduTimeout: 3000, reuseAddr: false });
bacnet.on("error", (error) => process.stderr.write(`${error.stack}\n`));

const objectOf = (text) => {
  const [type, instance] = text.split(",").map(Number);
  return { type, instance };
};
const keyOf = ({ type, instance }) => `${type},${instance}`;

// The device.

const text = (value) => [{ type: ApplicationTag.CHARACTER_STRING, value }];
const unsigned = (value) => [{ type: ApplicationTag.UNSIGNED_INTEGER, value }];
const enumerated = (value) => [{ type: ApplicationTag.ENUMERATED, value }];
const real = (value) => [{ type: ApplicationTag.REAL, value }];
const flags = () => [{ type: ApplicationTag.BIT_STRING, value: { bitsUsed: 4, value: [0] } }];

const object = (name, encode, value, more = {}) => ({ value, more, encode, name, priorities: null });
const objects = new Map([
  ["0,1", object("analog-input 1", real, 21.5, { 117: () => enumerated(62), 22: () => real(0.5) })],
  ["1,1", { ...object("analog-output 1", real, 5, { 117: () => enumerated(98) }), priorities: Array(16).fill(null) }],
  ["3,1", object("binary-input 1", enumerated, 1, { 4: () => text("alarm"), 46: () => text("normal") })],
  ["19,1", object("mode", unsigned, 3, { 74: () => unsigned(3), 110: () => [..."abc"].flatMap(text) })],
]);

const presentValue = (found) => found.priorities?.find((value) => value !== null) ?? found.value;

/** A property as the library takes it; an error code where there is none. */
function read(id, property, index) {
  const found = objects.get(keyOf(id));
  if (id.type === 8 && (id.instance === INSTANCE || id.instance === 4194303)) {
    const list = ["8,3001", ...objects.keys()].map((key) => ({ type: ApplicationTag.OBJECTIDENTIFIER, value: objectOf(key) }));
    const about = {
      75: [{ type: ApplicationTag.OBJECTIDENTIFIER, value: { type: 8, instance: INSTANCE } }],
      77: text("node-bacnet device"),
      121: text("node-bacnet"),
      70: text("peer"),
      44: text("0.2.4"),
      120: unsigned(0),
      62: unsigned(1476),
      107: enumerated(Segmentation.NO_SEGMENTATION),
      139: unsigned(14),
      155: unsigned(1),
      76: index === 0 ? unsigned(list.length) : index < 0xffffffff ? [list[index - 1]] : list,
    };
    return about[property] ?? ErrorCode.UNKNOWN_PROPERTY;
  }
  if (!found) return ErrorCode.UNKNOWN_OBJECT;
  if (property === 85) return found.encode(presentValue(found));
  if (property === 77) return text(found.name);
  if (property === 111) return flags();
  if (property === 87 && found.priorities) {
    const values = found.priorities.map((value) => (value === null ? { type: ApplicationTag.NULL, value: null } : found.encode(value)[0]));
    return index === 0 ? unsigned(16) : index < 0xffffffff ? [values[index - 1]] : values;
  }
  return found.more[property]?.() ?? ErrorCode.UNKNOWN_PROPERTY;
}

const classOf = (code) => (code === ErrorCode.UNKNOWN_OBJECT ? ErrorClass.OBJECT : ErrorClass.PROPERTY);
const subscriptions = new Map();
const device = { silent: false, slow: 0 };

/** Tells subscribers what an object is. */
function notify(key) {
  const found = objects.get(key);
  const values = [
    { property: { id: 85 }, value: found.encode(presentValue(found)) },
    { property: { id: 111 }, value: flags() },
  ];
  for (const { receiver, process, object, confirmed } of subscriptions.values()) {
    if (keyOf(object) !== key) continue;
    if (confirmed) bacnet.confirmedCOVNotification(receiver, object, process, INSTANCE, 60, values, {}, () => {});
    else bacnet.unconfirmedCOVNotification(receiver.address, process, INSTANCE, object, 60, values);
  }
}

function serve() {
  const on = (name, handle) =>
    bacnet.on(name, (message) => {
      if (!device.silent) setTimeout(handle, device.slow, message, message.header.sender, message.invokeId);
    });
  on("whoIs", ({ payload, header }) => {
    const { lowLimit, highLimit } = payload;
    if (lowLimit === undefined || (lowLimit <= INSTANCE && INSTANCE <= highLimit)) {
      bacnet.iAmResponse(header.sender, INSTANCE, Segmentation.NO_SEGMENTATION, 0);
    }
  });
  on("readProperty", ({ payload: { objectId, property } }, to, id) => {
    const value = read(objectId, property.id, property.index);
    if (Array.isArray(value)) bacnet.readPropertyResponse(to, id, objectId, property, value);
    else bacnet.errorResponse(to, Bacnet.enum.ConfirmedServiceChoice.READ_PROPERTY, id, classOf(value), value);
  });
  on("readPropertyMultiple", ({ payload: { properties } }, to, id) => {
    const answers = properties.map(({ objectId, properties }) => ({
      objectId,
      values: properties.map((property) => {
        const value = read(objectId, property.id, property.index);
        const error = { type: "BacnetError", errorClass: classOf(value), errorCode: value };
        return { property, value: Array.isArray(value) ? value : [{ value: error }] };
      }),
    }));
    bacnet.readPropertyMultipleResponse(to, id, answers);
  });
  on("writeProperty", ({ payload: { objectId, value } }, to, id) => {
    const found = objects.get(keyOf(objectId));
    const written = value.value[0];
    say({ write: { object: keyOf(objectId), value: written.value, priority: value.priority } });
    const service = Bacnet.enum.ConfirmedServiceChoice.WRITE_PROPERTY;
    if (!found?.priorities) return bacnet.errorResponse(to, service, id, ErrorClass.PROPERTY, ErrorCode.WRITE_ACCESS_DENIED);
    found.priorities[value.priority - 1] = written.type === ApplicationTag.NULL ? null : written.value;
    bacnet.simpleAckResponse(to, service, id);
    notify(keyOf(objectId));
  });
  on("subscribeCov", ({ payload }, receiver, id) => {
    const { subscriberProcessId: process, monitoredObjectId: object, cancellationRequest, issueConfirmedNotifications } = payload;
    const key = `${receiver.address} ${process} ${keyOf(object)}`;
    if (cancellationRequest) subscriptions.delete(key);
    else subscriptions.set(key, { receiver, process, object, confirmed: issueConfirmedNotifications });
    bacnet.simpleAckResponse(receiver, Bacnet.enum.ConfirmedServiceChoice.SUBSCRIBE_COV, id);
    if (!cancellationRequest) notify(keyOf(object));
  });
}

/** Answers everything with bytes that are no BACnet, or hardly. */
function babble() {
  const garbage = [Buffer.from("no BACnet"), Buffer.from("810a000801000c", "hex"), Buffer.from("810a00080100300001", "hex")];
  let next = 0;
  bacnet._transport.on("message", (_, to) => {
    if (!device.garbage) return;
    const bytes = garbage[next++ % garbage.length];
    bacnet._transport.send(bytes, bytes.length, to);
  });
}

const deviceCommands = {
  set: ([name, value]) => {
    objects.get(name).value = Number(value);
    notify(name);
  },
  silent: ([yes]) => void (device.silent = yes === "yes"),
  garbage: ([yes]) => void (device.silent = device.garbage = yes === "yes"),
  slow: ([milliseconds]) => void (device.slow = Number(milliseconds)),
  forget: () => subscriptions.clear(),
  subscriptions: () => ({ count: subscriptions.size }),
};

// The client.

/** Calls the library, whose last argument is told the end. */
const call = (method, ...words) =>
  new Promise((done, failed) => bacnet[method](...words, (error, found) => (error ? failed(error) : done(found))));

function hear() {
  bacnet.on("iAm", ({ payload }) => say({ device: payload }));
  const changed = ({ payload, header, invokeId }) => {
    const [value] = payload.values.map(({ property, value }) => property.id === 85 && value[0].value);
    say({ change: { object: keyOf(payload.monitoredObjectId), value, confirmed: header.confirmedService } });
    if (header.confirmedService) bacnet.simpleAckResponse(header.sender, Bacnet.enum.ConfirmedServiceChoice.CONFIRMED_COV_NOTIFICATION, invokeId);
  };
  bacnet.on("covNotifyUnconfirmed", changed);
  bacnet.on("covNotify", changed);
}

const clientCommands = {
  "who-is": ([address]) => void bacnet.whoIs(address && { address }),
  read: async ([address, id, property]) => {
    const { values } = await call("readProperty", address, objectOf(id), Number(property), {});
    return { values: values.map(({ value }) => value) };
  },
  "read-multiple": async ([address, id, ...properties]) => {
    const asked = [{ objectId: objectOf(id), properties: properties.map((property) => ({ id: Number(property) })) }];
    const { values } = await call("readPropertyMultiple", address, asked, {});
    return { values: values[0].values.map(({ value }) => value[0].value) };
  },
  write: async ([address, id, value, priority]) => {
    const written = value === "null" ? { type: ApplicationTag.NULL, value: null } : real(Number(value))[0];
    await call("writeProperty", address, objectOf(id), 85, [written], priority ? { priority: Number(priority) } : {});
  },
  subscribe: async ([address, id, how]) => {
    await call("subscribeCov", address, objectOf(id), 7, false, how === "confirmed", 60, {});
  },
};

if (role === "device") {
  serve();
  babble();
} else {
  hear();
}
bacnet._transport.on("listening", () => say({ listen: `127.0.0.1:${own}` }));
const commands = role === "device" ? deviceCommands : clientCommands;
for await (const line of createInterface({ input: process.stdin })) {
  const [verb, ...words] = line.trim().split(" ");
  if (verb === "quit") break;
  try {
    say({ answer: "ok", ...((await commands[verb](words)) ?? {}) });
  } catch (error) {
    say({ answer: "error", why: `${error.message}`, class: error.bacnetErrorClass, code: error.bacnetErrorCode });
  }
}
process.exit(0);
