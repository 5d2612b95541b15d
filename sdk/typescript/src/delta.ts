/**
 * Topics sent as what changed, decoded without any I/O (`Receiver`), and made (`Sender`); `mqtt.ts` joins it to MQTT.js. The format is docs/delta.md.
 *
 *     const receiver = new Receiver();
 *     receiver.handleSuback("feeder/#", "point,hunk");
 *     for (const event of receiver.handlePublish("feeder/amps", payload, alias, marked)) console.log(event);
 */

export { type Apply, Codecs, hunk } from "./codecs.js";
export { type Decoded, Decoder } from "./decoder.js";
export { hunkOf } from "./hunks.js";
export { Broken } from "./bytes.js";
export type { Point, PointValue, Validity } from "./point.js";
export { type Event, type Limits, MARK, matches, PROPERTY, Receiver, RESYNC_TOPIC } from "./receiver.js";
export { type Saying, Sender, type SenderLimits } from "./sender.js";
