/* The peer of `tieline bench bus`: a proxy of libzmq, a publisher and listeners to everything, over TCP.

   zmq LISTENERS FILE    FILE holds what is published in a round: for each message two numbers of 32 bits, the bytes of its
                         topic and of its payload, then both.

   Prints "ready". For each line of standard input it publishes all once, and prints the nanoseconds until every listener
   has compared the last. Proxy, publisher and listeners have a context each, as three processes would. No limit is set on
   queues, so nothing is dropped. */

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

struct message {
	uint32_t topic_bytes, payload_bytes;
	const char *topic, *payload;
};

static struct message *messages;
static size_t count;
static int listeners;
static char publish_at[64], listen_at[64];
/* A listener is connected and has a message; all have all. */
static sem_t warm, done;
/* A topic that is published until every listener is known at the proxy. */
static const char PROBE[] = "probe";

static void check(int is_good, const char *what)
{
	if (!is_good) {
		fprintf(stderr, "%s: %s\n", what, zmq_strerror(errno));
		exit(1);
	}
}

static void *open_socket(void *context, int type)
{
	int none = 0;
	void *opened = zmq_socket(context, type);
	check(opened != NULL, "zmq_socket");
	check(zmq_setsockopt(opened, ZMQ_SNDHWM, &none, sizeof none) == 0, "ZMQ_SNDHWM");
	check(zmq_setsockopt(opened, ZMQ_RCVHWM, &none, sizeof none) == 0, "ZMQ_RCVHWM");
	check(zmq_setsockopt(opened, ZMQ_LINGER, &none, sizeof none) == 0, "ZMQ_LINGER");
	return opened;
}

static void bind_any(void *socket, char *address, size_t bytes)
{
	check(zmq_bind(socket, "tcp://127.0.0.1:*") == 0, "zmq_bind");
	check(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, address, &bytes) == 0, "ZMQ_LAST_ENDPOINT");
}

static void *proxy(void *bound)
{
	void *context = zmq_ctx_new();
	void *from = open_socket(context, ZMQ_XSUB), *to = open_socket(context, ZMQ_XPUB);
	bind_any(from, publish_at, sizeof publish_at);
	bind_any(to, listen_at, sizeof listen_at);
	sem_post(bound);
	zmq_proxy(from, to, NULL);
	return NULL;
}

/* Receives a message of two parts; false where none is there. */
static int receive(void *socket, zmq_msg_t *topic, zmq_msg_t *payload)
{
	if (zmq_msg_recv(topic, socket, ZMQ_DONTWAIT) < 0) {
		check(errno == EAGAIN, "zmq_msg_recv");
		return 0;
	}
	check(zmq_msg_recv(payload, socket, 0) >= 0, "zmq_msg_recv");
	return 1;
}

static int is_equal(zmq_msg_t *part, const char *bytes, size_t length)
{
	return zmq_msg_size(part) == length && memcmp(zmq_msg_data(part), bytes, length) == 0;
}

static void *listen_all(void *unused)
{
	void *context = zmq_ctx_new();
	zmq_pollitem_t *items = calloc((size_t)listeners, sizeof *items);
	size_t *positions = calloc((size_t)listeners, sizeof *positions);
	char *is_warm = calloc((size_t)listeners, 1);
	check(items && positions && is_warm, "memory");
	for (int at = 0; at < listeners; at++) {
		items[at].socket = open_socket(context, ZMQ_SUB);
		items[at].events = ZMQ_POLLIN;
		check(zmq_setsockopt(items[at].socket, ZMQ_SUBSCRIBE, "", 0) == 0, "ZMQ_SUBSCRIBE");
		check(zmq_connect(items[at].socket, listen_at) == 0, "zmq_connect");
	}
	zmq_msg_t topic, payload;
	zmq_msg_init(&topic);
	zmq_msg_init(&payload);
	int left = listeners;
	for (;;) {
		check(zmq_poll(items, listeners, -1) >= 0, "zmq_poll");
		for (int at = 0; at < listeners; at++) {
			while ((items[at].revents & ZMQ_POLLIN) && receive(items[at].socket, &topic, &payload)) {
				if (is_equal(&topic, PROBE, sizeof PROBE)) {
					if (!is_warm[at]) {
						is_warm[at] = 1;
						sem_post(&warm);
					}
					continue;
				}
				const struct message *due = &messages[positions[at]];
				if (!is_equal(&topic, due->topic, due->topic_bytes) ||
				    !is_equal(&payload, due->payload, due->payload_bytes)) {
					fprintf(stderr, "a listener got something else in place of message %zu\n", positions[at]);
					exit(1);
				}
				positions[at] = (positions[at] + 1) % count;
				if (positions[at] == 0 && --left == 0) {
					left = listeners;
					sem_post(&done);
				}
			}
		}
	}
	return unused;
}

static void publish(void *socket, const char *topic, size_t topic_bytes, const char *payload, size_t payload_bytes)
{
	check(zmq_send(socket, topic, topic_bytes, ZMQ_SNDMORE) >= 0, "zmq_send");
	check(zmq_send(socket, payload, payload_bytes, 0) >= 0, "zmq_send");
}

static void load(const char *name)
{
	FILE *file = fopen(name, "rb");
	check(file != NULL, name);
	check(fseek(file, 0, SEEK_END) == 0, name);
	long bytes = ftell(file);
	rewind(file);
	char *all = malloc((size_t)bytes);
	check(all && fread(all, 1, (size_t)bytes, file) == (size_t)bytes, name);
	fclose(file);
	size_t room = 0;
	for (const char *at = all; at < all + bytes; count++) {
		if (count == room) {
			room = room ? 2 * room : 1024;
			messages = realloc(messages, room * sizeof *messages);
			check(messages != NULL, "memory");
		}
		struct message *next = &messages[count];
		memcpy(&next->topic_bytes, at, 4);
		memcpy(&next->payload_bytes, at + 4, 4);
		next->topic = at + 8;
		next->payload = next->topic + next->topic_bytes;
		at = next->payload + next->payload_bytes;
	}
}

static int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: zmq LISTENERS FILE\n");
		return 2;
	}
	listeners = atoi(argv[1]);
	load(argv[2]);
	pthread_t thread;
	sem_t bound;
	sem_init(&bound, 0, 0);
	sem_init(&warm, 0, 0);
	sem_init(&done, 0, 0);
	check(pthread_create(&thread, NULL, proxy, &bound) == 0, "pthread_create");
	sem_wait(&bound);
	check(pthread_create(&thread, NULL, listen_all, NULL) == 0, "pthread_create");
	void *publisher = open_socket(zmq_ctx_new(), ZMQ_PUB);
	check(zmq_connect(publisher, publish_at) == 0, "zmq_connect");
	for (int known = 0; known < listeners;) {
		struct timespec until;
		publish(publisher, PROBE, sizeof PROBE, "", 0);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 10000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		while (known < listeners && sem_timedwait(&warm, &until) == 0)
			known++;
	}
	puts("ready");
	fflush(stdout);
	for (char line[64]; fgets(line, sizeof line, stdin);) {
		int64_t began = now_ns();
		for (size_t at = 0; at < count; at++) {
			const struct message *next = &messages[at];
			publish(publisher, next->topic, next->topic_bytes, next->payload, next->payload_bytes);
		}
		sem_wait(&done);
		printf("%lld\n", (long long)(now_ns() - began));
		fflush(stdout);
	}
	return 0;
}
