/* A Modbus server of libmodbus, over TCP or a serial line (RTU).
 *
 *   libmodbus_server tcp PORT          says {"listen": "127.0.0.1:PORT"}
 *   libmodbus_server rtu PATH UNIT     says {"listen": "PATH"}
 *
 * Commands, a line each, as of all peers (lines.py): `set TABLE ADDRESS VALUE…`, `get TABLE ADDRESS COUNT`, `silent N` (the next N
 * requests get no answer), `refuse N` (the next N get exception 6), `garbage N` (the next N get bytes that are no answer),
 * `delay MS` (every answer comes so much later), `quit`. It serves one connection at a time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <modbus.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADDRESSES 1000

static modbus_t *bus;
static modbus_mapping_t *map;
static long silent, refuse, garbage, delay_ms;

static void say(const char *text) {
    puts(text);
    fflush(stdout);
}

static void failed(const char *why) {
    printf("{\"answer\": \"error\", \"why\": \"%s\"}\n", why);
    fflush(stdout);
}

static int set(char *table, int address, char *values) {
    for (char *word = strtok(values, " "); word; word = strtok(NULL, " "), address++) {
        long value = strtol(word, NULL, 0);
        if (address < 0 || address >= ADDRESSES) return -1;
        if (!strcmp(table, "coils")) map->tab_bits[address] = value != 0;
        else if (!strcmp(table, "discrete-inputs")) map->tab_input_bits[address] = value != 0;
        else if (!strcmp(table, "holding-registers")) map->tab_registers[address] = (uint16_t)value;
        else if (!strcmp(table, "input-registers")) map->tab_input_registers[address] = (uint16_t)value;
        else return -1;
    }
    return 0;
}

static int value_at(const char *table, int address) {
    if (address < 0 || address >= ADDRESSES) return -1;
    if (!strcmp(table, "coils")) return map->tab_bits[address];
    if (!strcmp(table, "discrete-inputs")) return map->tab_input_bits[address];
    if (!strcmp(table, "input-registers")) return map->tab_input_registers[address];
    return map->tab_registers[address];
}

static void command(char *line) {
    char table[32], rest[512] = "";
    int address, count;
    line[strcspn(line, "\n")] = 0;
    if (!strcmp(line, "quit")) exit(0);
    if (sscanf(line, "set %31s %d %511[^\n]", table, &address, rest) == 3) {
        if (set(table, address, rest) < 0) return failed("no such address");
    } else if (sscanf(line, "get %31s %d %d", table, &address, &count) == 3) {
        printf("{\"answer\": \"ok\", \"values\": [");
        for (int i = 0; i < count; i++) printf("%s%d", i ? ", " : "", value_at(table, address + i));
        return say("]}");
    } else if (sscanf(line, "silent %ld", &silent) != 1 && sscanf(line, "refuse %ld", &refuse) != 1
               && sscanf(line, "garbage %ld", &garbage) != 1 && sscanf(line, "delay %ld", &delay_ms) != 1) {
        return failed("set, get, silent, refuse, garbage, delay or quit expected");
    }
    say("{\"answer\": \"ok\"}");
}

static void answer(const uint8_t *query, int length) {
    if (delay_ms) usleep((useconds_t)delay_ms * 1000);
    if (silent > 0) {
        silent--;
    } else if (refuse > 0) {
        refuse--;
        modbus_reply_exception(bus, query, MODBUS_EXCEPTION_SLAVE_OR_SERVER_BUSY);
    } else if (garbage > 0) {
        static const uint8_t noise[] = {0x55, 0xAA, 0x00, 0xFF, 0x13, 0x37, 0x00, 0x01, 0x02};
        garbage--;
        if (write(modbus_get_socket(bus), noise, sizeof noise) < 0) perror("write");
    } else {
        modbus_reply(bus, query, length, map);
    }
}

static int listen_tcp(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 4) < 0) {
        perror("listen");
        exit(1);
    }
    getsockname(listener, (struct sockaddr *)&at, &length);
    printf("{\"listen\": \"127.0.0.1:%d\"}\n", ntohs(at.sin_port));
    fflush(stdout);
    return listener;
}

int main(int argc, char **argv) {
    int is_rtu = argc > 3 && !strcmp(argv[1], "rtu"), listener = -1;
    bus = is_rtu ? modbus_new_rtu(argv[2], 19200, 'N', 8, 1) : modbus_new_tcp("127.0.0.1", 0);
    map = modbus_mapping_new(ADDRESSES, ADDRESSES, ADDRESSES, ADDRESSES);
    if (!bus || !map) return 1;
    if (is_rtu) {
        modbus_set_slave(bus, atoi(argv[3]));
        if (modbus_connect(bus) < 0) {
            fprintf(stderr, "%s\n", modbus_strerror(errno));
            return 1;
        }
        printf("{\"listen\": \"%s\"}\n", argv[2]);
        fflush(stdout);
    } else {
        listener = listen_tcp(argc > 2 ? atoi(argv[2]) : 0);
        modbus_set_socket(bus, -1);
    }
    for (;;) {
        fd_set ready;
        int connection = modbus_get_socket(bus), most = connection > listener ? connection : listener;
        FD_ZERO(&ready);
        FD_SET(0, &ready);
        if (listener >= 0) FD_SET(listener, &ready);
        if (connection >= 0) FD_SET(connection, &ready);
        if (select(most + 1, &ready, NULL, NULL, NULL) < 0) continue;
        if (FD_ISSET(0, &ready)) {
            char line[1024];
            size_t length = 0;
            ssize_t got;
            while (length < sizeof line - 1 && (got = read(0, line + length, 1)) == 1 && line[length] != '\n') length++;
            if (length == 0 && got <= 0) return 0;
            line[length] = 0;
            command(line);
        }
        if (listener >= 0 && FD_ISSET(listener, &ready)) {
            if (connection >= 0) close(connection);
            modbus_set_socket(bus, accept(listener, NULL, NULL));
        } else if (connection >= 0 && FD_ISSET(connection, &ready)) {
            uint8_t query[MODBUS_TCP_MAX_ADU_LENGTH];
            int length = modbus_receive(bus, query);
            if (length > 0) {
                answer(query, length);
            } else if (length < 0 && !is_rtu) {
                close(connection);
                modbus_set_socket(bus, -1);
            }
        }
    }
}
