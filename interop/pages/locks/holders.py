"""A program that has the lock, and one that waits for it."""

import json

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties


def acquire(name):
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5)
    client.connect("127.0.0.1", 1883)
    client.loop_start()
    client.subscribe(f"reply/{name}")
    answers = Properties(PacketTypes.PUBLISH)
    answers.ResponseTopic = f"reply/{name}"
    request = json.dumps({"lock": "plant/writer", "wait": "10m"})
    client.publish("$locks/acquire", request, qos=1, properties=answers).wait_for_publish()
    return client


first, second = acquire("writer-a"), acquire("writer-b")
second._thread.join()
